"""The watch and its ends, throttling, parking, a database that is away: list-watch.md §13, by number."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from syncd.core.change import Batch, Committed, StreamRow
from syncd.core.document import Transform
from syncd.core.errors import (
    ConnectionLost,
    Forbidden,
    NotFound,
    ProtocolError,
    ServerError,
    SyncdError,
    TooManyRequests,
    VersionTooLarge,
)
from syncd.core.history import History, Record
from syncd.core.resource import State, Stream
from syncd.sync.feed import Feed
from tests.fakes.api import FakeApi
from tests.fakes.bench import Bench
from tests.fakes.value import EVENTS, SECRETS, added, bookmark, compact, failed, line, pod


async def test_a_bookmark_moves_the_checkpoint_and_no_row(bench: Bench) -> None:
    """14"""
    bench.api.put("a")
    await bench.live()
    bench.api.rv = 150
    await bench.reached()
    before = bench.written()
    assert bench.row().resource_version == "150"
    reflector = await bench.restart()
    await bench.watching(reflector)
    assert bench.api.watches[0].resource_version == "150"
    assert before == 1


async def test_a_cut_in_the_middle_of_a_line_resumes(bench: Bench) -> None:
    """24 and 39: the half event is dropped and arrives whole."""
    bench.api.put("a")
    await bench.live()
    half = compact({"type": "ADDED", "object": pod("b", 102)})[:40]
    bench.api.cut(half)
    await bench.until(lambda: not bench.api.open)
    bench.api.put("b")
    await bench.level()
    assert [request.resource_version for request in bench.api.watches][:2] == ["101", "101"]
    assert len([request for request in bench.api.lists if request.limit != 1]) == 1


async def test_the_last_event_is_seen_twice_and_written_once(bench: Bench) -> None:
    """7 and 26: its version is not closed when the watch is cut, so it comes again."""
    await bench.live()
    bench.api.put("a")
    await bench.level()
    bench.api.cut()
    await bench.until(lambda: len(bench.api.watches) == 2 and bench.api.open)
    assert bench.api.watches[1].resource_version == "100"
    await bench.reached()
    assert sum(done.inserted for _, done in bench.store.commits) == 1


async def test_several_deletions_at_one_version_cut_by_a_crash(bench: Bench) -> None:
    """55: the watch from their version would deliver none of the rest."""
    for name in ("a", "b", "c"):
        bench.api.put(name)
    await bench.live()
    await bench.reached()
    bench.api.delete("a", "b", "c", delivered=1)
    await bench.until(lambda: "default/a" not in bench.table())
    assert bench.row().resource_version == "103"
    await bench.restart()
    await bench.level()
    assert {key for key, version, _ in bench.tombstones() if version == "104"} == {
        "default/a",
        "default/b",
        "default/c",
    }


async def test_an_object_replaced_under_its_name(bench: Bench) -> None:
    """28"""
    await bench.live()
    bench.api.put("a", uid="old")
    bench.api.delete("a")
    bench.api.put("a", uid="new")
    await bench.level()
    assert bench.tombstones() == {("default/a", "102", "deleted")}
    assert bench.look("SELECT uid FROM syncd_objects") == [("new",)]


async def test_what_leaves_a_selector_is_not_called_deleted(bench: Bench) -> None:
    """29"""
    bench.api.put("a")
    bench.start(stream=Stream("prod", bench.api.resource, label_selector="x=y"))
    await bench.level()
    await bench.until(lambda: bench.api.open)
    bench.api.delete("a")
    await bench.level()
    assert bench.tombstones() == {("default/a", "102", "left_selection")}


@pytest.mark.parametrize("name", ["a\u0085b", "a\u2028b"])
async def test_odd_line_ends_in_values(bench: Bench, name: str) -> None:
    """22"""
    await bench.live()
    bench.api.put("a", text=name)
    await bench.level()


# --- faults that retry ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "least"),
    [
        (TooManyRequests(429, "TooManyRequests", retry_after=7), 7.0),  # 35
        (TooManyRequests(429, retry_after=1), 1.0),  # 36
        (ServerError(503, retry_after=5), 5.0),
        (VersionTooLarge(504, "Timeout", retry_after=1), 1.0),  # 34
        (ServerError(500), 0.8),
        (ConnectionLost("refused"), 0.8),  # 37
    ],
)
async def test_a_refused_watch_waits_and_resumes_without_a_relist(
    bench: Bench, error: SyncdError, least: float
) -> None:
    bench.api.put("a")
    bench.api.watch_answers.append(error)
    reflector = bench.start()
    await bench.watching(reflector)
    assert [request.resource_version for request in bench.api.watches] == ["101", "101"]
    assert len([request for request in bench.api.lists if request.limit != 1]) == 1
    assert max(bench.clock.slept) >= least


async def test_faults_before_a_watch_that_delivered_count_no_more(bench: Bench) -> None:
    """Also where a relist takes its place, so that it never comes to an end."""
    bench.api.put("a")
    bench.api.watch_answers.extend([ConnectionLost("refused")] * 5)
    reflector = await bench.live()
    bench.api.put("b")
    bench.api.put("c")  # what came before it is closed
    await bench.level()
    bench.clock.slept.clear()
    bench.api.watch_answers.append(ServerError(500))
    reflector.relist("asked")
    await bench.until(lambda: any(delay >= 0.8 for delay in bench.clock.slept))
    assert max(bench.clock.slept) < 1.6


async def test_a_throttled_list_waits_as_long_as_it_is_asked(bench: Bench) -> None:
    bench.api.list_answers.append(TooManyRequests(429, retry_after=7))
    bench.api.put("a")
    await bench.live()
    await bench.level()
    assert max(bench.clock.slept) >= 7


async def test_refused_connections_back_off(bench: Bench) -> None:
    """37"""
    bench.api.put("a")
    bench.api.watch_answers.extend([ConnectionLost("refused")] * 8)
    reflector = bench.start()
    await bench.watching(reflector)
    delays = [delay for delay in bench.clock.slept if delay >= 0.8]
    assert delays == sorted(delays)
    assert delays[-1] == 30.0
    assert len([request for request in bench.api.lists if request.limit != 1]) == 1


async def test_a_watch_that_ends_at_once_backs_off(bench: Bench) -> None:
    """38"""
    bench.api.put("a")
    bench.api.watch_answers.extend([b""] * 6)
    await bench.live()
    await bench.until(lambda: len(bench.api.watches) == 7)
    waits = [delay for delay in bench.clock.slept if delay >= 0.8]
    assert waits == [1.6, 3.2, 6.4, 12.8, 25.6]


async def test_a_watch_that_only_says_where_it_is_and_ends_backs_off(bench: Bench) -> None:
    bench.api.put("a")
    bench.api.watch_answers.extend([bookmark(bench.api.rv)] * 6)
    await bench.live()
    await bench.until(lambda: len(bench.api.watches) == 7)
    waits = [delay for delay in bench.clock.slept if delay >= 0.8]
    assert waits == [1.6, 3.2, 6.4, 12.8, 25.6]


async def test_watches_that_never_get_past_their_first_event_are_helped_by_a_list(bench: Bench) -> None:
    """One version's events do not close it, so that each watch would begin with the same again."""
    await bench.live()
    await bench.reached()
    await bench.stop()
    first = bench.api.put("a")
    bench.api.put("b")
    bench.api.delete("a")
    bench.api.watch_answers.extend([line("ADDED", first)] * 50)
    await bench.restart()
    await bench.level()
    await bench.until(lambda: not bench.api.watch_answers and bench.api.open)
    await bench.level()
    assert len([request for request in bench.api.lists if request.limit != 1]) == 1
    assert max(bench.clock.slept) >= 25


