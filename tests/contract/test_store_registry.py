"""Clusters, streams, requests, reports, retention and status, on every dialect."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from syncd.core.change import Batch, Drift, DriftKind
from syncd.core.ports import ClusterSeen, Report
from syncd.core.resource import State, Stream
from tests.contract.mirror_case import PODS, STREAM, Mirror, Place, Ticking, gone, item, opened


@pytest.fixture
async def mirror(place: Place) -> AsyncIterator[Mirror]:
    async with opened(place) as mirror:
        yield mirror


async def test_a_cluster_is_kept_as_it_was_last_seen(mirror: Mirror) -> None:
    seen = ClusterSeen("far", "uid-1", "https://far", "v1.30.0", {"env": "test"})
    assert not await mirror.store.see_cluster(seen)
    assert not await mirror.store.see_cluster(ClusterSeen("far", "uid-1", "https://far", "v1.31.0"))
    query = "SELECT uid, server, kubernetes_version, epoch FROM syncd_clusters WHERE name = 'far'"
    assert mirror.look(query) == [("uid-1", "https://far", "v1.31.0", 1)]


async def test_a_weak_uid_gives_way_to_a_strong_one(mirror: Mirror) -> None:
    assert not await mirror.store.see_cluster(ClusterSeen("far", "hash", "s", "v", weak=True))
    assert await mirror.store.see_cluster(ClusterSeen("far", "other-hash", "s", "v", weak=True))
    assert not await mirror.store.see_cluster(ClusterSeen("far", "uid", "s", "v"))
    assert not await mirror.store.see_cluster(ClusterSeen("far", "hash", "s", "v", weak=True))
    assert await mirror.store.see_cluster(ClusterSeen("far", "uid-2", "s", "v"))


async def test_streams_and_their_marks(mirror: Mirror) -> None:
    row = await mirror.open(item("a/x", 5))
    other = await mirror.open(stream=Stream("prod", PODS, "b", "app=web", "spec.nodeName=n"))
    [one, two] = await mirror.store.streams("prod")
    assert (one.stream_id, one.identity, one.object_count) == (row.stream_id, STREAM.identity, 1)
    assert two.identity == ("prod", "", "pods", "b", "app=web", "spec.nodeName=n")
    await mirror.store.mark_stream(row.stream_id, State.PARKED, "403")
    assert [known.state for known in await mirror.store.streams("prod")] == [State.PARKED, State.LIVE]
    await mirror.store.mark_cluster("prod", State.BACKOFF, "away")
    query = "SELECT state, last_error FROM syncd_streams"
    assert mirror.look(query) == [("backoff", "away")] * 2
    found = await mirror.store.read(other.stream_id)
    assert found is not None
    assert found.resource_version == other.resource_version
    assert await mirror.store.streams("none") == []


async def test_a_cluster_that_never_answered_says_why(mirror: Mirror) -> None:
    await mirror.store.mark_cluster("far", State.BACKOFF, "refused")
    query = "SELECT uid, last_error FROM syncd_clusters WHERE name = 'far'"
    assert mirror.look(query) == [("", "refused")]
    [known] = [one for one in (await mirror.database.status()).clusters if one.name == "far"]
    assert known.last_error == "refused"
    assert not await mirror.store.see_cluster(ClusterSeen("far", "uid", "s", "v")), "not another cluster"
    assert mirror.look(query) == [("uid", "")]
    await mirror.store.mark_cluster("far", None, "away")
    assert mirror.look(query) == [("uid", "away")]


async def test_a_request_is_asked_claimed_answered(mirror: Mirror) -> None:
    number = await mirror.database.ask("reconcile", {"resources": ["pods"], "deep": True})
    second = await mirror.database.ask("reconcile", {})
    reply = await mirror.database.reply(number)
    assert reply is not None
    assert (reply.claimed_at, reply.answered_at) == (None, None)
    assert await mirror.database.withdraw(second)
    [request] = await mirror.store.requests()
    assert (request.request_id, request.action) == (number, "reconcile")
    assert request.arguments == {"resources": ["pods"], "deep": True}
    assert not await mirror.database.withdraw(number)
    await mirror.store.progress(number, {"checked": 10})
    reply = await mirror.database.reply(number)
    assert reply is not None
    assert reply.progress == {"checked": 10}
    assert reply.claimed_at is not None
    await mirror.store.answer(number, error="", result={"ä": 1})
    assert await mirror.store.requests() == []
    reply = await mirror.database.reply(number)
    assert reply is not None
    assert (reply.result, reply.error) == ({"ä": 1}, "")
    assert reply.answered_at is not None
    assert await mirror.database.reply(99) is None


async def test_a_report_keeps_its_figures(mirror: Mirror) -> None:
    row = await mirror.open()
    number = await mirror.store.begin_reconciliation(row, deep=False, dry_run=True, request_id=7)
    report = Report(number, "150", checked=9, missing=1, stale=2, ghost=3, altered=4, repaired=5, error="odd")
    await mirror.store.finish_reconciliation(row, number, report)
    [found] = (await mirror.database.status()).reconciliations
    assert (found.depth, found.dry_run, found.checked, found.ghost) == ("version", True, 9, 3)
    assert (found.repaired, found.error, found.finished_at is not None) == (5, "odd", True)
    assert mirror.look("SELECT request_id, list_version FROM syncd_reconciliations") == [(7, "150")]


async def test_status_is_everything_small(mirror: Mirror) -> None:
    row = await mirror.open(item("a/x", 5))
    await mirror.put(row, item("a/y", 200, generation=2**63))
    status = await mirror.database.status()
    assert [cluster.name for cluster in status.clusters] == ["prod"]
    [stream] = status.streams
    assert (stream.state, stream.object_count, stream.quarantined) == (State.LIVE, 1, 1)
    assert status.lease is not None
    assert status.lease.host == "here"
    await mirror.lease.release()
    assert (await mirror.database.status()).lease is None


@pytest.fixture
async def aging(place: Place) -> AsyncIterator[tuple[Mirror, Ticking]]:
    """A mirror whose clock the test moves; the lease still goes by the database's."""
    clock = Ticking()
    async with opened(place, clock=clock) as mirror:
        yield mirror, clock


