"""The feed's contract: in the order of commits, nothing missed whoever commits late, cursors, gaps."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest

from syncd.app import feeding
from syncd.core.change import Batch, StreamRow
from syncd.core.history import History, Record
from syncd.core.resource import Resource, State, Stream
from syncd.store.database import Database
from syncd.store.feed import BEGINNING, ChangeRecord, Position, Wanted
from tests.contract.mirror_case import STREAM, Mirror, Place, gone, item, look, opened, settled

CHANGES = History(Record.CHANGES)
STREAMS, FOLLOWERS, COMMITS = 10, 10, 30


@pytest.fixture
async def mirror(place: Place) -> AsyncIterator[Mirror]:
    async with opened(place) as mirror:
        yield mirror


async def begun(mirror: Mirror, stream: Stream = STREAM) -> StreamRow:
    """A live stream that records."""
    row = await mirror.store.open(stream)
    batch = Batch(guarded=False, resource_version="1", state=State.LIVE, projection="p", history=CHANGES)
    return (await mirror.store.commit(row, batch)).row


async def write(mirror: Mirror, number: int) -> None:
    """A stream's life: objects come, change and go; every object's versions rise."""
    rand = random.Random(number)
    resource = Resource("example.com", "v1", f"things{number}", "Thing", namespaced=True)
    row = await begun(mirror, Stream("prod", resource))
    version = 1
    for _ in range(COMMITS):
        upserts, deletes = [], []
        for name in rand.sample(range(6), rand.randrange(1, 4)):
            version += 1
            key = f"a/{name}"
            if rand.random() < 0.25:
                deletes.append(gone(key, version))
            else:
                upserts.append(item(key, version, document=f'{{"n":{version}}}', kind="Thing"))
        batch = Batch(upserts=upserts, deletes=deletes, resource_version=str(version), history=CHANGES)
        row = (await mirror.store.commit(row, batch)).row
        await asyncio.sleep(rand.random() * 0.003)


async def follow(place: Place, name: str, told: list[ChangeRecord]) -> None:
    """A reader that is cut off now and then, before its cursor moved."""
    rand = random.Random(name)
    database = Database(place.url, place.schema)
    try:
        while True:
            start = await feeding.start(database, name, from_now=False)
            async with aclosing(feeding.pages(database, start.position, Wanted(), follow=True)) as pages:
                async for page in pages:
                    told.extend(page.changes)
                    if rand.random() < 0.1:
                        break
                    await database.advance(name, page.upto)
    finally:
        await database.close()


async def test_ten_followers_of_ten_writers_miss_nothing(mirror: Mirror) -> None:
    told: list[list[ChangeRecord]] = [[] for _ in range(FOLLOWERS)]
    followers = [asyncio.create_task(follow(mirror.place, f"reader-{n}", told[n])) for n in range(FOLLOWERS)]
    announcing = asyncio.create_task(feeding.announcing(mirror.database, mirror.store.recorded))
    await asyncio.gather(*(write(mirror, number) for number in range(STREAMS)))
    query = "SELECT sequence, object_key, resource_version, change_type, resource FROM syncd_changes"
    written = {row[0]: row for row in mirror.look(query)}
    assert len(written) > STREAMS * COMMITS
    async with asyncio.timeout(60):
        while not all({one.sequence for one in each} >= written.keys() for each in told):
            await asyncio.sleep(0.05)
    for task in (*followers, announcing):
        task.cancel()
    await asyncio.gather(*followers, announcing, return_exceptions=True)
    for each in told:
        assert {one.sequence for one in each} == written.keys()
        first = {one.sequence: one for one in reversed(each)}  # the first time that each was told
        order = sorted(first.values(), key=each.index)
        assert [one.position for one in order] == sorted(one.position for one in order)
        last: dict[tuple[str, str], int] = {}
        for one in order:
            key, version = (one.resource, one.object_key), int(one.resource_version)
            assert version > last.get(key, 0)
            last[key] = version


@pytest.mark.postgres
async def test_what_commits_late_is_waited_for(postgres_place: Place) -> None:
    async with opened(postgres_place) as mirror:
        row = await begun(mirror)
        row = (await mirror.put(row, item("a/1", 2), history=CHANGES)).row
        options = f"-c search_path={postgres_place.schema}"
        with psycopg.connect(postgres_place.url, options=options) as late:
            late.execute(
                "INSERT INTO syncd_changes (cluster, api_group, resource, object_key, kind, namespace, name,"
                " uid, resource_version, change_type, source, initial, committed_at)"
                " SELECT cluster, api_group, resource, 'a/late', kind, namespace, name, uid, '3',"
                " change_type, source, initial, committed_at FROM syncd_changes"
            )
            row = (await mirror.put(row, item("a/2", 4), history=CHANGES)).row
            async with asyncio.timeout(30):
                while not (await mirror.database.changes(BEGINNING, Wanted())).changes:
                    await asyncio.sleep(0.01)
            first = await mirror.database.changes(BEGINNING, Wanted())
            assert ([one.object_key for one in first.changes], first.settling) == (["a/1"], True)
            again = await mirror.database.changes(first.upto, Wanted())
            assert (again.changes, again.upto, again.settling) == ((), first.upto, True)
            late.commit()
        await settled(mirror)
        then = await mirror.database.changes(first.upto, Wanted())
        assert ([one.object_key for one in then.changes], then.settling) == (["a/late", "a/2"], False)
        assert then.upto == await mirror.database.newest_change()


async def test_pages_end_where_they_end(mirror: Mirror) -> None:
    row = await begun(mirror)
    await mirror.put(row, *[item(f"a/{n:02}", n + 2) for n in range(25)], history=CHANGES)
    await settled(mirror)
    page = await mirror.database.changes(BEGINNING, Wanted(), limit=10)
    assert (len(page.changes), page.more) == (10, True)
    page = await mirror.database.changes(page.upto, Wanted(), limit=10)
    page = await mirror.database.changes(page.upto, Wanted(), limit=10)
    assert (len(page.changes), page.more) == (5, False)
    found = [page async for page in feeding.pages(mirror.database, BEGINNING, Wanted(), follow=False)]
    assert [len(page.changes) for page in found] == [25]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Wanted(kinds=("pod",)), 4),
        (Wanted(kinds=("Pods", "deployments.apps")), 4),
        (Wanted(kinds=("pods.apps",)), 0),
        (Wanted(namespaces=("b",)), 1),
        (Wanted(clusters=("prod",), namespaces=("a", "c")), 3),
        (Wanted(clusters=("other",)), 0),
    ],
)
async def test_what_is_not_wanted_is_passed_over(mirror: Mirror, wanted: Wanted, found: int) -> None:
    row = await begun(mirror)
    await mirror.put(row, *[item(f"a/{n}", n + 2) for n in range(3)], item("b/1", 9), history=CHANGES)
    await settled(mirror)
    page = await mirror.database.changes(BEGINNING, wanted)
    assert len(page.changes) == found
    assert page.upto == await mirror.database.newest_change()
    late = replace(wanted, since=mirror.lease.now() + timedelta(hours=1))
    assert not (await mirror.database.changes(BEGINNING, late)).changes


async def test_a_cursor_says_where_to_go_on(mirror: Mirror) -> None:
    assert await mirror.database.cursor("audit") == (None, None)
    row = await begun(mirror)
    await mirror.put(row, item("a/1", 2), item("a/2", 3), history=CHANGES)
    await settled(mirror)
    page = await mirror.database.changes(BEGINNING, Wanted(), limit=1)
    for position in (page.upto, page.upto, Position(page.upto.transaction_id, page.upto.sequence)):
        await mirror.database.advance("audit", position)
    start = await feeding.start(mirror.database, "audit", from_now=True)
    assert (start.position, start.gap) == (page.upto, None)
    [reader] = (await mirror.database.status()).cursors
    assert (reader.name, reader.position, reader.behind) == ("audit", str(page.upto), 1)
    [left] = (await mirror.database.changes(start.position, Wanted())).changes
    assert left.object_key == "a/2"
    fresh = await feeding.start(mirror.database, "new", from_now=True)
    assert fresh.position == left.position


@pytest.mark.postgres
async def test_a_notification_wakes_who_waits(postgres_place: Place) -> None:
    async with opened(postgres_place) as mirror, mirror.database.listening() as wait:
        loop = asyncio.get_running_loop()
        waiting = asyncio.ensure_future(wait(60))
        await asyncio.sleep(0)
        look(postgres_place, "SELECT pg_notify('syncd_changes', 'another schema')")
        began = loop.time()
        while not waiting.done() and loop.time() - began < 30:
            await mirror.database.announce()
            await asyncio.sleep(0.02)
        assert waiting.done()
        await waiting