async def test_a_watch_that_ends_on_time_is_followed_at_once(bench: Bench) -> None:
    """38: and after a deliberate end of a watch that delivered, nothing is probed."""
    await bench.live()
    await bench.reached()
    bench.api.put("a")
    await bench.level()
    lists, slept = len(bench.api.lists), len(bench.clock.slept)
    bench.clock.advance(400)
    bench.api.end()
    await bench.until(lambda: len(bench.api.watches) == 2 and bench.api.open)
    assert (len(bench.api.lists), len(bench.clock.slept)) == (lists, slept)


async def test_a_silent_watch_is_probed_when_it_ends(bench: Bench) -> None:
    await bench.live()
    lists = len(bench.api.lists)
    bench.clock.advance(400)
    bench.api.end()
    await bench.until(lambda: len(bench.api.watches) == 2 and bench.api.open)
    assert len(bench.api.lists) == lists + 1


async def test_a_half_open_watch_meets_the_watchdog(bench: Bench) -> None:
    """25: not a byte more, and no end."""
    bench.timing = replace(bench.timing, watch_min=1.0, watch_max=1.0, watch_margin=0.05)
    bench.api.short = 0
    await bench.live()
    bench.api.dropping = True
    bench.api.put("a")
    bench.api.dropping = False
    bench.api._history.append((101, added("a", 101)))
    await bench.level()
    assert len(bench.api.watches) >= 2


