"""A row that the database refuses for its data stands alone; the others go on (mirror.md §10)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from syncd.core.change import KeyRange
from syncd.core.document import Item
from syncd.core.resource import Cause
from tests.contract.mirror_case import Mirror, Place, gone, item, keys, opened

TOO_BIG = 2**63


@pytest.fixture
async def mirror(place: Place) -> AsyncIterator[Mirror]:
    async with opened(place) as mirror:
        yield mirror


def bad(key: str, version: int | str) -> Item:
    """A number that neither database holds in its bigint."""
    return item(key, version, generation=TOO_BIG)


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("count", [1, 40, 300])
async def test_the_refused_row_is_put_away_and_the_rest_is_written(
    mirror: Mirror, count: int, fresh: bool
) -> None:
    row = await mirror.open()
    items = [item(f"a/{n:03}", 200 + n) for n in range(count)]
    items[count // 2] = bad(f"a/{count // 2:03}", 7)
    done = await mirror.put(row, *items, guarded=not fresh, fresh=fresh, resource_version="900")
    assert (done.inserted, done.quarantined) == (count - 1, 1)
    assert (done.row.object_count, done.row.resource_version) == (count - 1, "900")
    assert len(mirror.versions()) == count - 1
    query = "SELECT object_key, uid, resource_version, attempts, error FROM syncd_quarantine"
    [(key, uid, version, attempts, error)] = mirror.look(query)
    assert (key, uid, version, attempts) == (f"a/{count // 2:03}", "u", "7", 1)
    assert error
    assert str(TOO_BIG) not in error  # class and code, never a value


@pytest.mark.postgres
async def test_a_lone_surrogate_is_refused_by_jsonb(postgres_place: Place) -> None:
    async with opened(postgres_place) as mirror:
        row = await mirror.open()
        odd = item("a/x", 5, document='{"kind":"Pod","text":"\\ud800"}')
        done = await mirror.put(row, odd, item("a/y", 6))
        assert (done.inserted, done.quarantined) == (1, 1)
        [(error,)] = mirror.look("SELECT error FROM syncd_quarantine")
        assert error.split()[-1][:2] == "22"


async def test_it_counts_as_present_and_stands_in_for_its_row(mirror: Mirror) -> None:
    row = await mirror.open(item("a/x", 50), item("a/y", 51))
    done = await mirror.put(row, bad("a/x", 120), bad("a/z", 121))
    assert (done.quarantined, mirror.versions()) == (2, {"a/x": "50", "a/y": "51"})
    found = await mirror.store.rows(done.row, KeyRange())
    assert [(one.key, one.resource_version, one.quarantined) for one in found] == [
        ("a/x", "120", True),
        ("a/y", "51", False),
        ("a/z", "121", True),
    ]
    assert keys(await mirror.store.rows(done.row, ["a/z", "a/y"])) == ["a/y", "a/z"]


async def test_it_guards_as_a_row_would(mirror: Mirror) -> None:
    row = await mirror.open()
    row = (await mirror.put(row, bad("a/x", 120))).row
    done = await mirror.put(row, item("a/x", 119), item("a/y", 118))
    assert (done.inserted, done.skipped) == (1, 1)
    assert mirror.look("SELECT object_key FROM syncd_quarantine") == [("a/x",)]


@pytest.mark.parametrize("guarded", [True, False])
async def test_a_later_success_heals_it(mirror: Mirror, guarded: bool) -> None:
    row = await mirror.open()
    row = (await mirror.put(row, bad("a/x", 120), bad("a/y", 121))).row
    done = await mirror.put(row, item("a/x", 130 if guarded else 120), guarded=guarded)
    assert done.inserted == 1
    assert mirror.look("SELECT object_key FROM syncd_quarantine") == [("a/y",)]


async def test_a_deletion_removes_it(mirror: Mirror) -> None:
    row = await mirror.open()
    row = (await mirror.put(row, bad("a/x", 120), bad("a/y", 121))).row
    row = (await mirror.drop(row, gone("a/x", 130))).row
    await mirror.drop(row, gone("a/y", 131, cause=Cause.SNAPSHOT, seen=False), guarded=False)
    assert mirror.look("SELECT object_key FROM syncd_quarantine") == []


async def test_another_refusal_counts_on(mirror: Mirror) -> None:
    row = await mirror.open()
    row = (await mirror.put(row, bad("a/x", 120))).row
    [(first,)] = mirror.look("SELECT first_seen_at FROM syncd_quarantine")
    await mirror.put(row, bad("a/x", 120), guarded=False)
    query = "SELECT attempts, first_seen_at, last_tried_at > first_seen_at FROM syncd_quarantine"
    assert mirror.look(query) == [(2, first, True)]


async def test_a_deletion_whose_content_is_refused_still_removes_its_row(mirror: Mirror) -> None:
    row = await mirror.open(item("a/x", 50), item("a/y", 51))
    deletion = gone("a/x", 130)
    assert deletion.item is not None
    odd = type(deletion)("a/x", "u", "130", Cause.DELETED, bad("a/x", 130))
    done = await mirror.drop(row, odd, gone("a/y", 131))
    assert (done.deleted, done.tombstones) == (2, 2)
    assert mirror.versions() == {}
    query = "SELECT object_key, resource_version FROM syncd_deleted_objects ORDER BY 1"
    assert mirror.look(query) == [("a/x", "130"), ("a/y", "131")]


async def test_it_leaves_with_its_stream(mirror: Mirror) -> None:
    row = await mirror.open()
    row = (await mirror.put(row, bad("a/x", 120))).row
    await mirror.store.retire(row.stream_id, cause=Cause.DESELECTED)
    assert mirror.look("SELECT object_key FROM syncd_quarantine") == []
