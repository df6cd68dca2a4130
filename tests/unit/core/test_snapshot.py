"""What differs between a page and its rows, and what of it is drift: against a model of a cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncd.core.change import DriftKind, RowVersion, Tombstone
from syncd.core.document import Item
from syncd.core.resource import Cause
from syncd.core.snapshot import DeletionGuard, difference, judge
from tests.fakes.value import item


def row(of: Item, *, document: str | None = None, quarantined: bool = False) -> RowVersion:
    return RowVersion(of.key, of.namespace, of.name, of.uid, of.resource_version, document, quarantined)


def stone(version: int) -> Tombstone:
    return Tombstone("default/a", "u-a", str(version), Cause.DELETED)


# --- difference -----------------------------------------------------------------------------------


def test_each_kind_of_difference() -> None:
    same, newer, other, new = item("same", 1), item("newer", 5), item("other", 3, uid="u2"), item("new", 4)
    poison, deep = item("poison", 6), item("deep", 7, a=1)
    rows = [
        row(same),
        row(item("newer", 2)),
        row(item("other", 3)),
        row(poison, quarantined=True),
        row(deep, document=item("deep", 7, a=2).document),
        row(item("gone", 9)),
    ]
    found = difference([same, newer, other, new, poison, deep], rows)
    assert found.missing == (new,)
    assert [each.name for each, _ in found.stale] == ["newer", "other"]
    assert [each.name for each, _ in found.altered] == ["deep"]
    assert found.retry == (poison,)
    assert [each.name for each in found.gone] == ["gone"]
    assert found.equal == 1
    assert [each.name for each in found.upserts] == ["new", "newer", "other", "deep"]


def test_content_is_compared_only_where_rows_carry_it() -> None:
    changed = item("a", 7, a=1)
    assert difference([changed], [row(item("a", 7, a=2))]).equal == 1
    spaced = row(changed, document=changed.document.replace(":", ": "))
    assert difference([changed], [spaced]).equal == 1


STATES = st.dictionaries(
    st.sampled_from("abcdef"), st.tuples(st.integers(1, 9), st.sampled_from(["u1", "u2"])), max_size=6
)


@given(STATES, STATES)
def test_writing_what_differs_makes_the_table_equal_to_the_cluster(
    cluster: dict[str, tuple[int, str]], table: dict[str, tuple[int, str]]
) -> None:
    items = [item(name, version, uid=uid) for name, (version, uid) in sorted(cluster.items())]
    rows = [row(item(name, version, uid=uid)) for name, (version, uid) in sorted(table.items())]
    found = difference(items, rows)
    after = dict(table)
    for each in found.gone:
        del after[each.name]
    for written in found.upserts:
        assert after.get(written.name) != (int(written.resource_version), written.uid), (
            "an equal row was written"
        )
        after[written.name] = (int(written.resource_version), written.uid)
    assert after == cluster
    assert found.equal + len(found.upserts) == len(items)


# --- judge ----------------------------------------------------------------------------------------

L, P = 100, 200
VERSIONS = (str(L), str(P))


@pytest.mark.parametrize(
    ("listed", "now", "buried", "want"),
    [
        (None, None, None, None),
        (50, 50, None, None),
        (50, None, None, DriftKind.MISSING),
        (50, None, 100, DriftKind.MISSING),  # a deletion that the list, at the same version, denies
        (50, None, 101, None),  # deleted after the list
        (50, None, 200, None),
        (50, None, 201, DriftKind.MISSING),  # from the future
        (50, 40, None, DriftKind.STALE),
        (50, 60, None, DriftKind.STALE),  # above the object and not above the list: never was
        (50, 100, None, DriftKind.STALE),
        (50, 101, None, None),  # changed after the list
        (50, 200, None, None),
        (50, 201, None, DriftKind.STALE),
        (None, 40, None, DriftKind.GHOST),
        (None, 100, None, DriftKind.GHOST),
        (None, 101, None, None),  # made after the list
        (None, 201, None, DriftKind.GHOST),
        (None, None, 150, None),
    ],
)
def test_judgements(listed: int | None, now: int | None, buried: int | None, want: DriftKind | None) -> None:
    found = judge(
        None if listed is None else item("a", listed),
        None if now is None else row(item("a", now)),
        None if buried is None else stone(buried),
        VERSIONS,
    )
    assert found is want


def test_another_object_under_the_name() -> None:
    assert judge(item("a", 50, uid="new"), row(item("a", 50)), None, VERSIONS) is DriftKind.STALE


def test_altered_content() -> None:
    altered = row(item("a", 50), document=item("a", 50, x=1).document)
    assert judge(item("a", 50), altered, None, VERSIONS) is DriftKind.ALTERED
    assert judge(item("a", 50), replace(altered, document=None), None, VERSIONS) is None


def test_a_tombstone_says_nothing_of_a_row() -> None:
    assert judge(item("a", 50), row(item("a", 40)), stone(150), VERSIONS) is DriftKind.STALE


def test_versions_that_do_not_compare_are_never_newer() -> None:
    assert judge(item("a", "x"), row(item("a", "y")), None, ("l", "p")) is DriftKind.STALE


HISTORY = st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=25)


@given(HISTORY, st.integers(0, 25), st.integers(0, 25), st.data())
def test_a_correct_mirror_never_drifts_and_a_spoiled_one_always_does(
    history: list[tuple[str, bool]], at: int, more: int, data: st.DataObject
) -> None:
    """A cluster writes or deletes one key a version; the list is at L, the stream has applied up to P."""
    listed = min(at, len(history))
    passed = min(listed + more, len(history))

    def state(upto: int) -> tuple[dict[str, Item], dict[str, int]]:
        alive: dict[str, Item] = {}
        dead: dict[str, int] = {}
        for version, (name, is_deletion) in enumerate(history[:upto], start=11):
            if is_deletion and name in alive:
                del alive[name]
                dead[name] = version
            elif not is_deletion:
                alive[name] = item(name, version)
        return alive, dead

    (then, _), (now, dead) = state(listed), state(passed)
    versions = (str(10 + listed), str(10 + passed))

    def verdict(name: str, table: dict[str, Item]) -> DriftKind | None:
        present = row(table[name]) if name in table else None
        buried = stone(dead[name]) if name in dead else None
        return judge(then.get(name), present, buried, versions)

    assert all(verdict(name, now) is None for name in "abc")
    untouched = [
        name for name in "abc" if then.get(name) == now.get(name) and dead.get(name, 0) <= 10 + listed
    ]
    if not untouched:
        return
    name = data.draw(st.sampled_from(untouched))
    spoiled = dict(now)
    if name in now:
        del spoiled[name]
        assert verdict(name, spoiled) is DriftKind.MISSING
        spoiled[name] = item(name, 1)
        assert verdict(name, spoiled) is DriftKind.STALE
    else:
        spoiled[name] = item(name, 1)
        assert verdict(name, spoiled) is DriftKind.GHOST


# --- the guard ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "deletions", "want"),
    [
        (99, [99], [True]),  # too few to be suspicious
        (100, [50], [True]),
        (100, [51], [False]),
        (1000, [200, 200, 101], [True, True, False]),
        (0, [5], [True]),
    ],
)
def test_the_page_that_passes_the_share_is_refused(rows: int, deletions: list[int], want: list[bool]) -> None:
    guard = DeletionGuard(rows)
    assert [guard.allows(count) for count in deletions] == want


def test_a_share_of_its_own() -> None:
    assert not DeletionGuard(100, share=0.0).allows(1)
    assert DeletionGuard(100, share=1.0).allows(100)
