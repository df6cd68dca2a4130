"""The commit's contract, on every dialect: the fence, atomicity, counts, adoption, epochs."""

from __future__ import annotations

import pkgutil
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from syncd.core.change import Batch, Deletion, Drift, DriftKind, KeyRange, Marks
from syncd.core.errors import FenceLost, StoreUnavailable
from syncd.core.ports import ClusterSeen
from syncd.core.resource import Cause, State, Stream
from tests.contract.mirror_case import PODS, SECRETS, Mirror, Place, gone, item, keys, opened


@pytest.fixture
async def mirror(place: Place) -> AsyncIterator[Mirror]:
    async with opened(place) as mirror:
        yield mirror


async def test_a_new_stream_is_pending_at_no_version_in_the_clusters_epoch(mirror: Mirror) -> None:
    row = await mirror.store.open(Stream("prod", PODS))
    assert (row.state, row.resource_version, row.epoch) == (State.PENDING, None, 1)
    assert row.holder == mirror.lease.token
    assert await mirror.store.open(Stream("prod", PODS)) == row
    assert await mirror.store.read(row.stream_id) == row
    assert await mirror.store.read(row.stream_id + 1) is None


async def test_rows_and_version_come_together(mirror: Mirror) -> None:
    row = await mirror.store.open(Stream("prod", PODS))
    done = await mirror.put(
        row, item("a/x", 5), item("a/y", 6), fresh=True, guarded=False, resource_version="7", state=State.LIVE
    )
    assert (done.inserted, done.row.object_count, done.row.resource_version) == (2, 2, "7")
    assert done.row == await mirror.store.read(row.stream_id)
    assert mirror.versions() == {"a/x": "5", "a/y": "6"}
    assert mirror.look("SELECT resource_version, object_count, state FROM syncd_streams") == [
        ("7", 2, "live")
    ]


@pytest.mark.parametrize(
    "believed", [{"holder": "another"}, {"epoch": 2}, {"resource_version": "99"}, {"resource_version": None}]
)
async def test_the_fence_refuses_a_row_that_is_not_what_the_writer_believes(
    mirror: Mirror, believed: dict[str, Any]
) -> None:
    row = await mirror.open(item("a/x", 5))
    with pytest.raises(FenceLost):
        await mirror.put(replace(row, **believed), item("a/x", 200), item("a/z", 201), resource_version="201")
    assert mirror.versions() == {"a/x": "5"}
    assert await mirror.store.read(row.stream_id) == row


async def test_a_commit_is_not_repeatable(mirror: Mirror) -> None:
    row = await mirror.open()
    await mirror.put(row, item("a/x", 101), resource_version="101")
    with pytest.raises(FenceLost):
        await mirror.put(row, item("a/x", 101), resource_version="101")


