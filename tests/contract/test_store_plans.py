"""SQLite looks the rows of a batch up by their keys: whatever read a whole type would be quadratic."""

from __future__ import annotations

import sqlite3
from collections import defaultdict

import pytest

from syncd.core.history import History, Record
from syncd.store import sqlite
from syncd.store.database import Database
from tests.contract.mirror_case import Place

CHANGES = History(Record.CHANGES)
STATEMENTS = {
    "record": sqlite._record(CHANGES),
    "record_merge": sqlite._record_merge(CHANGES),
    **{
        name: getattr(sqlite, name)
        for name in dir(sqlite)
        if name.startswith(("_REFUSE", "_COMPARE", "_BURY", "_REMOVE", "_RECORD_")) and name != "_COMPARED"
    },
}


@pytest.mark.parametrize("name", STATEMENTS)
async def test_rows_are_looked_up_by_key(sqlite_place: Place, name: str) -> None:
    database = Database(sqlite_place.url)
    await database.migrate()
    await database.close()
    session = sqlite3.connect(sqlite_place.url.removeprefix("sqlite:///"))
    try:
        session.create_function("syncd_changed_paths", 3, sqlite.paths_of)
        for statement in sqlite.TEMPORARY:
            session.execute(statement)
        values: dict[str, object] = defaultdict(str, keys="[]")
        plan = [row[3] for row in session.execute(f"EXPLAIN QUERY PLAN {STATEMENTS[name]}", values)]
    finally:
        session.close()
    touched = [step for step in plan if "syncd_objects" in step or " o " in f"{step} "]
    assert touched
    assert all("object_key=?" in step or "rowid=?" in step for step in touched), plan