async def test_silence_after_bookmarks_meets_the_watchdog_earlier(bench: Bench) -> None:
    bench.timing = replace(bench.timing, idle=0.2)
    await bench.live()
    bench.api.bookmark()
    await bench.until(lambda: len(bench.api.watches) >= 2)


async def test_an_event_that_cannot_be_read_leads_to_a_relist_at_the_second_time(bench: Bench) -> None:
    """The events before it come again each time: they are no progress."""
    bench.api.put("a")
    await bench.live()
    await bench.reached()
    broken = added("b", 102) + b'{"type":"ADDED","object":{"metadata":{}}}\n'
    bench.api.watch_answers.extend([broken, broken])
    bench.api.cut()
    await bench.until(lambda: len([one for one in bench.api.lists if one.limit != 1]) == 2)
    await bench.level()


async def test_a_watch_that_expires_after_each_relist_backs_off(bench: Bench) -> None:
    bench.api.put("a")
    bench.api.floor = 10_000
    bench.start()
    await bench.until(lambda: len(bench.api.watches) == 6)
    waits = [delay for delay in bench.clock.slept if delay >= 0.8]
    assert waits == sorted(waits)
    assert waits[-1] > 4 * waits[0]
    bench.api.floor = 0
    await bench.until(lambda: bench.api.open and bench.row().state is State.LIVE)


async def test_an_error_event_of_a_webhook_keeps_the_rows(bench: Bench) -> None:
    """49"""
    bench.api.put("a")
    await bench.live()
    bench.api.watch_answers.append(failed(500, "InternalError"))
    bench.api.cut()
    await bench.until(lambda: len(bench.api.watches) >= 3 and bench.reflector.live)
    await bench.level()


# --- parked -----------------------------------------------------------------------------------------


async def test_forbidden_parks_keeps_the_rows_and_recovers(bench: Bench) -> None:
    """42 and 43"""
    bench.api.put("a")
    await bench.live()
    await bench.reached()
    bench.api.forbidden = Forbidden(403, "Forbidden", "no")
    bench.api.cut()
    await bench.until(lambda: bench.row().state is State.PARKED)
    assert bench.table() == {"default/a": "101"}
    assert "Forbidden" in bench.look("SELECT last_error FROM syncd_streams")[0][0]
    await bench.until(lambda: max(bench.clock.slept) >= 60)
    bench.api.put("b")
    bench.api.forbidden = None
    await bench.level()
    await bench.until(lambda: bench.row().state is State.LIVE)
    assert bench.look("SELECT last_error FROM syncd_streams") == [("",)]
    assert len([request for request in bench.api.lists if request.limit != 1]) == 1


async def test_a_server_that_has_just_started_refuses_for_a_moment(bench: Bench) -> None:
    """It knows no roles yet. How long it was away before says nothing of how long it will refuse."""
    bench.api.put("a")
    await bench.live()
    await bench.reached()
    bench.api.forbidden = ConnectionLost("refused")
    bench.api.cut()
    await bench.until(lambda: max(bench.clock.slept, default=0) >= 30)
    waited = len(bench.clock.slept)
    bench.clock.hold = True
    bench.api.forbidden = Forbidden(403, "Forbidden", "RBAC: not synced yet")
    bench.clock.wake()
    await bench.until(lambda: bench.row().state is State.PARKED and bench.clock.sleeping)
    assert bench.clock.slept[waited:][-1] < 2
    bench.api.forbidden = None
    bench.clock.hold = False
    await bench.until(lambda: bench.row().state is State.LIVE)


async def test_what_is_refused_stays_parked_while_it_is_asked_for(bench: Bench) -> None:
    """It would look as if it began, each time."""
    bench.api.forbidden = Forbidden(403, "Forbidden", "no")
    bench.start()
    await bench.until(lambda: max(bench.clock.slept, default=0) >= 60)
    assert [batch.state for batch, _ in bench.store.commits] == [State.SYNCING, State.PARKED]
    bench.api.forbidden = None
    bench.api.put("a")
    await bench.level()


async def test_a_path_that_is_gone_parks_and_asks_discovery(bench: Bench) -> None:
    bench.api.put("a")
    await bench.live()
    bench.api.forbidden = NotFound(404)
    bench.api.cut()
    await bench.until(lambda: bench.row().state is State.PARKED)
    assert bench.missed
    assert bench.table() == {"default/a": "101"}