@pytest.mark.parametrize("step", ["fence.move", "store._count"])
async def test_a_crash_between_two_statements_leaves_rows_and_version_agreeing(
    mirror: Mirror, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    row = await mirror.open(item("a/x", 5))
    real = pkgutil.resolve_name(f"syncd.store.{step}")

    async def crash(*arguments: Any) -> Any:
        await real(*arguments)
        raise OSError("the wire was cut")

    monkeypatch.setattr("syncd.store.quick.is_quick", lambda row, batch: False)
    monkeypatch.setattr(f"syncd.store.{step}", crash)
    batch = Batch(upserts=[item("a/z", 200)], deletes=[gone("a/x", 201)], resource_version="201")
    with pytest.raises(StoreUnavailable):
        await mirror.store.commit(row, batch)
    assert mirror.versions() == {"a/x": "5"}
    assert mirror.look("SELECT count(*) FROM syncd_deleted_objects") == [(0,)]
    monkeypatch.undo()
    assert await mirror.store.read(row.stream_id) == row
    assert (await mirror.store.commit(row, batch)).row.resource_version == "201"
    assert mirror.versions() == {"a/z": "200"}


async def test_the_marks_and_the_projection_are_part_of_it(mirror: Mirror) -> None:
    row = await mirror.open()
    now = mirror.lease.now()
    done = await mirror.put(
        row, marks=Marks(verified_at=now, last_error="odd", unordered=True), projection="q"
    )
    assert (done.row.verified_at, done.row.unordered, done.row.projection) == (now, True, "q")
    done = await mirror.put(done.row, marks=Marks(last_error=""))
    assert (done.row.verified_at, done.row.unordered) == (now, True)
    assert mirror.look("SELECT last_error FROM syncd_streams") == [("",)]


@pytest.mark.parametrize("count", [1, 50, 51, 700])
async def test_a_batch_of_any_size(mirror: Mirror, count: int) -> None:
    row = await mirror.open()
    first = [item(f"a/{n:04}", 1000 + n) for n in range(count)]
    done = await mirror.put(row, *first)
    assert (done.inserted, done.updated, done.skipped) == (count, 0, 0)
    again = await mirror.put(done.row, *first)
    assert (again.inserted, again.updated, again.skipped) == (0, 0, count)
    later = await mirror.put(done.row, *[item(f"a/{n:04}", 5000 + n) for n in range(count)])
    assert (later.inserted, later.updated, later.row.object_count) == (0, count, count)
    left = await mirror.drop(
        later.row, *[gone(f"a/{n:04}", 9000, cause=Cause.SNAPSHOT, seen=False) for n in range(count)]
    )
    assert (left.deleted, left.tombstones, left.row.object_count) == (count, count, 0)
    assert mirror.versions() == {}


async def test_a_fresh_page_over_rows_that_are_there_merges(mirror: Mirror) -> None:
    row = await mirror.open(item("a/x", 5))
    done = await mirror.put(row, item("a/x", 6), item("a/y", 7), fresh=True, guarded=False)
    assert (done.inserted, done.updated, done.row.object_count) == (1, 1, 2)
    assert mirror.versions() == {"a/x": "6", "a/y": "7"}


async def test_first_seen_stays_and_committed_moves(mirror: Mirror) -> None:
    row = await mirror.open(item("a/x", 5))
    [(seen, committed)] = mirror.look("SELECT first_seen_at, committed_at FROM syncd_objects")
    assert seen == committed
    await mirror.put(row, item("a/x", 6))
    [(still, moved)] = mirror.look("SELECT first_seen_at, committed_at FROM syncd_objects")
    assert still == seen
    assert moved > committed


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ({"guarded": True}, "deleted"),
        ({"guarded": False}, "snapshot"),
        ({"guarded": False, "reconciliation_id": 1}, "reconcile"),
    ],
)
async def test_an_object_replaced_under_its_name_leaves_a_tombstone(
    mirror: Mirror, options: dict[str, Any], cause: str
) -> None:
    row = await mirror.open(item("a/x", 5, "old"))
    done = await mirror.put(row, item("a/x", 200, "new"), **options)
    assert (done.inserted, done.deleted, done.tombstones, done.row.object_count) == (1, 1, 1, 1)
    assert mirror.look("SELECT object_key, uid, cause FROM syncd_deleted_objects") == [("a/x", "old", cause)]
    assert mirror.look("SELECT uid, first_seen_at = committed_at FROM syncd_objects") == [("new", True)]


async def test_a_key_with_deletion_and_upsert_was_deleted_first(mirror: Mirror) -> None:
    row = await mirror.open(item("a/x", 5, "old"))
    batch = Batch(
        upserts=[item("a/x", 202, "new")], deletes=[gone("a/x", 201, "old")], resource_version="202"
    )
    done = await mirror.store.commit(row, batch)
    assert (done.deleted, done.inserted, done.row.object_count) == (1, 1, 1)
    assert mirror.look("SELECT uid FROM syncd_objects") == [("new",)]
    assert mirror.look("SELECT uid, resource_version FROM syncd_deleted_objects") == [("old", "201")]


