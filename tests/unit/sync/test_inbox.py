"""The queue between reader and committer: one order for changes and messages, bounded in bytes."""

from __future__ import annotations

import asyncio

from syncd.core.batching import Gathering
from syncd.core.change import Reached, Upsert
from syncd.core.resource import Cause
from syncd.sync.inbox import Inbox, Opened, Relist, Task
from tests.fakes.value import item


def inbox(limit: int = 10_000, max_changes: int = 100) -> Inbox:
    return Inbox(lambda: Gathering(Cause.DELETED, max_changes=max_changes), limit=limit)


async def nothing() -> None:
    return None


async def test_a_message_stands_between_the_changes_around_it() -> None:
    queue = inbox()
    queue.put(Upsert(item("a", 1)), 1.0)
    queue.put(Reached("1"), 1.0)
    queue.post(Opened())
    queue.put(Upsert(item("b", 2)), 2.0)
    first, message, second = [await queue.take() for _ in range(3)]
    assert isinstance(first, tuple) and isinstance(second, tuple)
    assert (first[0].changes, first[0].reached, first[1]) == (1, "1", 1.0)
    assert message == Opened()
    assert (second[0].reached, second[1]) == (None, 2.0)
    assert queue.empty and queue.size == 0


async def test_what_does_not_fit_one_batch_stays_for_the_next() -> None:
    queue = inbox(max_changes=2)
    for number in range(5):
        queue.put(Upsert(item(f"p{number}", number + 1)), float(number))
    taken = [await queue.take() for _ in range(3)]
    assert [one[0].changes for one in taken if isinstance(one, tuple)] == [2, 2, 1]
    assert [one[1] for one in taken if isinstance(one, tuple)] == [0.0, 2.0, 4.0]


async def test_a_full_queue_has_room_again_once_something_is_taken() -> None:
    queue = inbox(limit=1000, max_changes=1)
    for number in range(3):
        queue.put(Upsert(item(f"p{number}", number + 1)), 0.0)
    assert queue.full
    waiting = asyncio.create_task(queue.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    while queue.full:
        await queue.take()
    await waiting


async def test_the_oldest_event_is_not_a_bookmark() -> None:
    queue = inbox()
    assert queue.oldest is None
    queue.put(Reached("1", bookmark=True), 1.0)
    assert queue.oldest is None
    queue.post(Opened())
    queue.put(Upsert(item("a", 2)), 2.0)
    assert queue.oldest == 2.0


async def test_clearing_voids_the_tasks_and_frees_the_reader() -> None:
    queue = inbox(limit=600)
    reasons: list[str] = []
    queue.put(Upsert(item("a", 1)), 0.0)
    queue.post(Task(nothing, reasons.append))
    queue.clear("because")
    assert reasons == ["because"]
    assert queue.empty and not queue.full
    await queue.room()


async def test_waiting_ends_with_either() -> None:
    queue = inbox()
    other: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(queue.wait_or(other))
    await asyncio.sleep(0)
    queue.post(Opened())
    await waiting
    queue.clear("")
    waiting = asyncio.create_task(queue.wait_or(other))
    await asyncio.sleep(0)
    assert not waiting.done()
    other.set_result(None)
    await waiting


def test_two_wishes_for_a_snapshot_are_one_that_does_what_both_ask() -> None:
    assert Relist("a").joined(None) == Relist("a")
    assert Relist("a").joined(Relist("b", content=True)) == Relist("a", content=True)
    assert Relist("a", content=True).joined(Relist("b")) == Relist("a", content=True)
