"""What another process can do to a SQLite file: hold its lock, and refuse some of its rows."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator

from tests.conftest import DatabasePlace


def _open(place: DatabasePlace) -> sqlite3.Connection:
    return sqlite3.connect(place.path, isolation_level=None, timeout=5, check_same_thread=False)


@contextlib.asynccontextmanager
async def locked_file(place: DatabasePlace) -> AsyncIterator[None]:
    """Another connection's writing transaction."""
    if not place.path.exists():
        yield
        return
    connection = _open(place)
    try:
        with contextlib.suppress(sqlite3.OperationalError):  # it is locked as it is
            await asyncio.to_thread(connection.execute, "BEGIN IMMEDIATE")
        yield
    finally:
        connection.close()


@contextlib.asynccontextmanager
async def refusing_file(place: DatabasePlace, pattern: str) -> AsyncIterator[None]:
    """Rows whose key is like the pattern are refused, as by a constraint."""
    if not place.path.exists():
        yield
        return
    made = []
    for verb in ("INSERT", "UPDATE"):
        statement = (
            f"CREATE TRIGGER refuse_{verb} BEFORE {verb} ON syncd_objects"
            f" WHEN NEW.object_key LIKE '{pattern}' BEGIN SELECT RAISE(ABORT, 'refused'); END"
        )
        with contextlib.suppress(sqlite3.OperationalError):  # no table yet, locked, or refused already
            await asyncio.to_thread(_tell, place, statement)
            made.append(f"DROP TRIGGER refuse_{verb}")
    try:
        yield
    finally:
        for statement in made:
            await asyncio.to_thread(_insist, place, statement)


def _tell(place: DatabasePlace, statement: str) -> None:
    with contextlib.closing(_open(place)) as connection:
        connection.execute(statement)


def _insist(place: DatabasePlace, statement: str) -> None:
    """However long the file is locked: windows are short."""
    for _ in range(5):
        with contextlib.suppress(sqlite3.OperationalError):
            return _tell(place, statement)
    return _tell(place, statement)
