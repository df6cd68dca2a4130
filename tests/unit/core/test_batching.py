"""Changes gather into one transaction: the last state wins, nothing is lost, bounds hold."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from syncd.core.batching import Gathering
from syncd.core.change import Batch, Change, Delete, Marks, Reached, Upsert
from syncd.core.document import Item
from syncd.core.resource import Cause
from tests.fakes.value import item


def gathered(*changes: Change, each: bool = False, **bounds: int) -> list[Batch]:
    """The batches that these changes make."""
    batches: list[Batch] = []
    gathering = Gathering(Cause.DELETED, each=each, **bounds)
    for change in changes:
        if not gathering.add(change):
            batches.append(gathering.batch(Marks()))
            gathering = Gathering(Cause.DELETED, each=each, **bounds)
            assert gathering.add(change), "an empty batch takes anything"
    return [*batches, gathering.batch(Marks())]


def test_the_last_state_of_an_object_wins() -> None:
    (batch,) = gathered(Upsert(item("a", 1)), Upsert(item("b", 2)), Upsert(item("a", 3)), Reached("3"))
    assert [each.resource_version for each in batch.upserts] == ["3", "2"]
    assert (batch.resource_version, batch.guarded) == ("3", True)


def test_a_deletion_after_an_upsert_leaves_the_deletion() -> None:
    (batch,) = gathered(Upsert(item("a", 1)), Delete(item("a", 2)))
    assert batch.upserts == []
    assert [(each.key, each.resource_version, each.cause) for each in batch.deletes] == [
        ("default/a", "2", Cause.DELETED)
    ]
    assert batch.deletes[0].item is not None


def test_an_object_replaced_under_its_name_has_both() -> None:
    (batch,) = gathered(Delete(item("a", 2, uid="old")), Upsert(item("a", 3, uid="new")))
    assert (batch.deletes[0].uid, batch.upserts[0].uid) == ("old", "new")


def test_two_deletions_of_one_name_are_two_batches() -> None:
    first, second = gathered(
        Delete(item("a", 2, uid="one")),
        Reached("2"),
        Upsert(item("a", 3, uid="two")),
        Delete(item("a", 4, uid="two")),
    )
    assert (first.deletes[0].uid, first.upserts[0].uid, first.resource_version) == ("one", "two", "2")
    assert (second.deletes[0].uid, second.upserts, second.resource_version) == ("two", [], None)


def test_the_count_cuts() -> None:
    changes = [Upsert(item(f"p{n}", n + 1)) for n in range(5)]
    assert [len(batch.upserts) for batch in gathered(*changes, max_changes=2)] == [2, 2, 1]


def test_the_bytes_cut_and_one_that_is_too_large_is_alone() -> None:
    small, large = item("s", 1), item("l", 2, text="x" * 5000)
    batches = gathered(Upsert(small), Upsert(large), Upsert(item("t", 3)), max_bytes=3000)
    assert [[each.name for each in batch.upserts] for batch in batches] == [["s"], ["l"], ["t"]]


def test_a_batch_cut_inside_a_version_checkpoints_the_one_before() -> None:
    """list-watch.md §13.55"""
    changes = (
        Upsert(item("a", 1)),
        Reached("1"),
        Delete(item("b", 5)),
        Delete(item("c", 5)),
        Delete(item("d", 5)),
    )
    first, second = gathered(*changes, max_changes=2)
    assert (first.resource_version, len(first.deletes)) == ("1", 1)
    assert (second.resource_version, len(second.deletes)) == (None, 2)


def test_a_full_batch_still_takes_what_it_has_reached() -> None:
    (batch,) = gathered(Upsert(item("a", 1)), Reached("1", bookmark=True), max_changes=1)
    assert batch.resource_version == "1"


CHANGES = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["upsert", "delete", "reached"])), max_size=40
)


@given(CHANGES, st.integers(1, 5), st.integers(600, 4000))
def test_batches_applied_in_order_are_the_changes_applied_in_order(
    plan: list[tuple[str, str]], count: int, size: int
) -> None:
    changes: list[Change] = []
    want: dict[str, Item] = {}
    stones: list[tuple[str, str]] = []
    for version, (name, what) in enumerate(plan, start=1):
        each = item(name, version)
        if what == "upsert":
            changes.append(Upsert(each))
            want[each.key] = each
        elif what == "delete":
            changes.append(Delete(each))
            want.pop(each.key, None)
            stones.append((each.key, each.resource_version))
        else:
            changes.append(Reached(str(version)))
    table: dict[str, Item] = {}
    buried: list[tuple[str, str]] = []
    reached = 0
    for batch in gathered(*changes, max_changes=count, max_bytes=size):
        keys = [each.key for each in batch.upserts]
        assert len(keys) == len(set(keys))
        assert len(batch.deletes) == len({each.key for each in batch.deletes})
        for gone in batch.deletes:
            table.pop(gone.key, None)
            buried.append((gone.key, gone.resource_version))
        table |= {each.key: each for each in batch.upserts}
        if batch.resource_version is not None:
            assert int(batch.resource_version) > reached
            reached = int(batch.resource_version)
    assert table == want
    assert buried == stones


def test_each_change_of_an_object_has_a_batch_of_its_own_where_all_are_to_be_kept() -> None:
    first, second = gathered(Upsert(item("a", 1)), Upsert(item("b", 2)), Upsert(item("a", 3)), each=True)
    assert [one.resource_version for one in first.upserts] == ["1", "2"]
    assert [one.resource_version for one in second.upserts] == ["3"]