async def test_a_tombstone_says_when_the_object_was_last_alive(mirror: Mirror) -> None:
    row = await mirror.open(item("a/x", 5), item("a/y", 6))
    await mirror.drop(row, gone("a/x", 7, cause=Cause.SNAPSHOT, seen=False))
    assert mirror.look("SELECT last_alive_at = committed_at FROM syncd_deleted_objects") == [(True,)]
    verified = mirror.lease.now()
    row = (await mirror.put(row, marks=Marks(verified_at=verified))).row
    later = Marks(verified_at=mirror.lease.now())
    await mirror.drop(row, gone("a/y", 8, cause=Cause.SNAPSHOT, seen=False), marks=later)
    found = await mirror.store.read(row.stream_id)
    assert found is not None
    assert found.verified_at == later.verified_at
    query = (
        "SELECT d.last_alive_at > d.committed_at, d.last_alive_at < s.verified_at"
        " FROM syncd_deleted_objects d JOIN syncd_streams s ON s.stream_id = d.stream_id"
        " WHERE d.object_key = 'a/y'"
    )
    assert mirror.look(query) == [(True, True)]


async def test_a_new_stream_adopts_the_rows_of_its_namespace(mirror: Mirror) -> None:
    old = await mirror.open(item("a/x", 5), item("b/y", 6), item("b/z", 7))
    new = await mirror.store.open(Stream("prod", PODS, "b"), adopt=[old.stream_id])
    assert new.object_count == 2
    assert keys(await mirror.store.rows(new, KeyRange())) == ["b/y", "b/z"]
    assert keys(await mirror.store.rows(old, KeyRange())) == ["a/x"]
    assert mirror.look("SELECT object_count FROM syncd_streams ORDER BY stream_id") == [(1,), (2,)]
    again = await mirror.store.open(Stream("prod", PODS, "b"), adopt=[old.stream_id])
    assert again == new


async def test_a_stream_whose_rows_were_adopted_begins_anew(mirror: Mirror) -> None:
    """The configuration may go back before it is retired: a version without its rows would hide them."""
    old = await mirror.open(item("a/x", 5), item("b/y", 6))
    assert old.resource_version is not None
    await mirror.store.open(Stream("prod", PODS, "b"), adopt=[old.stream_id])
    again = await mirror.store.read(old.stream_id)
    assert again is not None
    assert (again.resource_version, again.state) == (None, State.SYNCING)


async def test_an_upsert_takes_over_the_row_of_another_stream(mirror: Mirror) -> None:
    old = await mirror.open(item("a/x", 5), item("b/y", 6))
    row = await mirror.store.open(Stream("prod", PODS, "b"))
    done = await mirror.put(row, item("b/y", 6), item("b/z", 7), guarded=False)
    assert (done.inserted, done.updated, done.row.object_count) == (1, 1, 2)
    assert mirror.look("SELECT object_count FROM syncd_streams ORDER BY stream_id") == [(1,), (2,)]
    assert keys(await mirror.store.rows(old, KeyRange())) == ["a/x"]


async def test_a_diff_removes_its_own_rows_alone(mirror: Mirror) -> None:
    await mirror.open(item("a/x", 5))
    row = await mirror.store.open(Stream("prod", PODS, "a"))
    bare = gone("a/x", 9, cause=Cause.SNAPSHOT, seen=False)
    assert (await mirror.drop(row, bare, guarded=False)).deleted == 0
    assert mirror.versions() == {"a/x": "5"}
    done = await mirror.drop(row, gone("a/x", 9))
    assert (done.deleted, done.row.object_count) == (1, 0)
    assert mirror.look("SELECT object_count FROM syncd_streams ORDER BY stream_id") == [(0,), (0,)]


