"""Queries of somebody's own: answered, and unable to change anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from syncd.core.errors import QueryError, SchemaMismatch
from syncd.store.database import Database
from syncd.store.query import PAGE
from tests.conftest import Begin, DatabasePlace
from tests.contract.mirror_case import item, look, opened


async def answer(database: Database, text: str, seconds: float = 60.0) -> tuple[tuple[str, ...], list[Any]]:
    rows: list[Sequence[Any]] = []
    async with database.asking(text, seconds) as found:
        async for page in found.pages:
            assert len(page) <= PAGE
            rows += page
        return found.columns, rows


async def test_a_query_has_columns_and_rows(place: DatabasePlace) -> None:
    async with opened(place) as mirror:
        await mirror.open(*(item(f"shop/{number:05}", 1, f"u{number}") for number in range(2 * PAGE + 1)))
        columns, rows = await answer(
            mirror.database, "SELECT name, '100%s' AS b FROM syncd_objects ORDER BY name;"
        )
        assert columns == ("name", "b")
        assert [row[0] for row in rows] == [f"{number:05}" for number in range(2 * PAGE + 1)]
        assert await answer(mirror.database, "SELECT name FROM syncd_objects WHERE 1 = 0 -- none") == (
            ("name",),
            [],
        )
        _, plan = await answer(mirror.database, "/* why */ EXPLAIN SELECT 1")
        assert plan


WRITES = (
    "DELETE FROM syncd_objects",
    "UPDATE syncd_objects SET name = 'x'",
    "INSERT INTO syncd_cursors SELECT * FROM syncd_cursors",
    "SELECT 1; DELETE FROM syncd_objects",
    "EXPLAIN SELECT 1; DELETE FROM syncd_objects",
    "COMMIT; DELETE FROM syncd_objects",
    "DROP TABLE syncd_objects",
    "CREATE TABLE mine (a integer)",
    "BEGIN",
)
ONLY = {
    "postgresql": (
        "WITH gone AS (DELETE FROM syncd_objects RETURNING 1) SELECT * FROM gone",
        "EXPLAIN ANALYZE DELETE FROM syncd_objects",
        "COPY syncd_objects TO PROGRAM 'cat'",
        "SELECT nextval('syncd_streams_stream_id_seq')",
        "DO $$ BEGIN DELETE FROM syncd_objects; END $$",
        "SET TRANSACTION READ WRITE",
    ),
    "sqlite": (
        "PRAGMA query_only = OFF",
        "PRAGMA journal_mode = DELETE",
        "ATTACH '{}.other' AS other",
        "VACUUM INTO '{}.copy'",
    ),
}


async def test_nothing_that_writes_is_let_through(place: DatabasePlace) -> None:
    async with opened(place) as mirror:
        await mirror.open(item("shop/a", 1))
        for text in (*WRITES, *ONLY[place.dialect]):
            text = text.replace("{}", place.url.removeprefix("sqlite:///"))
            with pytest.raises(QueryError):
                await answer(mirror.database, text)
            assert look(place, "SELECT name FROM syncd_objects") == [("a",)], text
        if place.dialect == "sqlite":
            assert not [path for path in place.path.parent.iterdir() if path.suffix in (".other", ".copy")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT * FROM podz", "`syncd tables` lists"),
        ("SELECT nosuch FROM syncd_objects", "`syncd tables NAME` lists"),
        ("SELEC 1", "SELEC"),
    ],
)
async def test_what_is_wrong_is_said_in_a_line(place: DatabasePlace, text: str, said: str) -> None:
    async with opened(place) as mirror:
        with pytest.raises(QueryError) as caught:
            await answer(mirror.database, text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_a_query_that_takes_too_long_is_ended(place: DatabasePlace) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000000)"
    async with opened(place) as mirror:
        with pytest.raises(QueryError, match=r"not done in 0.1 s; .*--timeout"):
            await answer(mirror.database, f"{endless} SELECT count(*) FROM n", 0.1)
        assert await answer(mirror.database, "SELECT 7 AS seven") == (("seven",), [(7,)])


async def test_an_answer_may_be_left_half_read(place: DatabasePlace) -> None:
    async with opened(place) as mirror:
        await mirror.open(*(item(f"shop/{number:05}", 1, f"u{number}") for number in range(2 * PAGE)))
        async with mirror.database.asking("SELECT name FROM syncd_objects") as found:
            assert len(await anext(found.pages)) == PAGE
        assert await answer(mirror.database, "SELECT 7 AS seven") == (("seven",), [(7,)])


@pytest.mark.parametrize("begin", [Begin.NOTHING])
async def test_a_file_that_is_not_there_is_not_made(sqlite_place: DatabasePlace) -> None:
    database = Database(sqlite_place.url)
    with pytest.raises(SchemaMismatch, match="syncd migrate"):
        await answer(database, "SELECT 1")
    assert not sqlite_place.path.exists()
    await database.close()
