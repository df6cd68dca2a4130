"""PostgreSQL: a commit in one statement: what it takes, what it leaves to several, who comes in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from syncd.core.change import Batch, StreamRow
from syncd.core.errors import FenceLost, StoreUnavailable
from syncd.core.resource import State
from syncd.store import fence, quick
from tests.contract.mirror_case import Mirror, Place, gone, item, look, opened

pytestmark = pytest.mark.postgres

VERSIONED = Batch(upserts=[item("a/x", 200), item("a/z", 201)], resource_version="201")


@pytest.fixture
async def mirror(postgres_place: Place) -> AsyncIterator[Mirror]:
    async with opened(postgres_place) as mirror:
        yield mirror


@pytest.fixture
def moves(monkeypatch: pytest.MonkeyPatch) -> list[StreamRow]:
    """The rows of commits that needed several statements."""
    seen: list[StreamRow] = []
    real = fence.move

    async def move(connection: Any, row: StreamRow, *rest: Any) -> Any:
        seen.append(row)
        return await real(connection, row, *rest)

    monkeypatch.setattr(fence, "move", move)
    return seen


@pytest.fixture
def between(postgres_place: Place) -> Iterator[psycopg.Connection[Any]]:
    """Another session, in a transaction."""
    options = f"-c search_path={postgres_place.schema}"
    with psycopg.connect(postgres_place.url, options=options) as session:
        yield session


async def waits(place: Place) -> None:
    """Until some session waits for a lock of another."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = '{}' AND wait_event_type = 'Lock'"
    async with asyncio.timeout(30):
        while look(place, query.format(place.application)) != [(1,)]:
            await asyncio.sleep(0.01)


async def test_the_usual_batch_is_one_statement(mirror: Mirror, moves: list[StreamRow]) -> None:
    row = await mirror.open(item("a/x", 100), item("a/y", 101))
    batch = replace(VERSIONED, deletes=[gone("a/y", 202)], state=State.LIVE, resource_version="202")
    done = await mirror.store.commit(row, batch)
    assert (done.inserted, done.updated, done.deleted, done.tombstones) == (1, 1, 1, 1)
    assert done.row == await mirror.store.read(row.stream_id)
    done = await mirror.store.commit(done.row, Batch(resource_version="300"))
    assert (done.row.resource_version, done.row.object_count, done.updated) == ("300", 2, 0)
    assert moves == []


@pytest.mark.parametrize(
    "batch",
    [
        Batch(upserts=[item("a/x", 200, "another")]),
        Batch(upserts=[item("a/x", 200)], deletes=[gone("a/x", 199)]),
        Batch(deletes=[gone("a/x", 200, "another")]),
        Batch(deletes=[gone("a/x", 200, seen=False)]),
        Batch(upserts=[item(f"b/{n:03}", 200) for n in range(quick.SIZES[-1] + 1)]),
        Batch(projection="other"),
    ],
)
async def test_what_is_not_usual_takes_several(mirror: Mirror, moves: list[StreamRow], batch: Batch) -> None:
    row = await mirror.open(item("a/x", 100))
    await mirror.store.commit(row, batch)
    assert moves == [row]


async def test_a_stream_with_quarantine_takes_several(mirror: Mirror, moves: list[StreamRow]) -> None:
    row = await mirror.open(item("a/x", 100))
    done = await mirror.put(row, item("a/y", 101), item("a/bad", 102, document="{"), resource_version="102")
    assert (done.inserted, done.quarantined) == (1, 1)
    moves.clear()
    healed = await mirror.put(done.row, item("a/bad", 103))
    assert healed.inserted == 1
    assert moves == [done.row]


async def test_another_who_only_says_something_of_the_stream_is_waited_for(
    mirror: Mirror, moves: list[StreamRow], between: psycopg.Connection[Any]
) -> None:
    row = await mirror.open(item("a/x", 100))
    between.execute("UPDATE syncd_streams SET lag_seconds = 3")
    task = asyncio.create_task(mirror.store.commit(row, VERSIONED))
    await waits(mirror.place)
    between.commit()
    done = await task
    assert (done.inserted, done.updated, done.row.object_count) == (1, 1, 2)
    assert moves == [row]  # the snapshot was older than what it waited for, so that nothing was decided by it
    assert mirror.look("SELECT lag_seconds, object_count FROM syncd_streams") == [(3.0, 2)]


async def test_a_row_that_moves_while_the_statement_waits_is_lost(
    mirror: Mirror, between: psycopg.Connection[Any]
) -> None:
    row = await mirror.open(item("a/x", 100))
    between.execute("UPDATE syncd_streams SET holder = 'another'")
    task = asyncio.create_task(mirror.store.commit(row, VERSIONED))
    await waits(mirror.place)
    between.commit()
    with pytest.raises(FenceLost):
        await task
    assert mirror.versions() == {"a/x": "100"}


async def test_a_commit_whose_answer_was_lost_is_not_counted_twice(
    mirror: Mirror, between: psycopg.Connection[Any]
) -> None:
    """The first try still runs in its backend when the second comes, and the version stays the same."""
    row = await mirror.open(item("a/x", 100))
    between.execute(
        "INSERT INTO syncd_objects SELECT cluster, api_group, resource, 'a/z', stream_id, namespace,"
        " api_version, kind, 'z', uid, '201', 201, generation, creation_timestamp, deletion_timestamp,"
        " owner_uid, first_seen_at, committed_at, labels, annotations, object FROM syncd_objects"
    )
    between.execute("UPDATE syncd_streams SET object_count = 2")
    again = Batch(upserts=[item("a/z", 201)], guarded=False)
    task = asyncio.create_task(mirror.store.commit(row, again))
    await waits(mirror.place)
    between.commit()
    done = await task
    assert (done.updated, done.row.object_count) == (1, 2)


async def test_a_session_killed_while_it_waits(mirror: Mirror, between: psycopg.Connection[Any]) -> None:
    row = await mirror.open(item("a/x", 100))
    between.execute("SELECT 1 FROM syncd_streams FOR UPDATE")
    task = asyncio.create_task(mirror.store.commit(row, VERSIONED))
    await waits(mirror.place)
    between.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    between.rollback()
    with pytest.raises(StoreUnavailable):
        await task
    assert await mirror.store.read(row.stream_id) == row
    assert mirror.versions() == {"a/x": "100"}
    assert (await mirror.store.commit(row, VERSIONED)).row.resource_version == "201"


async def test_a_connection_comes_back_with_transactions(mirror: Mirror) -> None:
    row = await mirror.open(item("a/x", 100))
    await mirror.store.commit(row, VERSIONED)
    with pytest.raises(ZeroDivisionError):  # noqa: PT012 - the transaction is one
        async with mirror.database.engine.writing() as connection:
            await connection.exec_driver_sql("DELETE FROM syncd_objects")
            raise ZeroDivisionError
    assert mirror.versions() == {"a/x": "200", "a/z": "201"}


async def test_a_session_prepares_few_statements(mirror: Mirror) -> None:
    row = await mirror.open()
    for number in range(1, 40):
        rows = [item(f"a/{n}", number * 100, generation=number**4 * n) for n in range(1 + number % 3)]
        row = (await mirror.put(row, *rows, resource_version=str(number * 100))).row
    async with mirror.database.engine.autocommit() as raw:
        cursor = await raw.execute("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE 'WITH%'")
        assert await cursor.fetchone() == (3,)