async def test_retiring_turns_rows_into_tombstones(mirror: Mirror) -> None:
    row = await mirror.open(item("a/x", 5), item("a/y", 6))
    other = await mirror.open(item("s", 7, kind="Secret"), stream=Stream("prod", SECRETS))
    assert await mirror.store.retire(row.stream_id, cause=Cause.DESELECTED) == 2
    assert mirror.versions() == {"s": "7"}
    assert mirror.look("SELECT object_key, cause FROM syncd_deleted_objects ORDER BY 1") == [
        ("a/x", "deselected"),
        ("a/y", "deselected"),
    ]
    assert [known.stream_id for known in await mirror.store.streams("prod")] == [other.stream_id]
    with pytest.raises(FenceLost):
        await mirror.store.retire(row.stream_id, cause=Cause.DESELECTED)
    with pytest.raises(FenceLost):
        await mirror.put(row, item("a/x", 9))


async def test_distrust_reaches_every_stream_of_the_cluster_once(mirror: Mirror) -> None:
    one = await mirror.open(item("a/x", 5))
    two = await mirror.open(item("s", 7, kind="Secret"), stream=Stream("prod", SECRETS))
    far = await mirror.open(stream=Stream("far", PODS))
    await mirror.store.begin_epoch(one, "rolled back")
    await mirror.store.begin_epoch(two, "rolled back too")  # it believes in the epoch that has ended
    query = "SELECT cluster, epoch, state, resource_version, last_error FROM syncd_streams ORDER BY stream_id"
    assert mirror.look(query) == [
        ("prod", 2, "syncing", None, "rolled back"),
        ("prod", 2, "syncing", None, "rolled back"),
        ("far", 1, "live", "100", ""),
    ]
    with pytest.raises(FenceLost):
        await mirror.put(two, item("s", 9))
    assert (await mirror.put(far, item("a/x", 9))).inserted == 1
    assert (await mirror.store.open(Stream("prod", PODS, "new"))).epoch == 2


async def test_another_cluster_under_the_name_is_distrusted_in_the_same_transaction(mirror: Mirror) -> None:
    row = await mirror.open(item("a/x", 5))
    same = ClusterSeen("prod", "uid-of-prod", "https://elsewhere", "v1.37.0", {"env": "prod"})
    assert not await mirror.store.see_cluster(same)
    assert not await mirror.store.see_cluster(replace(same, uid="hash", weak=True))
    assert await mirror.store.read(row.stream_id) == row
    assert await mirror.store.see_cluster(replace(same, uid="another"))
    after = await mirror.store.read(row.stream_id)
    assert after is not None
    assert (after.epoch, after.state, after.resource_version) == (2, State.SYNCING, None)
    assert not await mirror.store.see_cluster(replace(same, uid="another"))


async def test_findings_are_recorded_with_their_repair(mirror: Mirror) -> None:
    row = await mirror.open()
    number = await mirror.store.begin_reconciliation(row, deep=True, dry_run=False, request_id=None)
    finding = Drift(DriftKind.MISSING, "a/x", "a", "x", "u", None, "5")
    done = await mirror.put(row, item("a/x", 5), guarded=False, drift=[finding], reconciliation_id=number)
    assert done.inserted == 1
    query = "SELECT reconciliation_id, finding, object_key, cluster_version, repaired FROM syncd_drift"
    assert mirror.look(query) == [(number, "missing", "a/x", "5", True)]


async def test_secrets_leave_tombstones_too_when_their_projection_changes(mirror: Mirror) -> None:
    planted = '{"kind":"Secret","data":{"password":"planted"},"metadata":{"name":"s"}}'
    row = await mirror.open(item("a/s", 5, document=planted), stream=Stream("prod", SECRETS))
    row = (await mirror.drop(row, Deletion("a/s", "u", "9", Cause.SNAPSHOT), guarded=False)).row
    assert "planted" in str(mirror.look("SELECT object FROM syncd_deleted_objects"))
    await mirror.put(row, projection="redacted")
    assert "planted" not in str(mirror.look("SELECT object FROM syncd_deleted_objects"))
    if mirror.place.dialect == "sqlite":
        path = mirror.place.url.removeprefix("sqlite:///")
        for suffix in ("", "-wal"):
            with open(path + suffix, "rb") as file:
                assert b"planted" not in file.read()
