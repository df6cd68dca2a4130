"""Streams that begin with a WatchList: list-watch.md §13.16–20, and what is done where a server cannot."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from syncd.core.errors import ConnectionLost, Invalid, NotAllowed, SyncdError, TooManyRequests
from syncd.core.resource import State
from syncd.sync.environment import Settings
from tests.fakes.api import OpenWatch, gone
from tests.fakes.bench import Bench
from tests.fakes.value import added, bookmark, deleted, failed, line, modified


def wished(bench: Bench, **changes: object) -> Settings:
    return bench.settings(watch_list=True, **changes)


def pods(bench: Bench, count: int) -> None:
    for number in range(count):
        bench.api.put(f"p{number:02}")


def initial(bench: Bench) -> list[bool]:
    """Of each watch so far, whether it was a WatchList."""
    return [request.initial_events for request in bench.api.watches]


def truth(bench: Bench) -> bytes:
    return b"".join(line("ADDED", bench.api.objects[key]) for key in sorted(bench.api.objects))


async def test_the_same_connection_brings_the_state_and_what_follows(bench: Bench) -> None:
    """16: rows in ranges, the checkpoint with the bookmark alone; no list, one watch."""
    pods(bench, 12)
    await bench.live(wished(bench, page_size=5))
    await bench.level()
    written = [
        (len(batch.upserts), batch.resource_version) for batch, _ in bench.store.commits if batch.upserts
    ]
    assert written == [(5, None), (5, None), (2, "112")]
    bench.api.put("later")
    bench.api.delete("p03")
    await bench.level()
    await bench.reached()
    assert (initial(bench), bench.api.lists) == ([True], [])
    assert bench.row().state is State.LIVE
    reflector = await bench.restart(wished(bench))
    await bench.watching(reflector)
    assert initial(bench) == [False]  # what is stored is resumed
    assert bench.written() == 0


async def test_a_relist_writes_only_what_differs_and_deletes_at_the_bookmark(bench: Bench) -> None:
    pods(bench, 10)
    await bench.live()
    await bench.reached()
    await bench.stop()
    bench.api.put("p03", changed=True)
    bench.api.delete("p00")
    bench.api.delete("p09")
    bench.api.forget()
    opened: list[OpenWatch] = []
    bench.api.initial.append(opened.append)
    await bench.restart(wished(bench, page_size=3))
    await bench.until(lambda: opened)
    opened[0].push(truth(bench))
    await bench.until(lambda: bench.table()["default/p03"] == "111")
    await asyncio.sleep(0.05)
    assert len(bench.table()) == 10, "nothing leaves before the version is known"
    assert bench.row().resource_version == "110"
    assert bench.row().state is State.SYNCING
    opened[0].push(bookmark(bench.api.rv, ends_initial=True))
    await bench.level()
    assert bench.tombstones() == {("default/p00", "113", "snapshot"), ("default/p09", "113", "snapshot")}
    assert bench.written() == 5
    assert initial(bench) == [False, True]


async def test_a_crash_before_the_bookmark_leaves_no_checkpoint(bench: Bench) -> None:
    pods(bench, 6)
    bench.api.initial.append(lambda watch: watch.push(truth(bench)))
    bench.start(wished(bench, page_size=2))
    await bench.until(lambda: len(bench.table()) == 6)
    await bench.stop()
    assert (bench.row().resource_version, bench.row().state) == (None, State.SYNCING)
    bench.api.delete("p01")
    await bench.restart(wished(bench, page_size=2))
    await bench.level()
    await bench.reached()
    assert bench.tombstones() == {("default/p01", "107", "snapshot")}


@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize("seed", range(8))
async def test_changes_between_the_objects_and_keys_out_of_order(
    bench: Bench, seed: int, ranges: bool
) -> None:
    """20, and the servers that let changes through before the bookmark."""
    random = Random(seed)
    pods(bench, 14)
    for name in ("p01", "p06", "p13", "zz"):
        bench.api.put(name)
    await bench.live()
    await bench.reached()
    await bench.stop()
    for name in random.sample(sorted(bench.api.objects), 6):  # these are gone already
        bench.api.delete(name.removeprefix("default/"))
    told = sorted(bench.api.objects)
    lines = [line("ADDED", bench.api.objects[key]) for key in told]
    if random.random() < 0.5:
        random.shuffle(lines)
    for key in random.sample(told, 5):
        name = key.removeprefix("default/")
        at = 1 + max(n for n, raw in enumerate(lines) if f'"name":"{name}"'.encode() in raw)
        at = random.randint(at, len(lines))
        version = bench.api.rv + 1
        if random.random() < 0.5:
            bench.api.delete(name)
            lines.insert(at, deleted(name, version))
            if random.random() < 0.5:
                value = bench.api.put(name, again=True)
                lines.insert(random.randint(at + 1, len(lines)), line("ADDED", value))
        else:
            lines.insert(at, line("MODIFIED", bench.api.put(name, changed=True)))
    bench.api.forget()
    end = bookmark(bench.api.rv, ends_initial=True)
    bench.api.initial.append(lambda watch: watch.push(b"".join(lines) + end))
    await bench.restart(wished(bench, page_size=random.randint(1, 5), ranges=ranges))
    await bench.level()
    await bench.reached()
    assert initial(bench) == [False, True]
    bench.api.put("after")
    await bench.level()


async def test_a_first_sync_with_changes_between_the_objects(bench: Bench) -> None:
    """Into an empty table, where nothing would be compared."""
    bench.api.rv = 110
    bench.api.objects = {"default/b": {"metadata": {"resourceVersion": "108"}}}
    told = (
        added("a", 101),
        added("b", 102),
        added("c", 103),
        modified("b", 108),
        deleted("a", 110),
        deleted("c", 109),
    )
    end = bookmark(110, ends_initial=True)
    bench.api.initial.append(lambda watch: watch.push(b"".join(told) + end))
    await bench.live(wished(bench, page_size=2))
    assert bench.table() == {"default/b": "108"}


# --- servers that cannot --------------------------------------------------------------------------


def answers(error: SyncdError) -> Callable[[Bench], object]:
    return lambda bench: bench.api.watch_answers.append(error)


def delivers(*raws: bytes, times: int = 1) -> Callable[[Bench], object]:
    """These, and then silence."""
    return lambda bench: bench.api.initial.extend([lambda watch: watch.push(b"".join(raws))] * times)


def ends(bench: Bench) -> None:
    def early(watch: OpenWatch) -> None:
        watch.push(added("p00", 101))
        watch.end()

    bench.api.initial.append(early)


@pytest.mark.parametrize(
    ("sign", "asked"),
    [
        (answers(Invalid(422, "Invalid", "sendInitialEvents: Forbidden")), 1),
        (answers(Invalid(400, "BadRequest")), 1),
        (answers(NotAllowed(405, "MethodNotAllowed")), 1),
        (answers(NotAllowed(406, "NotAcceptable")), 1),
        (delivers(failed(500, "InternalError")), 1),
        (delivers(added("p00", 101), bookmark(103)), 1),
        (delivers(added("p00", 101)), 1),
        (delivers(), 1),
        (ends, 1),
    ],
    ids=["422", "400", "405", "406", "internal", "plain-bookmark", "silence", "nothing", "ended"],
)
async def test_every_sign_of_a_server_that_cannot(
    bench: Bench, sign: Callable[[Bench], object], asked: int
) -> None:
    """17, 18, 19: a list at once, remembered for an hour, said once."""
    bench.timing = replace(bench.timing, initial_events=0.2, initial_silence=0.1)
    pods(bench, 3)
    sign(bench)
    reflector = bench.start(wished(bench))
    await bench.watching(reflector)
    await bench.level()
    assert initial(bench) == [*[True] * asked, False]
    assert len(bench.api.lists) == 1
    for _ in range(2):
        bench.api.watches.clear()
        reflector.relist("asked")
        bench.api.put("more", again=True)
        await bench.until(lambda: initial(bench) == [False])
        await bench.level()
    assert bench.log.events("info").count("no WatchList here: listing instead") == 1
    bench.clock.advance(bench.timing.watch_list_refused + 1)
    bench.api.watches.clear()
    reflector.relist("asked")
    await bench.until(lambda: initial(bench) == [True])


@pytest.mark.parametrize(
    "error",
    [gone(), TooManyRequests(429, "TooManyRequests"), ConnectionLost("refused")],
    ids=["410", "429", "refused"],
)
async def test_a_fault_like_any_other_is_tried_again(bench: Bench, error: SyncdError) -> None:
    pods(bench, 3)
    bench.api.watch_answers.append(error)
    await bench.live(wished(bench))
    await bench.level()
    assert (initial(bench), bench.api.lists) == ([True, True], [])


async def test_a_watch_list_that_the_server_ends_says_nothing_of_other_types(bench: Bench) -> None:
    """It ends one that falls behind the changes to its type; others of the group may have fewer."""
    pods(bench, 3)
    ends(bench)
    reflector = await bench.live(wished(bench))
    assert initial(bench) == [True, False]
    knows = reflector.feed.environment.knows_watch_list
    assert not knows(reflector.stream)
    assert knows(replace(reflector.stream, resource=replace(bench.api.resource, name="others")))
    assert bench.log.events("warning") == []


async def test_a_link_that_always_cuts_gets_a_list_in_the_end(bench: Bench) -> None:
    pods(bench, 3)

    def cut(watch: OpenWatch) -> None:
        watch.push(added("p00", 101))
        watch.push(ConnectionLost("reset", connected=True))

    bench.api.initial.extend([cut] * 9)
    reflector = await bench.live(wished(bench))
    await bench.level()
    assert initial(bench) == [True] * 4 + [False]
    bench.api.initial.clear()
    reflector.relist("asked")
    await bench.until(lambda: initial(bench)[-1])  # it was not the server's fault


async def test_a_slow_database_is_not_the_server_s_silence(bench: Bench) -> None:
    """And what is received waits in pages, bounded."""
    bench.timing = replace(bench.timing, initial_events=0.15, initial_silence=0.1)
    for number in range(60):
        bench.api.put(f"p{number:02}", blob="x" * 20_000)
    settings = wished(bench, page_size=2)
    bench.store.gate = asyncio.Event()
    bench.store.gate.set()
    reflector = bench.start(settings)
    await bench.until(lambda: bench.api.open)
    bench.store.gate.clear()
    await bench.until(lambda: reflector.inbox.full and bench.store.waiting)
    sizes = []
    for _ in range(40):
        await asyncio.sleep(0.01)
        sizes.append(reflector.inbox.size)
    assert max(sizes) < 2 * 2 * 21_000, "two pages wait, and no more"
    bench.store.gate.set()
    bench.store.gate = None
    await bench.level()
    assert (initial(bench), bench.api.lists) == ([True], [])


async def test_expired_tokens_lead_to_a_watch_list_whatever_is_wished(bench: Bench) -> None:
    """12"""
    pods(bench, 6)
    bench.api.list_answers.extend([None, gone(), None, gone()])
    await bench.live(bench.settings(page_size=2))
    await bench.level()
    assert [request.limit for request in bench.api.lists] == [2, 2, 2, 2]
    assert initial(bench) == [True]


# --- distrust -------------------------------------------------------------------------------------


async def test_a_rollback_is_seen_at_the_bookmark_and_deletes_nothing_before(bench: Bench) -> None:
    pods(bench, 6)
    old = [bench.api.objects[f"default/p{number:02}"] for number in range(3)]
    reflector = await bench.live(wished(bench))
    await bench.reached()
    bench.api.roll_back(103, old)
    bench.api.initial.append(
        lambda watch: watch.push(
            b"".join(line("ADDED", each) for each in old) + bookmark(103, ends_initial=True)
        )
    )
    reflector.relist("asked")
    await bench.until(lambda: bench.row().epoch == 2)
    await bench.level()
    assert bench.distrusted
    assert {version for _, version, _ in bench.tombstones()} == {"103"}


async def test_most_rows_gone_is_confirmed_by_a_list(bench: Bench) -> None:
    for number in range(120):
        bench.api.put(f"p{number:03}")
    reflector = await bench.live(wished(bench))
    await bench.reached()
    end = bookmark(bench.api.rv, ends_initial=True)
    bench.api.initial.append(
        lambda watch: watch.push(added("p000", 101) + end)
    )  # a server that has lost sight
    reflector.relist("asked")
    await bench.until(lambda: bench.api.lists)
    await bench.until(lambda: reflector.live and bench.api.open)
    assert (len(bench.table()), bench.tombstones()) == (120, set())
