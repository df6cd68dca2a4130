"""The initial events of a WatchList: pages whose version is known with the last one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from syncd.core.change import KeyRange, Reached, Upsert
from syncd.core.document import Head, Transform
from syncd.core.errors import NoInitialEvents, ProtocolError
from syncd.core.frames import Frame, LineSplitter, parse_frame, parse_page
from syncd.core.listwatch import INITIAL_BYTES, Initial, Listed, Listing, ListWatch, SnapshotPage, Watching
from syncd.core.resource import Resource
from tests.fakes.recording import recording
from tests.fakes.value import PODS, added, bookmark, deleted, failed, modified, page, pod


def frame(raw: bytes) -> Frame:
    found = parse_frame(raw)
    assert found is not None
    return found


def opened(*, limit: int | None = 500, whole: bool = True) -> ListWatch:
    machine = ListWatch(Transform(PODS), limit=limit)
    machine.watch_list_opened(whole=whole)
    return machine


def feed(machine: ListWatch, *raws: bytes) -> list[SnapshotPage]:
    pages = (machine.initial_event_received(frame(raw)) for raw in raws)
    return [each for each in pages if each is not None]


def keys(found: SnapshotPage) -> list[str]:
    return [item.key.removeprefix("default/") for item in found.items]


END = bookmark(50, ends_initial=True)


def test_the_recorded_initial_events_are_one_page_and_the_watch_goes_on() -> None:
    """list-watch.md §13.16"""
    machine = ListWatch(Transform(Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)))
    machine.watch_list_opened()
    lines = LineSplitter().feed(recording("watchlist-send-initial-events").body)
    pages = [each for each in (machine.initial_event_received(frame(line)) for line in lines) if each]
    assert [item.name for item in pages[0].items] == [f"cm-{number}" for number in range(1, 6)]
    assert (pages[0].resource_version, pages[0].first, pages[0].last) == ("1342", True, True)
    assert pages[0].ordered
    assert machine.state == Watching("1342", "1342", "1342")


def test_pages_are_ranges_that_meet_and_the_last_tells_the_version() -> None:
    first, second, last = feed(opened(limit=2), *(added(name, 40) for name in "abcde"), END)
    assert [keys(each) for each in (first, second, last)] == [["a", "b"], ["c", "d"], ["e"]]
    assert first.range == KeyRange(None, "default/b")
    assert second.range == KeyRange("default/b", "default/d")
    assert last.range == KeyRange("default/d", None)
    assert [each.resource_version for each in (first, second, last)] == ["", "", "50"]
    assert [(each.first, each.last) for each in (first, second, last)] == [
        (True, False),
        (False, False),
        (False, True),
    ]


def test_nothing_at_all_is_a_page_that_speaks_for_all_keys() -> None:
    (only,) = feed(opened(), END)
    assert (only.items, only.range, only.first, only.last) == ((), KeyRange(), True, True)


def test_a_page_is_bounded_in_bytes() -> None:
    (large,) = feed(opened(), added("a", 1, blob="x" * INITIAL_BYTES))
    assert (keys(large), large.last) == (["a"], False)


def test_heads_where_whole_objects_are_not_asked_for() -> None:
    (only,) = feed(opened(whole=False), added("a", 40), END)
    (head,) = only.items
    assert isinstance(head, Head)
    assert Transform(PODS).whole(head).resource_version == "40"


@pytest.mark.parametrize(
    ("raws", "left", "removed"),
    [
        ([added("b", 1), added("a", 1)], {"a": "1", "b": "1"}, set()),
        ([added("a", 1), modified("a", 2)], {"a": "2"}, set()),
        ([added("a", 1), added("a", 2)], {"a": "2"}, set()),
        ([added("a", 1), deleted("a", 2)], {}, {"a"}),
        ([added("b", 1), deleted("a", 2)], {"b": "1"}, {"a"}),
        ([added("a", 1), deleted("a", 2), added("a", 3, uid="other")], {"a": "3"}, set()),
    ],
)
def test_changes_between_the_objects_are_applied_and_told(
    raws: list[bytes], left: dict[str, str], removed: set[str]
) -> None:
    """Older servers let them through (list-watch.md §5)."""
    (only,) = feed(opened(), *raws, END)
    assert not only.ordered
    assert {item.name: item.resource_version for item in only.items} == left
    assert {key.removeprefix("default/") for key in only.removed} == removed


def test_what_was_out_of_order_once_is_not_believed_again() -> None:
    first, second, last = feed(opened(limit=2), *(added(name, 1) for name in "bacde"), END)
    assert not (first.ordered or second.ordered or last.ordered)


def test_a_bookmark_that_ends_nothing_betrays_a_server_that_cannot() -> None:
    machine = opened()
    assert feed(machine, bookmark(40)) == []  # before any object it says nothing
    feed(machine, added("a", 1))
    with pytest.raises(NoInitialEvents):
        machine.initial_event_received(frame(bookmark(45)))
    assert isinstance(machine.state, Initial)


def test_an_end_before_the_bookmark_leaves_nothing() -> None:
    """list-watch.md §13.17"""
    machine = opened(limit=2)
    feed(machine, *(added(name, 1) for name in "abc"))
    machine.stream_ended()
    assert machine.state == Listing()
    machine.watch_list_opened()
    (only,) = feed(machine, added("d", 1), END)
    assert (keys(only), only.first, only.range) == (["d"], True, KeyRange())


class Initials(RuleBasedStateMachine):
    """A server that says what there is, in order or with changes between, and a table made of its pages."""

    @initialize(names=st.sets(st.integers(0, 30)), limit=st.integers(1, 5), mingled=st.booleans())
    def begin(self, names: set[int], limit: int, mingled: bool) -> None:
        self.machine = ListWatch(Transform(PODS), limit=limit)
        self.limit, self.mingled = limit, mingled
        self.version = 100
        self.objects = {f"p{name:02}": 100 for name in names}
        self.reset()

    def reset(self) -> None:
        self.waiting = sorted(self.objects)
        self.table: dict[str, str] = {}
        self.upto: str | None = None
        self.pages = 0
        self.changed = False  # a change came between the objects

    def is_in(self, state: type) -> bool:
        return isinstance(self.machine.state, state)

    def take(self, raw: bytes) -> None:
        found = self.machine.initial_event_received(frame(raw))
        if found is None:
            return
        assert found.range.after == self.upto
        assert found.first is (self.pages == 0)
        assert found.ordered or self.changed
        assert len(found.items) + len(found.removed) <= self.limit
        assert found.last is bool(found.resource_version)
        if found.ordered:
            assert all(item.key in found.range for item in found.items)
        for key in found.removed:
            self.table.pop(key.removeprefix("default/"), None)
        self.table |= {item.name: item.resource_version for item in found.items}
        self.upto = found.range.upto or None
        self.pages += 1

    @precondition(lambda self: self.machine.state == Listing())
    @rule()
    def opens(self) -> None:
        self.reset()
        self.machine.watch_list_opened()

    @precondition(lambda self: self.is_in(Initial) and self.waiting)
    @rule()
    def an_object(self) -> None:
        name = self.waiting.pop(0)
        if name in self.objects:
            self.take(added(name, self.objects[name]))

    @precondition(lambda self: self.is_in(Initial) and self.mingled)
    @rule(number=st.integers(0, 30), gone=st.booleans())
    def a_change_between(self, number: int, gone: bool) -> None:
        """Of an object that was told already, or is new."""
        name = f"p{number:02}"
        if name in self.waiting:
            return
        self.version += 1
        self.changed = True
        if not gone:
            kind = modified if name in self.objects else added
            self.objects[name] = self.version
            self.take(kind(name, self.version))
        elif self.objects.pop(name, None):
            self.take(deleted(name, self.version))

    @precondition(lambda self: self.is_in(Initial))
    @rule()
    def the_end(self) -> None:
        while self.waiting:
            self.an_object()
        self.take(bookmark(self.version, ends_initial=True))
        assert self.table == {name: str(version) for name, version in self.objects.items()}
        at = str(self.version)
        assert self.machine.state == Watching(at, at, at)
        assert (self.machine.position, self.machine.received) == (at, at)

    @precondition(lambda self: self.is_in(Watching))
    @rule(number=st.integers(0, 30))
    def a_change_after(self, number: int) -> None:
        before = self.machine.position
        self.version += 1
        name = f"p{number:02}"
        self.objects[name] = self.version
        changes = self.machine.event_received(frame(modified(name, self.version)))
        reached = [change for change in changes if isinstance(change, Reached)]
        assert all(int(change.resource_version) < self.version for change in reached)
        assert isinstance(changes[-1], Upsert)
        assert int(self.machine.position) >= int(before)

    @precondition(lambda self: self.is_in(Initial) or self.is_in(Watching))
    @rule()
    def ends(self) -> None:
        initial = self.is_in(Initial)
        self.machine.stream_ended()
        assert self.machine.state == Listing() if initial else self.is_in(Listed)

    @precondition(lambda self: not self.is_in(Listing))
    @rule()
    def relist(self) -> None:
        self.machine.relist()
        assert self.machine.state == Listing()

    @rule()
    def reports_that_are_illegal(self) -> None:
        machine = self.machine
        illegal: list[Callable[[], object]] = [
            lambda: machine.initial_event_received(frame(failed(500, "InternalError")))
        ]
        if not self.is_in(Listing):
            illegal.append(machine.watch_list_opened)
            illegal.append(lambda: machine.page_received(parse_page(page(5, [pod("a", 1)]))))
        if not self.is_in(Initial):
            illegal.append(lambda: machine.initial_event_received(frame(added("a", 1))))
        if self.is_in(Initial):
            illegal += [machine.watch_opened, lambda: machine.position, lambda: machine.received]
            illegal.append(lambda: machine.event_received(frame(added("a", 999999))))
            illegal.append(lambda: machine.initial_event_received(frame(added("", 1))))
        before = machine.state
        for report in illegal:
            with pytest.raises(ProtocolError):
                report()
            assert machine.state == before


Initials.TestCase.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
TestInitials = Initials.TestCase