async def test_tombstones_are_kept_as_long_as_configured(aging: tuple[Mirror, Ticking]) -> None:
    mirror, clock = aging
    row = await mirror.open()
    row = (await mirror.drop(row, *[gone(f"a/{n}", 200) for n in range(700)])).row
    clock.pass_by(timedelta(days=2))
    row = (await mirror.drop(row, gone("b/x", 300))).row
    assert await mirror.database.purge(mirror.lease, keep=timedelta(days=3)) == 0
    assert await mirror.database.purge(mirror.lease, keep=timedelta(days=1)) == 700
    assert mirror.look("SELECT object_key FROM syncd_deleted_objects") == [("b/x",)]


async def test_no_tombstone_goes_within_an_hour(aging: tuple[Mirror, Ticking]) -> None:
    mirror, clock = aging
    await mirror.drop(await mirror.open(), gone("a/x", 200))
    clock.pass_by(timedelta(minutes=59))
    assert await mirror.database.purge(mirror.lease, keep=timedelta(0)) == 0
    clock.pass_by(timedelta(minutes=2))
    assert await mirror.database.purge(mirror.lease, keep=timedelta(0)) == 1


async def test_no_tombstone_goes_while_a_snapshot_that_began_before_it_runs(
    aging: tuple[Mirror, Ticking],
) -> None:
    mirror, clock = aging
    row = await mirror.open()
    row = (await mirror.drop(row, gone("a/early", 200))).row
    clock.pass_by(timedelta(minutes=5))
    row = (await mirror.store.commit(row, Batch(state=State.SYNCING))).row
    clock.pass_by(timedelta(minutes=5))
    row = (await mirror.drop(row, gone("a/late", 201))).row
    row = (await mirror.store.commit(row, Batch(state=State.SYNCING))).row
    clock.pass_by(timedelta(hours=2))
    assert await mirror.database.purge(mirror.lease, keep=timedelta(0)) == 1
    assert mirror.look("SELECT object_key FROM syncd_deleted_objects") == [("a/late",)]
    await mirror.store.commit(row, Batch(state=State.LIVE))
    assert await mirror.database.purge(mirror.lease, keep=timedelta(0)) == 1


async def test_reports_and_requests_go_in_their_time(aging: tuple[Mirror, Ticking]) -> None:
    mirror, clock = aging
    row = await mirror.open()
    clean = await mirror.store.begin_reconciliation(row, deep=False, dry_run=False, request_id=None)
    await mirror.store.finish_reconciliation(row, clean, Report(clean))
    found = await mirror.store.begin_reconciliation(row, deep=False, dry_run=False, request_id=None)
    finding = Drift(DriftKind.GHOST, "a/x", "a", "x", "u", "5", None)
    await mirror.store.commit(row, Batch(drift=[finding], reconciliation_id=found))
    await mirror.store.finish_reconciliation(row, found, Report(found, ghost=1))
    await mirror.store.answer(await mirror.database.ask("reconcile", {}), error="", result={})
    await mirror.database.ask("reconcile", {})
    for days, gone_by_then in ((0, 0), (2, 1), (6, 1), (83, 2)):
        clock.pass_by(timedelta(days=days))
        assert await mirror.database.purge(mirror.lease, keep=timedelta(days=1)) == gone_by_then
    assert mirror.look("SELECT count(*) FROM syncd_requests") == [(1,)]