# --- odd objects ------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", ["1e9999999999999999999", "-1e-9999999999999999999", "1" + "0" * 5000])
async def test_numbers_of_any_size_hold_nothing_up(bench: Bench, number: str) -> None:
    """The API reads no opaque field (the data of a ControllerRevision) but for its syntax."""
    await bench.live(bench.settings(history=History(Record.CHANGES)))
    bench.api.dropping = True
    for size in range(3):
        value = bench.api.put("a", size=size, number="N")
        bench.api.send(line("MODIFIED", value).replace(b'"N"', number.encode()))
    await bench.level()
    paths = [json.loads(found) for (found,) in bench.look("SELECT changed_paths FROM syncd_changes") if found]
    assert paths == [["spec.size"], ["spec.size"]]


@pytest.mark.parametrize("half", [r"\ud800", r"\uDC00x", r"\udc00\ud800", r"\\\uD83D"])
async def test_half_a_character_holds_nothing_up(bench: Bench, half: str) -> None:
    """Nor whether an escape in it means a character; and it may be in a name of a field."""
    await bench.live(bench.settings(history=History(Record.CHANGES)))
    bench.api.dropping = True
    for size in range(2):
        value = bench.api.put("a", data={"KEY": size, "kept": "\U0001f600"})
        bench.api.send(line("MODIFIED", value).replace(b"KEY", half.encode()))
    await bench.level()
    [document] = bench.look("SELECT json_extract(object, '$.spec.data.kept') FROM syncd_objects")
    assert document == ("\U0001f600",)
    assert bench.look("SELECT change_type FROM syncd_changes") == [("created",), ("updated",)]


# --- the database -----------------------------------------------------------------------------------


async def test_a_database_that_is_away_for_a_while_loses_nothing(bench: Bench) -> None:
    await bench.live()
    bench.store.away = True
    for number in range(20):
        bench.api.put(f"p{number}")
    bench.api.delete("p3")
    await bench.until(lambda: bench.store.refusals > 3)
    assert bench.reflector.held
    assert bench.reflector.lag() >= 0
    bench.store.away = False
    await bench.level()
    await bench.until(lambda: not bench.reflector.held)
    await bench.until(lambda: bench.reflector.lag() == 0)
    assert "default/p3" in {key for key, _, _ in bench.tombstones()}


async def test_a_database_that_is_away_while_the_watch_ends(bench: Bench) -> None:
    await bench.live()
    bench.store.away = True
    bench.api.put("a")
    await bench.until(lambda: bench.store.refusals)
    bench.api.put("b")
    bench.api.cut()
    await bench.until(lambda: not bench.api.open)
    bench.api.put("c")
    bench.store.away = False
    await bench.level()


async def test_a_commit_whose_answer_was_lost_is_not_made_twice(bench: Bench) -> None:
    await bench.live()
    bench.api.put("a")
    await bench.level()
    bench.store.lost_replies = 1
    bench.api.put("b")
    await bench.until(lambda: "beginning anew" in bench.log.events("info"))
    bench.api.put("c")
    await bench.level()
    assert sum(done.inserted for _, done in bench.store.commits) == 3


async def test_a_slow_database_stops_the_reader(bench: Bench) -> None:
    """48: what waits is bounded, and nothing is lost."""
    bench.store.gate = asyncio.Event()
    bench.store.gate.set()
    await bench.live(bench.settings(queue_bytes=20_000))
    bench.store.gate.clear()
    for number in range(300):
        bench.api.put(f"p{number}", text="x" * 500)
    await bench.until(lambda: bench.store.waiting and bench.reflector.inbox.full)
    await asyncio.sleep(0.02)
    assert bench.reflector.inbox.size < 22_500
    bench.store.gate.set()
    await bench.level()


async def test_lag_is_the_age_of_what_is_not_committed(bench: Bench) -> None:
    bench.store.gate = asyncio.Event()
    bench.store.gate.set()
    await bench.live()
    assert bench.reflector.lag() == 0
    bench.store.gate.clear()
    bench.api.put("a")
    await bench.until(lambda: bench.store.waiting)
    bench.clock.advance(12)
    assert bench.reflector.lag() == 12
    bench.store.gate.set()
    await bench.level()
    await bench.until(lambda: bench.reflector.lag() == 0)


