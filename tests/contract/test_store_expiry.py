"""How long changes are kept: by age, by rows, whole for every moment that is kept; and who is told."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from syncd.app import feeding
from syncd.core.change import Batch, StreamRow
from syncd.core.errors import StoreError
from syncd.core.history import History, Record
from syncd.core.resource import State
from syncd.store.column import time_text
from syncd.store.feed import BEGINNING, Wanted
from syncd.store.retention import Kept
from tests.contract.mirror_case import STREAM, Mirror, Place, Ticking, gone, item, look, opened, settled

CHANGES, VERSIONS = History(Record.CHANGES), History(Record.VERSIONS)
WEEK = timedelta(days=7)


@pytest.fixture
async def aging(place: Place) -> AsyncIterator[tuple[Mirror, Ticking]]:
    clock = Ticking()
    async with opened(place, clock=clock) as mirror:
        yield mirror, clock


async def begun(mirror: Mirror, history: History) -> StreamRow:
    row = await mirror.store.open(STREAM)
    batch = Batch(guarded=False, resource_version="1", state=State.LIVE, projection="p", history=history)
    return (await mirror.store.commit(row, batch)).row


def version(key: str, number: int) -> Any:
    return item(key, number, document=json.dumps({"kind": "Pod", "n": number}))


async def purge(mirror: Mirror, age: timedelta = WEEK, rows: int = 1000) -> int:
    return await mirror.database.purge(mirror.lease, keep=100 * WEEK, changes=Kept(age, rows))


def left(mirror: Mirror) -> list[tuple[str, str]]:
    return mirror.look("SELECT object_key, resource_version FROM syncd_changes ORDER BY sequence")


async def test_what_is_old_goes(aging: tuple[Mirror, Ticking]) -> None:
    mirror, clock = aging
    row = await begun(mirror, CHANGES)
    row = (await mirror.put(row, *[version(f"a/{n}", 2 + n) for n in range(700)], history=CHANGES)).row
    clock.pass_by(timedelta(days=5))
    await mirror.put(row, version("b/1", 2000), history=CHANGES)
    assert await purge(mirror) == 0
    clock.pass_by(timedelta(days=3))
    assert await purge(mirror) == 700
    assert left(mirror) == [("b/1", "2000")]


async def test_no_more_rows_than_asked_for(aging: tuple[Mirror, Ticking]) -> None:
    mirror, _ = aging
    row = await begun(mirror, CHANGES)
    for number in range(30):
        row = (await mirror.put(row, version("a/1", 2 + number), history=CHANGES)).row
    assert await purge(mirror, rows=10) == 20
    assert left(mirror) == [("a/1", str(22 + n)) for n in range(10)]
    assert await purge(mirror, rows=10) == 0


async def test_the_last_version_from_before_stays(aging: tuple[Mirror, Ticking]) -> None:
    mirror, clock = aging
    row = await begun(mirror, VERSIONS)
    first = [version("a/quiet", 2), version("a/busy", 3), version("a/gone", 4)]
    row = (await mirror.put(row, *first, history=VERSIONS)).row
    row = (await mirror.put(row, version("a/busy", 5), history=VERSIONS)).row
    row = (await mirror.drop(row, gone("a/gone", 6), history=VERSIONS)).row
    clock.pass_by(timedelta(days=8))
    row = (await mirror.put(row, version("a/busy", 7), history=VERSIONS)).row
    assert await purge(mirror) == 3
    assert left(mirror) == [("a/quiet", "2"), ("a/busy", "5"), ("a/busy", "7")]
    clock.pass_by(timedelta(days=8))
    assert await purge(mirror) == 1
    assert left(mirror) == [("a/quiet", "2"), ("a/busy", "7")]


DOCS = Path(__file__).parents[2] / "docs" / "schema.md"


def as_of(place: Place, moment: datetime) -> str:
    """The query of each dialect; SQLite's as the docs have it."""
    if place.dialect == "postgresql":
        return f"SELECT object_key, object->>'n' FROM syncd_as_of('{moment.isoformat()}') ORDER BY 1"
    [query] = [
        block for block in re.findall(r"```sql\n(.*?)```", DOCS.read_text(), re.DOTALL) if "max(" in block
    ]
    asked = query.replace("2026-01-01 12:00:00.000000", time_text(moment))
    return f"SELECT object_key, CAST(object->>'n' AS text) FROM ({asked}) ORDER BY 1"


