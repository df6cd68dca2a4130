"""The list/watch machine against a model of what a server may send and what may be promised of it."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from syncd.core.change import Change, Delete, KeyRange, Reached, Upsert
from syncd.core.document import Transform
from syncd.core.errors import ProtocolError
from syncd.core.frames import Frame, LineSplitter, Page, parse_frame, parse_page
from syncd.core.listwatch import Listed, Listing, ListWatch, SnapshotPage, Watching
from tests.fakes.recording import recording
from tests.fakes.value import EVENTS, PODS, added, bookmark, deleted, modified, page, pod


def frame(raw: bytes) -> Frame:
    found = parse_frame(raw)
    assert found is not None
    return found


def watching(version: str = "100") -> ListWatch:
    machine = ListWatch(Transform(PODS), resource_version=version)
    machine.watch_opened()
    return machine


def feed(machine: ListWatch, *raws: bytes) -> list[str]:
    """What the machine gives, in short: `+key@version`, `-key@version`, `=version`."""
    given: list[str] = []
    for raw in raws:
        for change in machine.event_received(frame(raw)):
            match change:
                case Upsert(item):
                    given.append(f"+{item.name}@{item.resource_version}")
                case Delete(item):
                    given.append(f"-{item.name}@{item.resource_version}")
                case Reached(version):
                    given.append(f"={version}")
    return given


def listed(machine: ListWatch, *bodies: bytes) -> list[SnapshotPage]:
    return [machine.page_received(parse_page(body)) for body in bodies]


# --- reached --------------------------------------------------------------------------------------


def test_a_version_is_closed_by_a_higher_one() -> None:
    assert feed(watching(), added("a", 101), modified("b", 103)) == ["+a@101", "=101", "+b@103"]


def test_a_version_is_passed_when_it_is_closed_or_a_later_one_came() -> None:
    machine = watching("100")
    feed(machine, added("a", 105), deleted("b", 105))
    assert [machine.passed(str(version)) for version in (99, 100, 104, 105, 106)] == [True] * 3 + [False] * 2
    assert machine.state == Watching("100", received="105", closed="100", alike=2)
    feed(machine, bookmark(105))
    assert machine.passed("105")
    assert machine.state == Watching("100", received="105", closed="105")
    feed(machine, added("c", 110))
    machine.stream_ended()
    assert not machine.passed("109"), "the next watch begins below, and what comes first is not known"


def test_a_version_is_closed_by_a_bookmark() -> None:
    assert feed(watching(), added("a", 101), bookmark(101)) == ["+a@101", "=101"]
    assert feed(watching(), bookmark(120)) == ["=120"]


def test_several_events_at_one_version_are_closed_together() -> None:
    """list-watch.md §13.55"""
    raws = (deleted("a", 105), deleted("b", 105), deleted("c", 105), added("d", 106))
    assert feed(watching(), *raws) == ["-a@105", "-b@105", "-c@105", "=105", "+d@106"]


def test_three_recorded_deletions_at_one_version() -> None:
    machine = ListWatch(Transform(EVENTS), resource_version="50971")
    machine.watch_opened()
    lines = LineSplitter().feed(recording("watch-three-deletions-at-one-rv").body)
    changes = [change for each in lines for change in machine.event_received(frame(each))]
    deletions = [change for change in changes if isinstance(change, Delete)]
    assert len(deletions) == 3
    assert len({change.item.resource_version for change in deletions}) == 1
    at = deletions[0].item.resource_version
    assert not any(isinstance(change, Reached) and change.resource_version == at for change in changes[:3])


def test_the_next_watch_starts_from_what_is_closed() -> None:
    machine = watching()
    feed(machine, added("a", 101), added("b", 105))
    machine.stream_ended()
    assert machine.state == Listed("101")
    assert machine.position == "101"


def test_what_was_received_does_not_fall_back_when_a_watch_ends() -> None:
    """A row stands at 105 by now: a reconcile must not take it for one from nowhere."""
    machine = watching()
    feed(machine, added("a", 101), added("b", 105))
    assert machine.received == "105"
    machine.stream_ended()
    assert machine.received == "105"
    machine.watch_opened()
    assert machine.received == "105"
    feed(machine, added("b", 105), bookmark(130))
    assert (machine.received, machine.position) == ("130", "130")


def test_duplicates_from_before_the_watch_pass_to_the_guard_and_move_nothing() -> None:
    machine = watching()
    assert feed(machine, added("a", 90), added("b", 100)) == ["+a@90", "+b@100"]
    assert (machine.position, machine.received) == ("100", "100")


@pytest.mark.parametrize("back", [104, 100, 90])
def test_an_event_that_goes_back_is_refused(back: int) -> None:
    """In one batch the last state of a key wins: an older one after a newer one would hide it."""
    machine = watching()
    feed(machine, added("a", 105))
    before = machine.state
    with pytest.raises(ProtocolError):
        machine.event_received(frame(modified("a", back)))
    assert machine.state == before


def test_a_bookmark_below_an_event_is_refused_and_one_below_a_bookmark_says_nothing() -> None:
    machine = watching()
    assert feed(machine, bookmark(150)) == ["=150"]
    assert feed(machine, bookmark(140)) == []  # another server's, or the side watch was ahead
    assert machine.position == "150"
    feed(machine, added("a", 160))
    with pytest.raises(ProtocolError):
        machine.event_received(frame(bookmark(155)))


@pytest.mark.parametrize("version", ["", "0"])
def test_an_event_without_a_version_never_becomes_a_checkpoint(version: str) -> None:
    machine = watching()
    with pytest.raises(ProtocolError):
        machine.event_received(frame(added("a", version)))
    assert machine.position == "100"


def test_versions_that_do_not_compare_keep_the_stream_s_order() -> None:
    machine = watching("x1")
    raws = (added("a", "x9"), added("b", "x9"), added("c", "x2"), bookmark("x5"))
    assert feed(machine, *raws) == ["+a@x9", "+b@x9", "=x9", "+c@x2", "=x5"]


def test_numbers_beyond_a_bigint() -> None:
    low, high = "9" * 30, "1" + "0" * 30
    assert feed(watching("5"), added("a", low), added("b", high)) == [f"+a@{low}", f"={low}", f"+b@{high}"]


# --- pages ----------------------------------------------------------------------------------------


def test_a_page_speaks_for_the_keys_since_the_one_before() -> None:
    machine = ListWatch(Transform(PODS), limit=2)
    assert machine.next_page().limit == 2
    first, second, last = listed(
        machine,
        page(50, [pod("a", 1), pod("b", 2)], "t1"),
        page(50, [pod("c", 3), pod("d", 4)], "t2"),
        page(50, [pod("e", 5)]),
    )
    assert first.range == KeyRange(None, "default/b")
    assert second.range == KeyRange("default/b", "default/d")
    assert last.range == KeyRange("default/d", None)
    assert [p.first for p in (first, second, last)] == [True, False, False]
    assert [p.last for p in (first, second, last)] == [False, False, True]
    assert machine.state == Listed("50")


def test_the_token_is_asked_for_next() -> None:
    machine = ListWatch(Transform(PODS))
    assert machine.next_page().continue_token is None
    listed(machine, page(50, [pod("a", 1)], "t1"))
    assert machine.next_page().continue_token == "t1"


def test_an_empty_page_carries_the_lower_bound() -> None:
    """list-watch.md §13.10"""
    machine = ListWatch(Transform(PODS))
    _, empty, last = listed(
        machine, page(50, [pod("b", 1)], "t1"), page(50, [], "t2"), page(50, [pod("c", 1)])
    )
    assert not any(key in empty.range for key in ("", "default/a", "default/b", "default/c", "z"))
    assert last.range == KeyRange("default/b", None)


def test_an_empty_first_page_speaks_for_nothing() -> None:
    """An unbounded range would delete every row."""
    machine = ListWatch(Transform(PODS))
    empty, last = listed(machine, page(50, None, "t1"), page(50, [pod("c", 1)]))
    assert not any(key in empty.range for key in ("a", "default/a", "\U0010ffff"))
    assert last.range == KeyRange(None, None)
    assert (empty.first, last.first) == (True, False)


def test_an_empty_list_speaks_for_all_keys() -> None:
    (only,) = listed(ListWatch(Transform(PODS)), page(50, []))
    assert only.range == KeyRange(None, None)
    assert only.last and only.ordered


def test_an_inconsistent_continuation_is_refused() -> None:
    """list-watch.md §13.11"""
    machine = ListWatch(Transform(PODS))
    listed(machine, page(50, [pod("a", 1)], "t1"))
    before = machine.state
    with pytest.raises(ProtocolError):
        machine.page_received(parse_page(page(51, [pod("b", 1)])))
    assert machine.state == before


def test_the_recorded_inconsistent_continuation_is_refused() -> None:
    machine = ListWatch(Transform(PODS))
    machine.page_received(parse_page(recording("list-page-1").body))
    with pytest.raises(ProtocolError):
        machine.page_received(parse_page(recording("list-inconsistent-continue").body))


def test_the_recorded_pages_are_one_list() -> None:
    machine = ListWatch(Transform(PODS))
    found = listed(machine, *(recording(f"list-page-{name}").body for name in ("1", "2", "3-last")))
    whole = listed(ListWatch(Transform(PODS)), recording("list-all").body)[0]
    assert [item.key for each in found for item in each.items] == [item.key for item in whole.items]
    assert all(each.ordered for each in found)


def test_order_is_that_of_bytes() -> None:
    """`ord-b/a` before `ord/a`, and an astral character after every other, as etcd has them."""
    keys = ["ord-b", "ord", "ord\uffff", "ord\U0001f600"]
    (only,) = listed(ListWatch(Transform(PODS)), page(5, [pod("a", 1, namespace=each) for each in keys]))
    assert only.ordered


@pytest.mark.parametrize("names", [["b", "a"], ["a", "a"], ["a", "c", "b", "d"]])
def test_keys_out_of_order_are_told(names: list[str]) -> None:
    (only,) = listed(ListWatch(Transform(PODS)), page(5, [pod(name, 1) for name in names]))
    assert not only.ordered


def test_of_an_object_that_is_listed_twice_the_newest_counts() -> None:
    body = page(50, [pod("a", 3), pod("b", 4), pod("a", 9), pod("b", 2)])
    (found,) = listed(ListWatch(Transform(PODS)), body)
    assert [(item.name, item.resource_version) for item in found.items] == [("a", "9"), ("b", "4")]
    assert not found.ordered


def test_order_holds_across_pages() -> None:
    machine = ListWatch(Transform(PODS))
    _, second = listed(machine, page(5, [pod("m", 1)], "t"), page(5, [pod("a", 1)]))
    assert not second.ordered


def test_an_item_that_cannot_be_read_changes_nothing() -> None:
    machine = ListWatch(Transform(PODS))
    with pytest.raises(ProtocolError):
        machine.page_received(parse_page(page(5, [pod("a", 1), {"metadata": {}}])))
    assert machine.state == Listing()


# --- the machine against a model ------------------------------------------------------------------

GAPS = st.integers(min_value=0, max_value=3)


class Protocol(RuleBasedStateMachine):
    """A server with a history of (version, key); the machine is promised nothing but its order."""

    @initialize(start=st.none() | st.integers(min_value=1, max_value=50))
    def begin(self, start: int | None) -> None:
        self.machine = ListWatch(Transform(PODS), resource_version=None if start is None else str(start))
        self.server = 100 if start is None else start
        self.sent: list[tuple[int, int]] = []  # (version, number) of every event of the present watch
        self.given: set[int] = set()
        self.number = 0
        self.list_version: int | None = None
        self.last = ""
        self.token = 0

    def is_in(self, state: type) -> bool:
        return isinstance(self.machine.state, state)

    def refused(self, report: object) -> None:
        before = self.machine.state
        with pytest.raises(ProtocolError):
            report()  # type: ignore[operator]
        assert self.machine.state == before

    def take(self, changes: tuple[Change, ...]) -> None:
        for change in changes:
            if isinstance(change, Reached):
                version = int(change.resource_version)
                owed = [number for at, number in self.sent if at <= version]
                assert set(owed) <= self.given, "reached before it was given"
                assert self.closed_by(version), "an event at this version may still come"
            else:
                self.given.add(int(change.item.name.removeprefix("p")))

    def closed_by(self, version: int) -> bool:
        return self.server > version or self.bookmarked == version

    bookmarked = -1

    @precondition(lambda self: self.is_in(Listing))
    @rule(names=st.lists(st.integers(min_value=0, max_value=9), max_size=4), more=st.booleans())
    def a_page(self, names: list[int], more: bool) -> None:
        if self.list_version is None:
            self.server += 1
            self.list_version, self.last = self.server, ""
        keys = sorted({f"{self.last}{name}" for name in names})
        keys = [key for key in keys if key > self.last]
        body = page(self.list_version, [pod(key, 1) for key in keys], f"t{self.token}" if more else "")
        self.token += 1
        found = self.machine.page_received(parse_page(body))
        assert found.range.after == (f"default/{self.last}" if self.last else None)
        assert found.ordered
        assert all(item.key in found.range for item in found.items)
        assert found.last is not more
        if keys:
            self.last = keys[-1]
        if more:
            assert f"default/{self.last}~" not in found.range
            assert self.is_in(Listing)
        else:
            assert self.machine.state == Listed(str(self.list_version))
            self.list_version = None

    @precondition(lambda self: self.is_in(Listing) and self.list_version is not None)
    @rule(by=st.integers(min_value=1, max_value=9))
    def a_page_of_another_version(self, by: int) -> None:
        body = parse_page(page((self.list_version or 0) + by, []))
        self.refused(lambda: self.machine.page_received(body))

    @precondition(lambda self: self.is_in(Listed))
    @rule()
    def opened(self) -> None:
        since = int(self.machine.position)
        self.machine.watch_opened()
        # The server repeats what lies above the position; the model forgets it and goes on from there.
        self.sent, self.server, self.bookmarked = [], since, since

    @precondition(lambda self: self.is_in(Watching))
    @rule(gap=GAPS, gone=st.booleans())
    def an_event(self, gap: int, gone: bool) -> None:
        at_start = not self.sent and self.server == int(self.machine.position)
        closed = self.bookmarked == self.server
        self.server += max(gap, 1) if at_start or closed else gap
        self.number += 1
        self.sent.append((self.server, self.number))
        raw = (deleted if gone else added)(f"p{self.number}", self.server)
        self.take(self.machine.event_received(frame(raw)))

    @precondition(lambda self: self.is_in(Watching))
    @rule(gap=GAPS)
    def a_bookmark(self, gap: int) -> None:
        self.server += gap
        self.bookmarked = self.server
        changes = self.machine.event_received(frame(bookmark(self.server)))
        self.take(changes)
        assert changes == (Reached(str(self.server), bookmark=True),)

    @precondition(lambda self: self.is_in(Watching) and self.sent)
    @rule(by=st.integers(min_value=1, max_value=200))
    def an_event_that_goes_back(self, by: int) -> None:
        raw = added("back", max(1, self.sent[-1][0] - by))
        if self.bookmarked < self.sent[-1][0]:
            self.refused(lambda: self.machine.event_received(frame(raw)))

    @precondition(lambda self: self.is_in(Watching))
    @rule()
    def ended(self) -> None:
        closed = int(self.machine.position)
        self.machine.stream_ended()
        assert self.machine.state == Listed(str(closed))
        assert all(number in self.given for at, number in self.sent if at <= closed)

    @rule()
    def relist(self) -> None:
        self.machine.relist()
        self.list_version = None
        assert self.machine.state == Listing()

    @rule()
    def reports_that_are_illegal(self) -> None:
        machine = self.machine
        empty = Page("1", None, None, [], 0)
        if not self.is_in(Listing):
            self.refused(lambda: machine.page_received(empty))
            self.refused(machine.next_page)
        if not self.is_in(Listed):
            self.refused(machine.watch_opened)
        if not self.is_in(Watching):
            self.refused(machine.stream_ended)
            self.refused(lambda: machine.bookmark_received("999999"))
            self.refused(lambda: machine.event_received(frame(added("a", 999999))))
        self.refused(lambda: machine.event_received(frame(b'{"type":"ERROR","object":{}}')))

    @invariant()
    def position_is_never_above_what_was_received(self) -> None:
        if isinstance(self.machine.state, Listing):
            with pytest.raises(ProtocolError):
                _ = self.machine.position
        else:
            assert int(self.machine.position) <= int(self.machine.received)


Protocol.TestCase.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
TestProtocol = Protocol.TestCase
