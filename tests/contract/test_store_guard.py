"""Newer wins, in the SQL itself (mirror.md §5): every row of the table of rules, on every dialect."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from syncd.core.change import Deletion
from syncd.core.resource import Cause
from tests.contract.mirror_case import Mirror, Place, gone, item, opened

HUGE = str(2**63)  # a number that no bigint holds: it does not compare


@pytest.fixture
async def mirror(place: Place) -> AsyncIterator[Mirror]:
    async with opened(place) as mirror:
        yield mirror


@pytest.mark.parametrize(
    ("held", "incoming", "applied"),
    [
        ("50", "49", False),
        ("50", "50", False),
        ("50", "51", True),
        ("9", "10", True),  # as numbers, not as text
        ("50", "opaque", True),  # order is the stream's
        ("opaque", "50", True),
        ("opaque", "opaque", False),
        ("opaque", "other", True),
        (HUGE, "50", True),
        (str(2**63 - 1), "50", False),
    ],
)
@pytest.mark.parametrize("many", [False, True], ids=["few", "many"])
async def test_an_upsert_against_a_row(
    mirror: Mirror, held: str, incoming: str, applied: bool, many: bool
) -> None:
    row = await mirror.open(item("a/x", held))
    others = [item(f"b/{n:03}", 1) for n in range(60)] if many else []
    done = await mirror.put(row, item("a/x", incoming, document='{"kind":"Pod","new":1}'), *others)
    assert (done.updated, done.skipped) == ((1, 0) if applied else (0, 1))
    assert mirror.versions()["a/x"] == (incoming if applied else held)


@pytest.mark.parametrize("held", ["49", "50", "51", "opaque"])
async def test_unguarded_overwrites_whatever_is_there(mirror: Mirror, held: str) -> None:
    row = await mirror.open(item("a/x", held))
    done = await mirror.put(row, item("a/x", 50), guarded=False)
    assert (done.updated, mirror.versions()) == (1, {"a/x": "50"})


@pytest.mark.parametrize(
    ("held", "deleted", "applied"),
    [("50", "49", False), ("50", "50", True), ("50", "51", True), ("opaque", "50", True), ("50", HUGE, True)],
)
@pytest.mark.parametrize("seen", [True, False])
async def test_a_deletion_against_a_row(
    mirror: Mirror, held: str, deleted: str, applied: bool, seen: bool
) -> None:
    row = await mirror.open(item("a/x", held))
    done = await mirror.drop(row, gone("a/x", deleted, seen=seen))
    assert (done.deleted, done.tombstones, done.skipped) == ((1, 1, 0) if applied else (0, 0, 1))
    assert mirror.versions() == ({} if applied else {"a/x": held})
    if applied:
        assert mirror.look("SELECT resource_version, cause FROM syncd_deleted_objects") == [
            (deleted, "deleted")
        ]


@pytest.mark.parametrize(
    ("cause", "version", "applied"),
    [
        (Cause.DELETED, 49, True),
        (Cause.DELETED, 50, True),
        (Cause.DELETED, 51, False),
        (Cause.SNAPSHOT, 51, False),
        (Cause.LEFT_SELECTION, 51, False),
        (Cause.TYPE_REMOVED, 51, False),
        (Cause.DESELECTED, 51, True),
        (Cause.RECONCILE, 51, True),
        (Cause.DELETED, "opaque", True),
    ],
)
@pytest.mark.parametrize("uid", ["u", "another"])
async def test_an_upsert_against_a_tombstone(
    mirror: Mirror, cause: Cause, version: int | str, applied: bool, uid: str
) -> None:
    row = await mirror.open()
    row = (await mirror.drop(row, gone("a/x", version, uid, cause))).row
    done = await mirror.put(row, item("a/x", 50))
    assert (done.inserted, done.skipped) == ((1, 0) if applied else (0, 1))


async def test_a_tombstone_of_an_earlier_epoch_guards_nothing(mirror: Mirror) -> None:
    row = await mirror.open()
    row = (await mirror.drop(row, gone("a/x", 90))).row
    await mirror.store.begin_epoch(row, "rolled back")
    moved = await mirror.store.read(row.stream_id)
    assert moved is not None
    assert await mirror.store.tombstones(moved, ["a/x"]) == []
    done = await mirror.put(moved, item("a/x", 50))
    assert done.inserted == 1
    again = await mirror.drop(done.row, gone("a/x", 60))
    assert again.tombstones == 1
    assert mirror.look("SELECT epoch, resource_version FROM syncd_deleted_objects ORDER BY 1") == [
        (1, "90"),
        (2, "60"),
    ]


async def test_unguarded_passes_a_tombstone(mirror: Mirror) -> None:
    row = await mirror.open()
    row = (await mirror.drop(row, gone("a/x", 90))).row
    assert (await mirror.put(row, item("a/x", 50), guarded=False)).inserted == 1


async def test_a_deletion_seen_writes_its_tombstone_even_without_a_row(mirror: Mirror) -> None:
    row = await mirror.open()
    done = await mirror.drop(row, gone("a/x", 90))
    assert (done.deleted, done.tombstones) == (0, 1)
    [(version, content)] = mirror.look("SELECT resource_version, object FROM syncd_deleted_objects")
    assert version == "90"
    assert "last" in content
    bare = await mirror.drop(done.row, gone("a/y", 90, seen=False))
    assert (bare.deleted, bare.tombstones) == (0, 0)


@pytest.mark.parametrize(
    ("first", "second", "kept"), [(90, 91, "91"), (91, 90, "91"), (90, "opaque", "opaque")]
)
async def test_of_two_tombstones_of_one_object_the_higher_stays(
    mirror: Mirror, first: int, second: int | str, kept: str
) -> None:
    row = await mirror.open()
    row = (await mirror.drop(row, gone("a/x", first))).row
    await mirror.drop(row, gone("a/x", second))
    assert mirror.look("SELECT resource_version FROM syncd_deleted_objects") == [(kept,)]


async def test_a_deletion_of_an_earlier_object_leaves_the_one_that_followed(mirror: Mirror) -> None:
    row = await mirror.open(item("a/x", 60, "new"))
    done = await mirror.drop(row, gone("a/x", 50, "old"))
    assert (done.deleted, done.skipped, mirror.versions()) == (0, 1, {"a/x": "60"})


async def test_a_deletion_of_a_later_object_takes_the_earlier_row_along(mirror: Mirror) -> None:
    row = await mirror.open(item("a/x", 60, "old"))
    done = await mirror.drop(row, gone("a/x", 90, "new"))
    assert (done.deleted, done.tombstones, mirror.versions()) == (1, 2, {})
    assert sorted(one.uid for one in await mirror.store.tombstones(done.row, ["a/x"])) == ["new", "old"]


async def test_replaying_a_whole_history_changes_nothing(mirror: Mirror) -> None:
    row = await mirror.open()

    async def replay() -> None:
        nonlocal row
        row = (await mirror.put(row, item("a/x", 101), item("a/y", 102))).row
        row = (await mirror.drop(row, gone("a/x", 103))).row
        row = (await mirror.put(row, item("a/x", 104, "second"), item("a/y", 105))).row
        row = (await mirror.drop(row, gone("a/x", 106, "second"))).row

    await replay()
    rows, dead = (
        mirror.look("SELECT * FROM syncd_objects"),
        mirror.look("SELECT * FROM syncd_deleted_objects"),
    )
    await replay()
    assert mirror.look("SELECT * FROM syncd_objects") == rows
    assert mirror.look("SELECT * FROM syncd_deleted_objects") == dead
    assert row.object_count == 1


async def test_an_unguarded_deletion_takes_a_higher_row(mirror: Mirror) -> None:
    row = await mirror.open(item("a/x", 500))
    done = await mirror.drop(row, Deletion("a/x", "u", "100", Cause.SNAPSHOT), guarded=False)
    assert (done.deleted, done.tombstones) == (1, 1)
