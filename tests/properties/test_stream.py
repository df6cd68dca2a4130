"""A stream as a state machine: lists, watches, WatchLists, batches and crashes in any order, over a model
cluster and a model table. The version is never ahead of the rows, and what is read to its end is equal.
"""

from __future__ import annotations

from collections import deque

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from syncd.core.batching import Gathering
from syncd.core.change import Change, Marks, RowVersion
from syncd.core.document import Transform
from syncd.core.frames import LineSplitter, parse_frame, parse_page
from syncd.core.listwatch import Initial, Listed, Listing, ListWatch, SnapshotPage, Watching
from syncd.core.recovery import rolled_back, start
from syncd.core.resource import Cause, State
from syncd.core.snapshot import difference
from tests.fakes.value import PODS, bookmark, page
from tests.properties.cluster import Cluster, Happening, in_order, wire
from tests.properties.table import PROJECTION, Table

# `ord-b/a` sorts before `ord/a`, and U+10000 after U+FFFF, as bytes and not as UTF-16.
KEYS = ("a/x", "a/y", "ord-b/a", "ord/a", "ord/b", "z/\uffff", "z/\U00010000")
keys = st.sampled_from(KEYS)


class StreamMachine(RuleBasedStateMachine):
    """One stream; rules are what the cluster, the server, the reflector and the process may do next."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.table = Table()
        self.highest = 0
        self._begin(None)

    def _begin(self, version: str | None) -> None:
        self.machine = ListWatch(Transform(PODS), resource_version=version)
        self.queue: deque[Change] = deque()
        self.unsent: deque[Happening] = deque()
        self.noticed = 0  # by the server's end of the watch: the version up to which it will tell
        self.listed = 0
        self.to_list: deque[str] = deque()
        self.held: dict[str, RowVersion] = {}
        self.splitter = LineSplitter()

    # --- the cluster ------------------------------------------------------------------------------

    @initialize(there=st.sets(keys), watched=st.booleans())
    def begin(self, there: set[str], watched: bool) -> None:
        for key in sorted(there):
            self.cluster.put(key)
        if watched:
            self.page(len(there) + 1)
            self.watch()

    @rule(key=keys, anew=st.booleans())
    def write(self, key: str, anew: bool) -> None:
        self.cluster.put(key, anew=anew)
        self._noticed()

    @rule(chosen=st.sets(keys, min_size=1, max_size=4))
    def delete_together(self, chosen: set[str]) -> None:
        there = [key for key in in_order(self.cluster.objects) if key in chosen]
        if there:
            self.cluster.remove(there)
            self._noticed()

    @rule()
    def something_else_is_written(self) -> None:
        self.cluster.version += 1

    @rule()
    def compact(self) -> None:
        self.cluster.compacted = self.cluster.version

    def _noticed(self) -> None:
        """An open watch will tell it."""
        if isinstance(self.machine.state, Watching | Initial):
            self.unsent.extend(self.cluster.after(self.noticed))
            self.noticed = self.cluster.version

    # --- a snapshot -------------------------------------------------------------------------------

    @precondition(lambda self: isinstance(self.machine.state, Listing))
    @rule(size=st.integers(0, 4))
    def page(self, size: int) -> None:
        """The next page of a list, perhaps without an item."""
        request = self.machine.next_page()
        if request.continue_token is None:
            self.listed = self.cluster.version
            self.to_list = deque(in_order(self.cluster.objects))
            self.snapshot = dict(self.cluster.objects)
            self.table.state = State.SYNCING
            self.queue.clear()
        items = [self.to_list.popleft() for _ in range(min(size, len(self.to_list)))]
        token = "more" if self.to_list or size == 0 else ""
        body = page(self.listed, [wire(key, *self.snapshot[key]) for key in items], token)
        made = self.machine.page_received(parse_page(body))
        assert made.first == (request.continue_token is None)
        assert made.ordered
        self._apply(made, [*difference(made.items, self.table.within(made.range)).gone])

    @precondition(lambda self: isinstance(self.machine.state, Listing))
    @rule()
    def token_expires(self) -> None:
        self.machine.relist()

    def _apply(self, made: SnapshotPage, gone: list[RowVersion]) -> None:
        assert all(item.key in made.range for item in made.items)
        found = difference(made.items, self.table.within(made.range))
        self.table.overwrite(found.upserts, gone, self.listed)
        again = difference(made.items, self.table.within(made.range))
        assert not again.upserts
        if made.last:
            self.table.checkpoint, self.table.state = int(made.resource_version), State.LIVE

    # --- a WatchList ------------------------------------------------------------------------------

    @precondition(lambda self: self.machine.state == Listing())
    @rule(limit=st.integers(1, 4))
    def watch_list(self, limit: int) -> None:
        self.machine.limit = limit
        self.machine.watch_list_opened()
        self.listed = self.cluster.version
        self.to_list = deque(in_order(self.cluster.objects))
        self.snapshot = dict(self.cluster.objects)
        self.unsent.clear()
        self.noticed = self.listed
        self.table.state = State.SYNCING
        self.queue.clear()
        self.held = {}

    @precondition(lambda self: isinstance(self.machine.state, Initial))
    @rule(count=st.integers(1, 5))
    def initial_events(self, count: int) -> None:
        for _ in range(min(count, len(self.to_list))):
            key = self.to_list.popleft()
            uid, version = self.snapshot[key]
            event = Happening(version, key, uid, deletes=False).event.replace(b"MODIFIED", b"ADDED", 1)
            self._initial(event)
        if not self.to_list:
            self._initial(bookmark(self.listed, ends_initial=True))

    def _initial(self, event: bytes) -> None:
        for frame in map(parse_frame, self.splitter.feed(event)):
            assert frame is not None
            made = self.machine.initial_event_received(frame)
            if made is not None:
                found = difference(made.items, self.table.within(made.range))
                self.held |= {row.key: row for row in found.gone}
                self._apply(made, list(self.held.values()) if made.last else [])

    # --- a watch ----------------------------------------------------------------------------------

    @precondition(lambda self: isinstance(self.machine.state, Listed))
    @rule()
    def watch(self) -> None:
        since = int(self.machine.position)
        if since < self.cluster.compacted:
            self._commit(1000)  # what came before the refusal is applied first
            self.machine.relist()
            return
        self.machine.watch_opened()
        self.splitter = LineSplitter()
        self.unsent = deque(self.cluster.after(since))
        self.noticed = self.cluster.version

    @precondition(lambda self: isinstance(self.machine.state, Watching))
    @rule(count=st.integers(0, 6), cut=st.integers(1, 200))
    def events(self, count: int, cut: int) -> None:
        """Some more, in chunks that begin and end anywhere."""
        told = [self.unsent.popleft() for _ in range(min(count, len(self.unsent)))]
        self._receive(b"".join(each.event for each in told), cut)

    @precondition(lambda self: isinstance(self.machine.state, Watching) and not self.unsent)
    @rule()
    def bookmark(self) -> None:
        self._receive(bookmark(self.cluster.version), 1000)

    @precondition(lambda self: isinstance(self.machine.state, Watching) and len(self.cluster.objects) > 1)
    @rule(told=st.integers(0, 3), crash=st.booleans())
    def cut_inside_one_version(self, told: int, crash: bool) -> None:
        """All go at once, and the watch ends before all of it is told."""
        self.events(len(self.unsent), 1000)
        self.delete_together(set(KEYS))
        self.events(told, 1000)
        if crash:
            self._commit(1000)
            self.crash()
        else:
            self.watch_ends()

    def _receive(self, data: bytes, cut: int) -> None:
        for place in range(0, len(data), cut):
            for line in self.splitter.feed(data[place : place + cut]):
                frame = parse_frame(line)
                assert frame is not None
                self.queue.extend(self.machine.event_received(frame))

    @precondition(lambda self: isinstance(self.machine.state, Watching | Initial))
    @rule()
    def watch_ends(self) -> None:
        self.machine.stream_ended()
        self.unsent.clear()

    # --- the reflector and its process ------------------------------------------------------------

    @precondition(lambda self: bool(self.queue))
    @rule(most=st.integers(1, 5))
    def commit(self, most: int) -> None:
        self._commit(most)

    def _commit(self, most: int) -> None:
        while self.queue:
            gathering = Gathering(Cause.DELETED, max_changes=most)
            while self.queue and gathering.add(self.queue[0]):
                self.queue.popleft()
            self.table.commit(gathering.batch(Marks()))
            if most < 1000:
                return

    @rule()
    def crash(self) -> None:
        """What was in memory is gone; where to begin is decided from what is stored."""
        begin = start(self.table.row, PROJECTION)
        self._begin(None if begin.reason else self.table.row.resource_version)
        if not begin.reason:
            self._probe()

    def _probe(self) -> None:
        """Of a cluster that only ever went forward nothing else is said."""
        newest = self.table.newest()
        found = self.cluster.objects.get(newest.key) if newest is not None else None
        told = None if found is None else (found[0], str(found[1]))
        assert not rolled_back(str(self.table.checkpoint), str(self.cluster.version), newest, told)

    @rule()
    def settle(self) -> None:
        """Everything is read to its end."""
        while not isinstance(self.machine.state, Watching):
            match self.machine.state:
                case Listing():
                    self.page(3)
                case Initial():
                    self.initial_events(3)
                case Listed():
                    self.watch()
        self.events(len(self.unsent), 50)
        self.bookmark()
        self._commit(1000)
        assert self.table.rows == self.cluster.objects
        assert self.table.checkpoint == self.cluster.version

    def teardown(self) -> None:
        self.settle()

    # --- what holds throughout --------------------------------------------------------------------

    @invariant()
    def nothing_is_invented(self) -> None:
        for key, (uid, version) in self.table.rows.items():
            assert self.cluster.existed(key, uid, version)

    @invariant()
    def the_version_is_never_ahead_of_the_rows(self) -> None:
        version = self.table.checkpoint
        if version is None or self.table.state is not State.LIVE:
            return
        assert version >= self.highest
        self.highest = version
        then = self.cluster.at(version)
        left = {each.key for each in self.cluster.after(version)}
        for key, (uid, at) in then.items():
            row = self.table.rows.get(key)
            assert row is not None or key in left
            assert row is None or row[1] > version or row == (uid, at)
        for key, row in self.table.rows.items():
            assert row[1] > version or key in then


StreamMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40)
TestStream = StreamMachine.TestCase