async def test_cancellation_lets_the_commit_in_flight_end(bench: Bench) -> None:
    bench.store.gate = asyncio.Event()
    bench.store.gate.set()
    await bench.live()
    bench.store.gate.clear()
    bench.api.put("a")
    await bench.until(lambda: bench.store.waiting)
    stopping = asyncio.create_task(bench.stop())
    await asyncio.sleep(0.01)
    assert not stopping.done()
    bench.store.gate.set()
    await stopping
    assert bench.table() == {"default/a": "101"}
    assert not bench.api.open


async def test_cancellation_does_not_wait_for_a_database_that_is_away(bench: Bench) -> None:
    await bench.live()
    bench.store.away = True
    bench.api.put("a")
    await bench.until(lambda: bench.store.refusals > 2)
    await asyncio.wait_for(bench.stop(), 2.0)


async def test_another_holder_ends_all_writing(bench: Bench) -> None:
    """52 and 60: the row's holder changed; nothing is written, and the app is told."""
    bench.api.put("a")
    await bench.live()
    await bench.spoil("UPDATE syncd_leases SET token = 'other'", "UPDATE syncd_streams SET holder = 'other'")
    bench.api.put("b")
    await bench.until(lambda: bench.leases_lost)
    assert bench.table() == {"default/a": "101"}


async def test_a_fence_lost_begins_anew_from_what_is_stored(bench: Bench) -> None:
    bench.api.put("a")
    await bench.live()
    await bench.reached()
    await bench.spoil("UPDATE syncd_streams SET resource_version = '100'")
    bench.api.put("b")
    await bench.level()
    assert [request.resource_version for request in bench.api.watches] == ["101", "100"]


async def test_a_fault_of_our_own_is_told_and_survived(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.api.put("a")
    await bench.live()
    told: list[str] = []
    real = Feed.commit

    async def broken(self: Feed, *args: object) -> None:
        if not told:
            told.append("now")
            raise KeyError("a bug")
        await real(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Feed, "commit", broken)
    bench.api.put("b")
    await bench.level()
    assert bench.log.events("error") == ["stream failed"]
    bench.log.lines.clear()


async def test_an_error_of_the_store_while_the_watch_is_open_loses_no_event(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was taken from the queue for the failed commit must be read again, not skipped."""
    bench.api.put("a")
    await bench.live()
    failures = [ProtocolError("odd")]
    real = bench.store.commit

    async def commit(row: StreamRow, batch: Batch) -> Committed:
        if failures and batch.upserts:
            raise failures.pop()
        return await real(row, batch)

    monkeypatch.setattr(bench.store, "commit", commit)
    bench.api.put("b")
    await bench.until(lambda: not failures)
    bench.api.put("c")
    await bench.level()


# --- content ----------------------------------------------------------------------------------------


async def test_a_changed_projection_compares_content(bench: Bench) -> None:
    """33 and 56: redaction turned on removes what was stored."""
    bench.mirror(FakeApi(SECRETS))
    value = bench.api.put("s")
    value["data"] = {"k": "cGxhbnRlZA=="}
    plain = bench.settings(transform=Transform(SECRETS, redact=False), projection="plain")
    await bench.live(plain)
    await bench.level()
    assert "cGxhbnRlZA" in bench.look("SELECT object FROM syncd_objects")[0][0]
    await bench.restart(bench.settings(transform=Transform(SECRETS), projection="redacted"))
    await bench.until(lambda: "cGxhbnRlZA" not in bench.look("SELECT object FROM syncd_objects")[0][0])
    await bench.until(lambda: bench.row().projection == "redacted")


async def test_a_projection_that_changes_while_another_relist_waits(bench: Bench) -> None:
    """The wish for it is fulfilled by that relist, which must compare content then."""
    value = bench.api.put("a")
    reflector = await bench.live()
    await bench.reached()
    value["spec"] = {"changed": "under its own version"}
    bench.api.gate = asyncio.Event()
    lists = len(bench.api.lists)
    reflector.relist("expired")
    reflector.change_settings(bench.settings(projection="other"))
    await bench.until(lambda: len(bench.api.lists) > lists)
    bench.api.gate.set()
    await bench.until(lambda: bench.row().projection == "other")
    assert "under its own" in bench.look("SELECT object FROM syncd_objects")[0][0]


async def test_events_without_bookmarks_live_on(bench: Bench) -> None:
    """53: a bookmark never comes; the 410 path carries it."""
    bench.mirror(FakeApi(EVENTS))
    bench.api.put("e")
    await bench.live(bench.settings(bookmarks=False))
    bench.api.put("f")
    await bench.level()
    bench.api.forget()
    bench.api.cut()
    await bench.until(lambda: len([one for one in bench.api.lists if one.limit != 1]) == 2)
    await bench.level()
