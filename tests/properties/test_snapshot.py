"""Pages as ranges, and what a reconcile calls drift, against models."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from syncd.core.change import DriftKind, KeyRange, Tombstone
from syncd.core.document import Item, Transform
from syncd.core.frames import LineSplitter, parse_frame, parse_page
from syncd.core.listwatch import ListWatch, SnapshotPage
from syncd.core.resource import Cause
from syncd.core.snapshot import DeletionGuard, difference, judge
from tests.fakes.value import PODS, bookmark, item, line, page
from tests.properties.cluster import Cluster, State, in_order, wire
from tests.properties.table import Table

names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0\n"), min_size=1, max_size=3)
keys = st.builds("{}/{}".format, st.sampled_from(["a", "ord", "ord-b", "z"]), names)
states = st.dictionaries(keys, st.tuples(st.sampled_from(["u", "v"]), st.integers(1, 9)), max_size=12)


def pages(listed: State, sizes: list[int], version: int) -> list[SnapshotPage]:
    """The list in pages of these sizes, and a last one with the rest."""
    machine, waiting, made = ListWatch(Transform(PODS)), in_order(listed), []
    for size in sizes:
        taken, waiting = waiting[:size], waiting[size:]
        body = page(version, [wire(key, *listed[key]) for key in taken], "more")
        made.append(machine.page_received(parse_page(body)))
    body = page(version, [wire(key, *listed[key]) for key in waiting])
    return [*made, machine.page_received(parse_page(body))]


@given(states, states, st.lists(st.integers(0, 4), max_size=6))
def test_any_pages_of_a_list_make_the_rows_equal_and_write_what_differs_alone(
    rows: State, listed: State, sizes: list[int]
) -> None:
    table, written = Table(rows=dict(rows)), 0
    for made in pages(listed, sizes, 100):
        found = difference(made.items, table.within(made.range))
        assert all(row.key in made.range for row in found.gone)
        written += len(found.upserts) + len(found.gone)
        table.overwrite(found.upserts, list(found.gone), 100)
    assert table.rows == listed
    assert written == len({key for key in rows | listed if rows.get(key) != listed.get(key)})


@given(states, st.lists(st.integers(0, 4), max_size=6), st.data())
def test_a_list_that_breaks_off_deletes_nothing_it_did_not_speak_of(
    rows: State, sizes: list[int], data: st.DataObject
) -> None:
    listed = {key: value for key, value in rows.items() if data.draw(st.booleans())}
    made = pages(listed, sizes, 100)
    read = made[: data.draw(st.integers(0, len(made) - 1))]
    highest = max((each.key for one in read for each in one.items), key=str.encode, default="")
    table = Table(rows=dict(rows))
    for one in read:
        found = difference(one.items, table.within(one.range))
        table.overwrite(found.upserts, list(found.gone), 100)
    assert all(key in table.rows for key in rows if key.encode() > highest.encode())


@given(states, st.integers(1, 4))
def test_initial_events_are_the_same_pages_as_a_list(listed: State, limit: int) -> None:
    machine, splitter, made = ListWatch(Transform(PODS), limit=limit), LineSplitter(), []
    machine.watch_list_opened()
    sent = b"".join(line("ADDED", wire(key, *listed[key])) for key in in_order(listed))
    for raw in splitter.feed(sent + bookmark(100, ends_initial=True)):
        frame = parse_frame(raw)
        assert frame is not None
        one = machine.initial_event_received(frame)
        made += [one] if one is not None else []
    assert [each.key for one in made for each in one.items] == in_order(listed)
    assert all(one.ordered and len(one.items) <= limit for one in made)
    assert made[-1].last
    assert made[-1].resource_version == "100"
    for key in listed:
        assert sum(key in one.range for one in made) == 1


@given(st.integers(0, 300), st.floats(0, 1), st.lists(st.integers(0, 50), max_size=12))
def test_the_guard_lets_through_no_more_than_the_share(rows: int, share: float, deletions: list[int]) -> None:
    guard, let = DeletionGuard(rows, share=share), 0
    for count in deletions:
        if not guard.allows(count):
            break
        let += count
    assert rows < 100 or let <= rows * share


# --- drift ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Live:
    """What a stream made of a log, some of which it was never told."""

    table: Table
    untold: set[str]


KEYS = ["a/x", "a/y", "b/x"]
writes = st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(["put", "anew", "remove"])), max_size=15)


def happened(cluster: Cluster, done: list[tuple[str, str]]) -> None:
    for key, what in done:
        if what != "remove":
            cluster.put(key, anew=what == "anew")
        elif key in cluster.objects:
            cluster.remove([key])


def lived(cluster: Cluster, told: list[bool]) -> Live:
    """The table of a stream that heard what was told."""
    live = Live(Table(), set())
    for heard, each in zip(told, cluster.log, strict=True):
        if not heard:
            live.untold.add(each.key)
            continue
        live.untold.discard(each.key)
        if each.deletes:
            live.table.rows.pop(each.key, None)
            live.table.tombstones[each.key] = each.version
        else:
            live.table.rows[each.key] = (each.uid, each.version)
    return live


@given(writes, writes, st.data())
def test_drift_is_what_nobody_was_told_and_nothing_else(
    before: list[tuple[str, str]], after: list[tuple[str, str]], data: st.DataObject
) -> None:
    """A list is made between the two; what comes after it is told, and is no drift."""
    cluster = Cluster()
    happened(cluster, before)
    told = [data.draw(st.booleans()) for _ in cluster.log]
    snapshot, listed = dict(cluster.objects), cluster.version
    happened(cluster, after)
    since = {each.key for each in cluster.after(listed)}
    live = lived(cluster, told + [True] * (len(cluster.log) - len(told)))
    for key in KEYS:
        row = live.table.version(key) if key in live.table.rows else None
        found = judge(_item(key, snapshot), row, _stone(key, live), (str(listed), str(cluster.version)))
        there, wanted = live.table.rows.get(key), snapshot.get(key)
        if key in since or there == wanted:
            assert found is None
        elif there is None:
            assert found is DriftKind.MISSING
        else:
            assert found is (DriftKind.GHOST if wanted is None else DriftKind.STALE)


def _item(key: str, snapshot: State) -> Item | None:
    if key not in snapshot:
        return None
    uid, version = snapshot[key]
    namespace, _, name = key.rpartition("/")
    return item(name, version, uid=uid, namespace=namespace)


def _stone(key: str, live: Live) -> Tombstone | None:
    version = live.table.tombstones.get(key)
    return None if version is None else Tombstone(key, "u", str(version), Cause.DELETED)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@given(texts, texts)
def test_a_key_is_in_one_of_two_ranges_that_meet(edge: str, key: str) -> None:
    assert (key in KeyRange(upto=edge)) != (key in KeyRange(after=edge))
