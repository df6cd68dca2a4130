"""First sync, resume and relist: list-watch.md §13, by number."""

from __future__ import annotations

from syncd.core.errors import Invalid
from syncd.core.resource import State
from tests.fakes.api import gone
from tests.fakes.bench import Bench
from tests.fakes.value import page


async def test_first_sync_in_pages(bench: Bench) -> None:
    """1 and 9: several pages at one version; the rows, the version and LIVE in one commit."""
    for number in range(12):
        bench.api.put(f"p{number:02}")
    await bench.live(bench.settings(page_size=5))
    await bench.level()
    pages = list(bench.api.lists)
    assert [request.limit for request in pages] == [5, 5, 5]
    assert pages[0].continue_token is None and pages[1].continue_token
    batch, done = next(pair for pair in bench.store.commits if pair[0].resource_version)
    assert (batch.state, batch.resource_version, done.row.object_count) == (State.LIVE, "112", 12)
    assert bench.row().resource_version == "112"


async def test_what_the_watch_brings_is_mirrored(bench: Bench) -> None:
    bench.api.put("a")
    await bench.live()
    bench.api.put("b")
    bench.api.put("a", changed=True)
    bench.api.delete("b")
    await bench.level()
    await bench.reached()
    assert bench.tombstones() == {("default/b", "104", "deleted")}


async def test_restart_with_nothing_changed(bench: Bench) -> None:
    """2: one probe and one watch, no other list, no row written."""
    for number in range(5):
        bench.api.put(f"p{number}")
    await bench.live()
    await bench.reached()
    reflector = await bench.restart()
    await bench.watching(reflector)
    assert [request.limit for request in bench.api.lists] == [1]
    assert [request.resource_version for request in bench.api.watches] == ["105"]
    assert bench.written() == 0
    assert bench.row().resource_version == "105"


async def test_restart_after_changes(bench: Bench) -> None:
    """3: exactly those are applied."""
    for number in range(5):
        bench.api.put(f"p{number}")
    await bench.live()
    await bench.reached()
    await bench.stop()
    bench.api.put("p1", changed=True)
    bench.api.put("new")
    bench.api.delete("p2")
    await bench.restart()
    await bench.level()
    assert bench.written() == 4  # an update, an insert, a deletion and its tombstone
    assert len(bench.api.lists) == 1


async def test_downtime_beyond_history(bench: Bench) -> None:
    """4: 410 in the stream; rows never vanish in between, unchanged ones are not rewritten."""
    await outlive(bench, in_stream=True)


async def test_downtime_beyond_history_told_by_status(bench: Bench) -> None:
    """5"""
    await outlive(bench, in_stream=False)


async def outlive(bench: Bench, *, in_stream: bool) -> None:
    for number in range(10):
        bench.api.put(f"p{number}")
    await bench.live()
    await bench.reached()
    await bench.stop()
    bench.api.put("p3", changed=True)
    bench.api.delete("p4")
    bench.api.forget()
    bench.api.expired_in_stream = in_stream
    reflector = await bench.restart(bench.settings(page_size=4))
    await bench.level()
    await bench.until(lambda: reflector.live and bench.row().resource_version == "112")
    assert bench.written() == 3  # an update, a deletion, a tombstone; the other eight rows rest
    assert bench.tombstones() == {("default/p4", "112", "snapshot")}
    assert min(done.row.object_count for _, done in bench.store.commits) >= 9


async def test_a_page_without_items_before_the_first_key(bench: Bench) -> None:
    """10: it speaks for nothing, and deletes nothing."""
    for number in range(5):
        bench.api.put(f"p{number}")
    await bench.live()
    await bench.reached()
    await bench.stop()
    bench.api.forget()
    bench.api.put("q")
    bench.api.forget()
    # The first list answers the probe.
    bench.api.list_answers.extend([None, lambda truth: page(bench.api.rv, [], f"{bench.api.rv}|")])
    await bench.restart()
    await bench.level()
    assert bench.tombstones() == set()
    assert bench.written() == 1


async def test_an_expired_token_begins_the_list_anew(bench: Bench) -> None:
    """11"""
    for number in range(6):
        bench.api.put(f"p{number}")
    bench.api.list_answers.extend([None, gone("inconsistent")])
    await bench.live(bench.settings(page_size=2))
    await bench.level()
    assert [bool(request.continue_token) for request in bench.api.lists] == [False, True, False, True, True]
    assert all(request.continue_token != "inconsistent" for request in bench.api.lists)


async def test_a_token_that_expires_twice_leads_to_one_list_of_everything(bench: Bench) -> None:
    """12"""
    for number in range(6):
        bench.api.put(f"p{number}")
    bench.api.list_answers.extend([None, gone(), None, gone()])
    bench.api.watch_answers.append(Invalid(422, "Invalid"))  # it knows no WatchList
    await bench.live(bench.settings(page_size=2))
    await bench.level()
    assert [request.limit for request in bench.api.lists] == [2, 2, 2, 2, None]


async def test_pages_of_several_states_lead_to_one_list_of_everything(bench: Bench) -> None:
    """An aggregated API may follow a token without keeping to its version."""
    for number in range(6):
        bench.api.put(f"p{number}")

    def moved(truth: bytes) -> bytes:
        before = bench.api.rv
        bench.api.put("p5", changed=before)
        return truth.replace(f'"resourceVersion":"{before}"'.encode(), b'"resourceVersion":"999"', 1)

    bench.api.list_answers.extend([None, moved, None, moved])
    bench.api.watch_answers.append(Invalid(422, "Invalid"))  # it knows no WatchList
    await bench.live(bench.settings(page_size=2))
    await bench.level()
    assert [request.limit for request in bench.api.lists] == [2, 2, 2, 2, None]
