"""Reconciles: what is wrong is found exactly and repaired, what is in flight is never drift."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from syncd.core.errors import Forbidden
from syncd.core.resource import State
from syncd.sync.reconcile import Order, Reconcile
from tests.fakes.bench import Bench
from tests.fakes.value import compact, item, page, pod

SPOILED = (
    "DELETE FROM syncd_objects WHERE object_key = 'default/p1'",
    "UPDATE syncd_objects SET resource_version = '90', resource_version_number = 90"
    " WHERE object_key = 'default/p2'",
    "UPDATE syncd_objects SET object_key = 'default/invented', name = 'invented', uid = 'x'"
    " WHERE object_key = 'default/p3'",
)
FOUND = {
    ("missing", "default/p1"),
    ("missing", "default/p3"),
    ("stale", "default/p2"),
    ("ghost", "default/invented"),
}


async def filled(bench: Bench, count: int = 6, **settings: Any) -> None:
    for number in range(count):
        bench.api.put(f"p{number}")
    await bench.live(bench.settings(**{"page_size": 2, **settings}))
    await bench.level()
    await bench.reached()


async def test_a_clean_run_writes_its_report_alone(bench: Bench) -> None:
    await filled(bench)
    commits = len(bench.store.commits)
    report = await bench.reconcile()
    assert (report.checked, report.drift, report.error) == (6, 0, "")
    assert len(bench.store.commits) == commits
    assert bench.look("SELECT checked, missing, error FROM syncd_reconciliations") == [(6, 0, "")]
    assert bench.drift() == set()


async def test_what_was_spoiled_is_found_exactly_and_repaired(bench: Bench) -> None:
    await filled(bench)
    await bench.spoil(*SPOILED)
    report = await bench.reconcile()
    assert (report.missing, report.stale, report.ghost, report.altered) == (2, 1, 1, 0)
    assert (report.repaired, report.error) == (4, "")
    assert bench.drift() == FOUND
    assert bench.table() == bench.cluster()
    assert ("default/invented", "106", "reconcile") in bench.tombstones()
    again = await bench.reconcile()
    assert (again.drift, again.error) == (0, "")


async def test_a_dry_run_finds_the_same_and_changes_nothing(bench: Bench) -> None:
    await filled(bench)
    await bench.spoil(*SPOILED)
    before = bench.look("SELECT * FROM syncd_objects ORDER BY object_key")
    report = await bench.reconcile(dry_run=True)
    assert (report.drift, report.repaired) == (4, 0)
    assert bench.drift() == FOUND
    assert bench.look("SELECT * FROM syncd_objects ORDER BY object_key") == before
    assert bench.tombstones() == set()


async def test_an_edited_document_is_found_only_in_depth(bench: Bench) -> None:
    await filled(bench)
    await bench.spoil("UPDATE syncd_objects SET object = '{\"a\":1}' WHERE object_key = 'default/p2'")
    assert (await bench.reconcile()).drift == 0
    report = await bench.reconcile(deep=True)
    assert (report.altered, report.drift, report.repaired) == (1, 1, 1)
    assert (await bench.reconcile(deep=True)).drift == 0


async def test_a_repair_is_not_guarded_by_what_is_wrong(bench: Bench) -> None:
    """A row from the future, and a tombstone of one: both yield to the list."""
    await filled(bench)
    await bench.spoil(
        "UPDATE syncd_objects SET resource_version = '900', resource_version_number = 900"
        " WHERE object_key = 'default/p2'"
    )
    report = await bench.reconcile()
    assert (report.stale, report.repaired) == (1, 1)
    assert bench.table() == bench.cluster()


# --- beside a live stream -----------------------------------------------------------------------------


async def test_changes_in_flight_are_never_drift(bench: Bench) -> None:
    """51"""
    await filled(bench, 8)
    running = True

    async def churn() -> None:
        number = 0
        while running:
            number += 1
            bench.api.put(f"p{number % 8}", number=number)
            if number % 5 == 0:
                bench.api.put(f"extra{number}")
            if number % 7 == 0 and f"default/extra{number - 2}" in bench.api.objects:
                bench.api.delete(f"extra{number - 2}")
            await asyncio.sleep(0.001)

    churning = asyncio.create_task(churn())
    try:
        reports = [await bench.reconcile() for _ in range(5)]
    finally:
        running = False
        await churning
    assert [report.drift for report in reports] == [0] * 5
    assert not [report.error for report in reports if report.error]
    await bench.level()
    assert bench.drift() == set()


async def test_an_object_deleted_after_the_list_is_not_resurrected(bench: Bench) -> None:
    await filled(bench)
    await bench.spoil("UPDATE syncd_objects SET resource_version = '90', resource_version_number = 90")
    bench.api.gate = asyncio.Event()
    running = asyncio.create_task(bench.reconcile())
    await bench.until(lambda: len(bench.api.lists) > 3)
    bench.api.gate.set()
    await bench.until(lambda: len(bench.api.lists) > 5)
    bench.api.delete("p2")
    bench.api.put("p3", changed=True)
    report = await running
    await bench.level()
    assert report.error == ""
    assert report.repaired >= 4


async def test_a_quiet_resource_is_asked_by_a_side_watch(bench: Bench) -> None:
    """The list is at a version that the stream would learn of in a minute."""
    await filled(bench)
    await bench.spoil(*SPOILED)
    bench.api.rv = 400
    bench.api.bookmark_at_once = True
    report = await bench.reconcile()
    assert (report.drift, report.repaired, report.error) == (4, 4, "")
    assert [one.timeout_seconds for one in bench.api.watches[1:]] == [5]
    assert bench.api.watches[1].resource_version == "106"
    await bench.until(lambda: bench.row().resource_version == "400")


@pytest.mark.parametrize("missing", [0, 1])
async def test_a_side_watch_tells_whether_the_last_version_is_complete(bench: Bench, missing: int) -> None:
    """The stream's last events are at one version, which nothing has closed: there may be more at it."""
    await filled(bench)
    names = ("p0", "p1")
    bench.api.delete(*names, delivered=len(names) - missing)
    await bench.until(lambda: bench.reflector.machine.received == "107")
    await bench.until(lambda: not bench.store.busy)
    await bench.spoil("DELETE FROM syncd_objects WHERE object_key = 'default/p3'")
    bench.api.rv = 400
    bench.api.bookmark_after = True
    report = await bench.reconcile()
    if missing:
        assert "relist" in report.error, "not level: the stream waits for one more"
        await bench.level()
        return
    assert (report.error, report.missing, report.repaired) == ("", 1, 1)
    assert [one.resource_version for one in bench.api.watches[1:]] == ["106"]
    assert bench.table() == bench.cluster()


