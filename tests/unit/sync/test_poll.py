"""Streams that are polled: a snapshot, a wait, a snapshot, and no watch."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from syncd.core.errors import ConnectionLost, Expired, Forbidden, ServerError
from syncd.core.ports import ListRequest
from syncd.core.resource import Resource, State, Stream
from syncd.sync.environment import Settings
from syncd.sync.inbox import Relist
from syncd.sync.reconcile import Order, Reconcile
from syncd.sync.reflector import POLL
from tests.fakes.api import FakeApi
from tests.fakes.bench import Bench
from tests.fakes.value import Json, compact

EVERY = 300.0
STATUSES = Resource("", "v1", "componentstatuses", "ComponentStatus", False, frozenset({"get", "list"}))


def polled(bench: Bench, **changes: object) -> Settings:
    return bench.settings(poll=EVERY, **changes)


def polls(bench: Bench) -> int:
    """Snapshots that came to their end."""
    return sum(batch.resource_version is not None for batch, _ in bench.store.commits)


async def resting(bench: Bench) -> None:
    """Until a poll is over and the next one is not due: time stands still from here."""
    bench.clock.hold = True
    await bench.until(lambda: bench.clock.sleeping and not bench.store.busy)


async def next_poll(bench: Bench) -> None:
    """Lets time go on until another poll is over, and no further."""
    before = polls(bench)

    def over() -> bool:
        if polls(bench) > before:
            return True
        bench.clock.wake()
        return False

    await bench.until(over)
    await resting(bench)


async def started(bench: Bench, settings: Settings | None = None) -> None:
    bench.clock.hold = True
    bench.start(settings or polled(bench))
    await bench.until(lambda: polls(bench))
    await resting(bench)


async def test_what_changes_between_two_polls_is_there_after_the_second(bench: Bench) -> None:
    for number in range(12):
        bench.api.put(f"p{number:02}")
    await started(bench, polled(bench, page_size=5))
    assert bench.table() == bench.cluster()
    assert (bench.row().state, bench.row().resource_version) == (State.LIVE, "112")
    bench.api.put("p03", changed=True)
    bench.api.put("new")
    bench.api.delete("p00")
    await asyncio.sleep(0.02)
    assert len(bench.api.lists) == 3
    bench.store.commits.clear()
    await next_poll(bench)
    assert bench.table() == bench.cluster()
    assert bench.written() == 4  # an update, an insert, a deletion and its tombstone
    assert bench.tombstones() == {("default/p00", "115", "snapshot")}
    assert bench.row().resource_version == "115"
    assert bench.api.watches == []


async def test_a_poll_does_not_touch_the_state_and_says_by_when_the_next_is_due(bench: Bench) -> None:
    bench.api.put("a")
    await started(bench)
    bench.store.commits.clear()
    await next_poll(bench)
    states = [batch.state for batch, _ in bench.store.commits]
    assert states == [State.LIVE], "no SYNCING, and nothing but the stream's row"
    marks = bench.store.commits[-1][0].marks
    assert marks.verified_at == bench.clock.now()
    assert marks.deadline_at is not None
    assert marks.deadline_at - bench.clock.now() == timedelta(seconds=2 * EVERY + bench.timing.watch_margin)
    assert b'reason="poll"' not in bench.metrics.render()[0]  # or it would look like a relist storm


async def test_the_interval_is_jittered(bench: Bench) -> None:
    for drawn, seconds in ((0.0, 0.9), (0.5, 1.0), (1.0, 1.1)):
        await started(bench)
        reflector = bench.reflector
        reflector._environment.random = lambda drawn=drawn: drawn  # type: ignore[misc]
        await next_poll(bench)
        assert abs(bench.clock.slept[-1] - EVERY * seconds) < 1e-6
        await bench.stop()
        bench.store.commits.clear()


async def test_a_restart_polls_at_once_without_a_probe(bench: Bench) -> None:
    for number in range(3):
        bench.api.put(f"p{number}")
    await started(bench)
    bench.api.delete("p1")
    bench.clock.hold = False
    await bench.restart(polled(bench))
    bench.clock.hold = True
    await bench.level()
    await resting(bench)
    assert [request.limit for request in bench.api.lists] == [500]
    assert bench.tombstones() == {("default/p1", "104", "snapshot")}
    assert State.SYNCING not in [batch.state for batch, _ in bench.store.commits]


async def test_a_poll_that_fails_is_tried_again_and_said(bench: Bench) -> None:
    bench.api.put("a")
    await started(bench)
    bench.api.put("b")
    bench.api.list_answers.extend([ServerError(500, "InternalError")] * 5 + [ConnectionLost("refused")])
    await next_poll(bench)
    assert bench.table() == bench.cluster()
    states = [batch.state for batch, _ in bench.store.commits if batch.state]
    assert states[-2:] == [State.BACKOFF, State.LIVE]
    assert bench.reflector.live


async def test_a_forbidden_list_parks_it_and_keeps_the_rows(bench: Bench) -> None:
    bench.api.put("a")
    await started(bench)
    bench.api.forbidden = Forbidden(403, "Forbidden")
    bench.clock.hold = False
    await bench.until(lambda: bench.row().state is State.PARKED)
    assert set(bench.table()) == {"default/a"}
    bench.api.forbidden = None
    await bench.until(lambda: bench.row().state is State.LIVE)


async def test_a_rollback_begins_a_new_epoch(bench: Bench) -> None:
    for number in range(4):
        bench.api.put(f"p{number}")
    await started(bench)
    bench.api.roll_back(102, [bench.api.objects["default/p0"], bench.api.objects["default/p1"]])
    await next_poll(bench)
    assert bench.row().epoch == 2
    assert bench.table() == bench.cluster()


async def test_another_projection_is_compared_at_once(bench: Bench) -> None:
    bench.api.put("a", one=1)
    await started(bench)
    await bench.spoil("UPDATE syncd_objects SET object = '{}'")
    bench.reflector.change_settings(polled(bench, projection="q"))
    await bench.until(lambda: bench.row().projection == "q")
    assert '"one":1' in bench.look("SELECT object FROM syncd_objects")[0][0]


# --- reconciles -----------------------------------------------------------------------------------


async def test_a_reconcile_polls_and_counts(bench: Bench) -> None:
    for number in range(3):
        bench.api.put(f"p{number}")
    await started(bench)
    bench.api.delete("p1")
    await bench.spoil("DELETE FROM syncd_objects WHERE object_key = 'default/p0'")
    report = await bench.reconcile()
    assert (report.error, report.checked, report.drift, report.list_version) == ("", 2, 0, "104")
    assert bench.table() == bench.cluster()
    assert bench.look("SELECT checked, error FROM syncd_reconciliations") == [(2, "")]
    await next_poll(bench)


async def test_a_reconcile_tries_again_what_the_database_refused(bench: Bench) -> None:
    """No watch and no poll would: a poll takes what is in quarantine for present."""
    bench.api.put("a")
    await started(bench)
    await bench.spoil(
        "CREATE TRIGGER refuse BEFORE INSERT ON syncd_objects BEGIN SELECT RAISE(ABORT, 'refused'); END"
    )
    bench.api.put("b")
    await next_poll(bench)
    await bench.spoil("DROP TRIGGER refuse")
    await next_poll(bench)
    assert set(bench.table()) == {"default/a"}
    report = await bench.reconcile()
    assert (report.error, report.checked, report.drift) == ("", 2, 0)
    assert bench.table() == bench.cluster()
    assert bench.look("SELECT object_key FROM syncd_quarantine") == []


async def test_a_dry_run_counts_and_writes_nothing(bench: Bench) -> None:
    bench.api.put("a")
    await started(bench)
    bench.api.put("b")
    report = await bench.reconcile(dry_run=True)
    assert (report.error, report.checked, report.drift) == ("", 2, 0)
    assert set(bench.table()) == {"default/a"}


@pytest.mark.parametrize("deep", [False, True])
async def test_a_reconcile_that_meets_a_poll_waits_for_it_and_polls_then(bench: Bench, deep: bool) -> None:
    bench.api.put("a")
    await started(bench)
    reflector = bench.reflector
    environment = reflector._environment
    environment.snapshots = asyncio.Semaphore(1)
    async with environment.snapshots:
        reflector.inbox.post(Relist(POLL))
        await bench.until(lambda: not reflector.rested.is_set())
        asked = asyncio.create_task(Reconcile(environment, reflector, Order(deep=deep)).run())
        await asyncio.sleep(0.02)
        bench.api.put("b")
        assert polls(bench) == 1
    async with asyncio.timeout(30):
        report = await asked
    assert (report.error, report.checked) == ("", 2)
    assert polls(bench) == 3
    assert bench.table() == bench.cluster()


async def test_a_reconcile_that_meets_a_poll_that_fails_says_so(bench: Bench) -> None:
    bench.api.put("a")
    await started(bench)
    reflector = bench.reflector
    environment = reflector._environment
    environment.snapshots = asyncio.Semaphore(1)
    async with environment.snapshots:
        reflector.inbox.post(Relist(POLL))
        await bench.until(lambda: not reflector.rested.is_set())
        asked = asyncio.create_task(Reconcile(environment, reflector, Order()).run())
        await asyncio.sleep(0.02)
        bench.api.forbidden = Forbidden(403, "Forbidden", "no")
    async with asyncio.timeout(30):
        assert "403" in (await asked).error


async def test_a_reconcile_whose_poll_fails_says_so_and_the_stream_polls_soon(bench: Bench) -> None:
    bench.api.put("a")
    await started(bench)
    bench.api.list_answers.extend([Expired(410, "Expired", "no")])
    at = bench.clock.monotonic()
    assert "no" in (await bench.reconcile()).error
    await next_poll(bench)
    assert bench.clock.monotonic() - at < EVERY / 2
    assert bench.row().state is State.LIVE


# --- resources without versions -------------------------------------------------------------------


class Unversioned(FakeApi):
    """What componentstatuses and metrics are like: no watch, no versions, no uids."""

    def __init__(self) -> None:
        super().__init__(STATUSES)
        self.health: dict[str, str] = {}

    async def list(self, stream: Stream, request: ListRequest, *, metadata_only: bool = False) -> bytes:
        self.lists.append(request)
        items: list[Json] = [
            {"metadata": {"name": name, "creationTimestamp": None}, "conditions": [{"message": text}]}
            for name, text in sorted(self.health.items())
        ]
        return compact({"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": items})


async def test_a_resource_without_versions_is_compared_by_content(bench: Bench) -> None:
    api = Unversioned()
    bench.mirror(api)
    api.health = {"etcd-0": "ok", "scheduler": "ok", "controller-manager": "ok"}
    await started(bench)
    assert set(bench.table()) == set(api.health)
    assert bench.row().state is State.LIVE
    bench.store.commits.clear()
    await next_poll(bench)
    assert bench.written() == 0
    api.health = {"etcd-0": "down", "scheduler": "ok"}
    await next_poll(bench)
    found = dict(bench.look("SELECT name, object FROM syncd_objects"))
    assert set(found) == {"etcd-0", "scheduler"}
    assert '"down"' in found["etcd-0"]
    assert bench.written() == 3
    bench.clock.hold = False
    await bench.restart(polled(bench))
    bench.clock.hold = True
    await bench.until(lambda: polls(bench))
    assert bench.written() == 0