async def test_as_of_a_moment(place: Place) -> None:
    clock = Ticking()
    async with opened(place, clock=clock) as mirror:
        row = await begun(mirror, VERSIONS)
        moments = []
        for batch in (
            Batch(upserts=[version("a/1", 2), version("a/2", 3)], history=VERSIONS),
            Batch(upserts=[version("a/1", 4)], history=VERSIONS),
            Batch(deletes=[gone("a/2", 5)], upserts=[version("a/3", 6)], history=VERSIONS),
        ):
            clock.pass_by(timedelta(days=1))
            row = (await mirror.store.commit(row, batch)).row
            moments.append(mirror.lease.now() + timedelta(hours=1))
        then = [
            [("a/1", "2"), ("a/2", "3")],
            [("a/1", "4"), ("a/2", "3")],
            [("a/1", "4"), ("a/3", "6")],
        ]
        assert [mirror.look(as_of(place, moment)) for moment in moments] == then
        assert mirror.look(as_of(place, datetime(2020, 1, 1, tzinfo=UTC))) == []
        clock.pass_by(timedelta(days=6, hours=12))
        assert await purge(mirror) == 1
        assert [mirror.look(as_of(place, moment)) for moment in moments[2:]] == then[2:]
        if place.dialect == "postgresql":
            with pytest.raises(psycopg.Error, match="no longer kept"):
                mirror.look(as_of(place, moments[0]))


async def test_a_cursor_that_fell_behind_is_told(aging: tuple[Mirror, Ticking]) -> None:
    mirror, clock = aging
    row = await begun(mirror, CHANGES)
    row = (await mirror.put(row, version("a/1", 2), version("a/2", 3), history=CHANGES)).row
    await settled(mirror)
    page = await mirror.database.changes(BEGINNING, Wanted(), limit=1)
    await mirror.database.advance("slow", page.upto)
    await mirror.database.advance("level", await settled(mirror))
    clock.pass_by(timedelta(days=8))
    row = (await mirror.put(row, version("a/3", 4), history=CHANGES)).row
    await purge(mirror)
    await settled(mirror)
    start = await feeding.start(mirror.database, "slow", from_now=False)
    assert start.gap is not None
    assert (await feeding.start(mirror.database, "level", from_now=False)).gap is None
    [change] = (await mirror.database.changes(start.position, Wanted())).changes
    assert change.object_key == "a/3"
    await mirror.database.advance("slow", change.position)
    assert (await feeding.start(mirror.database, "slow", from_now=False)).gap is None


async def test_retention_needs_the_lease(aging: tuple[Mirror, Ticking]) -> None:
    mirror, _ = aging
    look(mirror.place, "UPDATE syncd_leases SET token = 'another'")
    with pytest.raises(StoreError):
        await purge(mirror)


@pytest.mark.postgres
async def test_changes_from_another_server_keep_their_order(postgres_place: Place) -> None:
    async with opened(postgres_place) as mirror:
        row = await begun(mirror, CHANGES)
        for number in range(6):
            row = (await mirror.put(row, version(f"a/{number}", 2 + number), history=CHANGES)).row
        assert not await mirror.database.reorder_changes(mirror.lease)
        # transactions of a server far ahead, in an order that the sequence does not tell
        look(
            postgres_place,
            "UPDATE syncd_changes SET transaction_id = (900000000 - sequence)::text::xid8",
        )
        look(
            postgres_place,
            "INSERT INTO syncd_cursors SELECT 'half', transaction_id, sequence, now() FROM syncd_changes"
            " WHERE object_key = 'a/3'",
        )
        assert not (await mirror.database.changes(BEGINNING, Wanted())).changes
        assert await mirror.database.reorder_changes(mirror.lease)
        await settled(mirror)
        found = (await mirror.database.changes(BEGINNING, Wanted())).changes
        assert [one.object_key for one in found] == [f"a/{n}" for n in (5, 4, 3, 2, 1, 0)]
        row = (await mirror.put(row, version("a/new", 100), history=CHANGES)).row
        await settled(mirror)
        start = await feeding.start(mirror.database, "half", from_now=False)
        rest = (await mirror.database.changes(start.position, Wanted())).changes
        assert [one.object_key for one in rest] == ["a/2", "a/1", "a/0", "a/new"]
        assert not await mirror.database.reorder_changes(mirror.lease)