async def test_an_event_after_the_list_is_as_good_as_a_bookmark(bench: Bench) -> None:
    await filled(bench)
    await bench.spoil(*SPOILED)
    bench.api.put("p4", changed=1)  # at the list's version, which stays open …
    running = asyncio.create_task(bench.reconcile())
    await bench.until(lambda: len(bench.api.watches) > 1)
    bench.api.put("p4", changed=2)  # … until there is a later one
    report = await running
    assert (report.drift, report.repaired, report.error) == (4, 4, "")


async def test_without_any_bookmark_a_relist_brings_the_table_level(bench: Bench) -> None:
    await filled(bench)
    await bench.spoil(*SPOILED)
    bench.api.rv = 400
    report = await bench.reconcile()
    assert "relist" in report.error
    assert report.repaired == 0
    assert len([one for one in bench.api.watches if one.timeout_seconds == 5]) == 3
    await bench.level()


async def test_events_fall_back_to_a_relist_without_a_side_watch(bench: Bench) -> None:
    await filled(bench, bookmarks=False)
    await bench.spoil(*SPOILED)
    bench.api.rv = 400
    bench.api.bookmark_at_once = True
    report = await bench.reconcile()
    assert "relist" in report.error
    assert not [one for one in bench.api.watches if one.timeout_seconds == 5]
    await bench.level()


# --- runs that come to nothing ------------------------------------------------------------------------


async def test_a_stream_that_is_not_live_is_not_reconciled(bench: Bench) -> None:
    await filled(bench)
    bench.api.forbidden = Forbidden(403)
    bench.api.cut()
    await bench.until(lambda: bench.row().state is State.PARKED)
    report = await bench.reconcile()
    assert "not live" in report.error
    assert bench.look("SELECT count(*) FROM syncd_reconciliations") == [(0,)]


async def test_an_api_that_refuses_ends_in_the_report(bench: Bench) -> None:
    await filled(bench)
    bench.api.list_answers.append(Forbidden(403, "Forbidden", "no"))
    report = await bench.reconcile()
    assert "403" in report.error
    assert "403" in bench.look("SELECT error FROM syncd_reconciliations")[0][0]


async def held_up(bench: Bench, between: Callable[[], Awaitable[None]]) -> Any:
    """A reconcile that has compared, and cannot judge before `between` happened."""
    await bench.spoil(*SPOILED)
    bench.api.rv += 1
    reconcile = Reconcile(bench.environment(), bench.reflector, Order())
    lists = len(bench.api.lists)
    running = asyncio.create_task(reconcile.run())
    await bench.until(lambda: len(bench.api.lists) >= lists + 3 and reconcile.report.checked >= 6)
    await between()
    return await running


async def test_a_relist_voids_the_run_in_progress(bench: Bench) -> None:
    """Judged after it, the old list would be written over newer rows."""
    await filled(bench)
    bench.clock.hold = True

    async def relist() -> None:
        for number in range(6):
            bench.api.put(f"p{number}", newer=True)
        bench.reflector.relist("asked")
        bench.clock.hold = False

    report = await held_up(bench, relist)
    assert report.error
    assert report.repaired == 0
    await bench.level()
    assert bench.table() == bench.cluster()


async def test_a_new_epoch_voids_the_run_in_progress(bench: Bench) -> None:
    await filled(bench)
    bench.clock.hold = True

    async def begin_epoch() -> None:
        await bench.store.begin_epoch(bench.row(), "noticed")
        bench.reflector.restart("a new epoch began")
        bench.clock.hold = False

    report = await held_up(bench, begin_epoch)
    assert report.error
    assert report.repaired == 0
    await bench.level()


async def test_who_asked_may_give_up_in_the_middle_of_the_judgement(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream lives on, and what was begun is finished or not begun."""
    await filled(bench)
    await bench.spoil(*SPOILED)
    real = bench.store.tombstones
    reached = asyncio.Event()
    go_on = asyncio.Event()

    async def tombstones(*args: Any) -> Any:
        reached.set()
        await go_on.wait()
        return await real(*args)

    monkeypatch.setattr(bench.store, "tombstones", tombstones)
    running = asyncio.create_task(bench.reconcile())
    await reached.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    go_on.set()
    bench.api.put("after")
    await bench.level()
    assert bench.log.events("error") == []


async def test_an_unordered_server_is_reconciled_by_its_keys(bench: Bench) -> None:
    await filled(bench, ranges=False)
    await bench.spoil(*SPOILED)
    report = await bench.reconcile()
    assert (report.drift, report.repaired) == (4, 4)
    assert bench.table() == bench.cluster()


async def test_a_server_found_unordered_is_relisted(bench: Bench) -> None:
    await filled(bench)
    await bench.spoil(*SPOILED)
    bench.api.items = lambda listed: listed[::-1]
    report = await bench.reconcile()
    assert "order" in report.error
    await bench.level()
    assert bench.look("SELECT unordered FROM syncd_streams") == [(1,)]


async def test_the_last_event_of_a_burst_is_not_drift_when_the_watch_ends(bench: Bench) -> None:
    """Its version is not closed: the row stands above the position from which the next watch starts."""
    await filled(bench)
    bench.api.put("p0", changed=True)
    await bench.level()
    bench.api.cut()
    await bench.until(lambda: len(bench.api.watches) == 2 and bench.api.open)
    bench.api.bookmark_at_once = True
    report = await bench.reconcile()
    assert (report.drift, report.error) == (0, "")


# --- quarantine ---------------------------------------------------------------------------------------

REFUSE = (
    "CREATE TRIGGER refuse BEFORE INSERT ON syncd_objects WHEN NEW.object LIKE '%poison%'"
    " BEGIN SELECT RAISE(ABORT, 'refused'); END"
)
COUNT = "SELECT object_key, resource_version FROM syncd_quarantine"


async def test_what_the_database_refused_counts_as_present_and_is_tried_again(bench: Bench) -> None:
    """50: the others are applied, the version advances."""
    await bench.spoil(REFUSE)
    await filled(bench)
    bench.api.put("bad", text="poison")
    bench.api.put("good")
    await bench.until(lambda: "default/good" in bench.table())
    await bench.reached()
    assert bench.look(COUNT) == [("default/bad", "107")]
    report = await bench.reconcile()
    assert (report.drift, report.error) == (0, "")
    assert bench.look(COUNT) == [("default/bad", "107")]
    await bench.spoil("DROP TRIGGER refuse")
    report = await bench.reconcile()
    assert (report.drift, report.error) == (0, "")
    assert bench.look(COUNT) == []
    await bench.level()


async def test_an_older_content_does_not_take_the_place_of_what_was_refused(bench: Bench) -> None:
    await filled(bench, 1)
    older = page(bench.api.rv, list(bench.api.objects.values()))
    await bench.spoil(REFUSE)
    bench.api.gate = asyncio.Event()
    bench.api.list_answers.append(older)
    running = asyncio.create_task(bench.reconcile())
    bench.api.put("p0", text="poison")
    await bench.until(lambda: bench.look(COUNT) == [("default/p0", "102")])
    bench.api.gate.set()
    report = await running
    assert (report.drift, report.repaired, report.error) == (0, 0, "")
    assert bench.look(COUNT) == [("default/p0", "102")]


def test_items_of_the_fakes_are_what_the_mirror_stores() -> None:
    assert item("a", 1).document.encode().endswith(compact(pod("a", 1))[1:])
