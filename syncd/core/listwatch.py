"""The list/watch protocol as a machine without I/O.

    Listing(token) ──last page──► Listed(rv) ──watch_opened──► Watching(rv)
        ▲   └─more pages─┘           ▲                            │
        │                            └──────── stream_ended ──────┤
        └──────────────── expired, relist ────────────────────────┘

    Listing() ──watch_list_opened──► Initial ──the bookmark that ends the initial events──► Watching(rv)

A driver asks `next_request`, does the I/O and reports what happened; each report answers with changes.
A report that is illegal in the present state raises `ProtocolError` and changes nothing. Whatever needs a
clock, a database or a decision about errors lives elsewhere. A watch that begins with the state (WatchList)
gives the same pages as a list, but their version is known with the last one only.

The machine's promise: `Reached(rv)` is given only when every change up to and including `rv` has been given
before it. Versions may repeat (Events on one lease are deleted at one version), so one is closed by a
higher one or by a bookmark (mirror.md §3). Page versions are those of page one; a page at another version
(an inconsistent continuation) is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from syncd.core.change import Change, Delete, KeyRange, Reached, Upsert
from syncd.core.document import Head, Item, Transform
from syncd.core.errors import Inconsistent, NoInitialEvents, ProtocolError
from syncd.core.frames import EventType, Frame, Page
from syncd.core.ports import ListRequest
from syncd.core.resource import compare_versions


@dataclass(frozen=True, slots=True)
class Listing:
    """In the middle of a snapshot. `resource_version` is page one's, None before it."""

    continue_token: str | None = None
    resource_version: str | None = None
    last_key: str | None = None


@dataclass(frozen=True, slots=True)
class Initial:
    """A watch is open and says what there is. `last_key` of the pages given so far; `ordered` until a key
    came out of its place, or a change came between the objects, as older servers let it.
    """

    last_key: str | None = None
    given: bool = False
    ordered: bool = True


@dataclass(frozen=True, slots=True)
class Listed:
    """A version to watch from; no watch is open."""

    resource_version: str


@dataclass(frozen=True, slots=True)
class Watching:
    """A watch is open since `since`. Events up to `received` have come; `closed` is the last version of
    which all have. `alike` counts those that came at `received` where that is not closed.
    """

    since: str
    received: str
    closed: str
    alike: int = 0


State = Listing | Initial | Listed | Watching

INITIAL_BYTES = 4 * 1024 * 1024
"""Of gathered objects, where a page of initial events is cut if `limit` does not cut it before: a list's page
of 500 such pods is as large."""


@dataclass(frozen=True, slots=True)
class SnapshotPage:
    """The complete truth about a range of keys at one version (mirror.md §4).

    `items` are heads where whole objects were not asked for. `ordered` is False where the page's keys did
    not follow the byte order: its range says nothing then. Before the last page of initial events the
    version is not known: '' then. `removed` are keys that were deleted while those events came.
    """

    resource_version: str
    range: KeyRange
    items: tuple[Item | Head, ...]
    first: bool
    last: bool
    ordered: bool
    remaining: int | None
    size: int
    removed: tuple[str, ...] = ()


class ListWatch:
    """One stream's protocol.

    Args:
        transform: turns raw objects into items.
        resource_version: where to resume; None begins with a snapshot.
        limit: objects a page; None lists everything at once.
    """

    def __init__(
        self, transform: Transform, *, resource_version: str | None = None, limit: int | None = 500
    ) -> None:
        self.transform = transform
        self.limit = limit
        self.state: State = Listed(resource_version) if resource_version else Listing()
        self._highest = resource_version or ""
        self._whole = True
        self._gathered: dict[str, Item | Head | None] = {}
        self._gathered_bytes = 0

    # --- snapshot ---------------------------------------------------------------------------------

    def next_page(self, after: Page | None = None) -> ListRequest:
        """The list request that the state asks for, or that follows a page which is not received yet.

        Raises:
            Inconsistent, ProtocolError: as `page_received`, of that page.
        """
        state = self.state
        if not isinstance(state, Listing):
            raise ProtocolError(f"no page is due while {state}")
        if after is not None:
            _version(state, after)
        return ListRequest(limit=self.limit, continue_token=(after or state).continue_token)

    def page_received(self, page: Page, opened: Sequence[Item | Head] | None = None) -> SnapshotPage:
        """A complete page of a 200 answer.

        Args:
            opened: its objects, where they were opened already; heads are enough where most will equal
                their rows.

        Raises:
            Inconsistent: the page is of another version than page one.
            ProtocolError: no list is under way.
        """
        state = self.state
        if not isinstance(state, Listing):
            raise ProtocolError(f"a page while {state}")
        version = _version(state, page)
        items = tuple(opened if opened is not None else map(self.transform, page.items))
        last_key, ordered = _advance(state.last_key, items)
        last = page.continue_token is None
        # A page without items still has a range: the lower bound is carried, never reset. Before any
        # key that range is empty, and None would be all keys.
        upto = None if last else last_key or ""
        if last:
            self.state = Listed(version)
        else:
            self.state = Listing(page.continue_token, version, last_key)
        return SnapshotPage(
            resource_version=version,
            range=KeyRange(state.last_key, upto),
            items=_distinct(items),
            first=state.resource_version is None,
            last=last,
            ordered=ordered,
            remaining=page.remaining,
            size=page.size,
        )

    def relist(self) -> None:
        """Begins a snapshot anew, whatever the state: a version expired, or is distrusted."""
        self.state = Listing()

    # --- initial events ---------------------------------------------------------------------------

    def watch_list_opened(self, *, whole: bool = True) -> None:
        """The server accepted a watch that begins with the state.

        Args:
            whole: open the objects wholly; with False the pages hold heads.
        """
        if self.state != Listing():
            raise ProtocolError(f"a watch list opened while {self.state}")
        self.state = Initial()
        self._whole = whole
        self._gathered, self._gathered_bytes = {}, 0

    def initial_event_received(self, frame: Frame) -> SnapshotPage | None:
        """One event before the bookmark that ends them, but no ERROR; a page whenever one is full. The
        last page comes with that bookmark, and the watch goes on from its version.

        Raises:
            NoInitialEvents: a bookmark that does not end them came after objects: the server does not
                know what it was asked.
            ProtocolError: no initial events are due.
        """
        state = self.state
        if not isinstance(state, Initial) or frame.type is EventType.ERROR:
            raise ProtocolError(f"an event {frame.type} while {state}")
        if frame.type is EventType.BOOKMARK:
            version, ends = frame.bookmark()
            if ends:
                page = self._cut(state, version)
                self.state = Watching(since=version, received=version, closed=version)
                self._highest = version
                return page
            if state.given or self._gathered:
                raise NoInitialEvents(f"a bookmark at {version} that ends no initial events came after some")
            return None
        # An object of a frame is bytes of its own: as Raw it can be opened like one of a page.
        raw = msgspec.Raw(frame.raw)
        item = self.transform(raw) if self._whole else self.transform.head(raw)
        if frame.type is not EventType.ADDED or item.key in self._gathered:
            state = replace(state, ordered=False)
        self.state = state
        self._gathered[item.key] = None if frame.type is EventType.DELETED else item
        self._gathered_bytes += len(frame.raw)
        full = len(self._gathered) >= (self.limit or 500) or self._gathered_bytes >= INITIAL_BYTES
        return self._cut(state) if full else None

    def _cut(self, state: Initial, version: str = "") -> SnapshotPage:
        """What is gathered, as a page; the last one with a version."""
        items = tuple(item for item in self._gathered.values() if item is not None)
        removed = tuple(key for key, item in self._gathered.items() if item is None)
        last_key, rising = _advance(state.last_key, items)
        ordered = state.ordered and rising
        size = self._gathered_bytes
        self._gathered, self._gathered_bytes = {}, 0
        self.state = Initial(last_key, given=True, ordered=ordered)
        upto = None if version else last_key or ""
        return SnapshotPage(
            resource_version=version,
            range=KeyRange(state.last_key, upto),
            items=items,
            first=not state.given,
            last=bool(version),
            ordered=ordered,
            remaining=None,
            size=size,
            removed=removed,
        )

    # --- watch ------------------------------------------------------------------------------------

    @property
    def position(self) -> str:
        """The last closed version: what a watch starts from, and what a reconcile waits for.

        Raises:
            ProtocolError: a snapshot is under way.
        """
        match self.state:
            case Listed(version):
                return version
            case Watching(closed=version):
                return version
        raise ProtocolError(f"no position while {self.state}")

    @property
    def received(self) -> str:
        """The highest version received by this machine, through any watch; not closed yet, perhaps.

        Rows may stand at it while the next watch starts below: it must not fall back when a watch ends.
        """
        order = compare_versions(self._highest, self.position)
        return self._highest if order == 1 else self.position

    def passed(self, version: str) -> bool:
        """Whether everything up to and including a version has come: a later one has, or this one is closed.

        Raises:
            ProtocolError: a snapshot is under way.
        """
        if isinstance(self.state, Watching) and compare_versions(self.state.received, version) == 1:
            return True
        return compare_versions(self.position, version) in (0, 1)

    def watch_opened(self) -> None:
        """The server accepted a watch from `position`."""
        if not isinstance(self.state, Listed):
            raise ProtocolError(f"a watch opened while {self.state}")
        version = self.state.resource_version
        self.state = Watching(since=version, received=version, closed=version)

    def stream_ended(self) -> None:
        """The watch is over, for whatever reason. The next one starts from the last closed version: the
        one received last may have had more events to come. Initial events begin anew.
        """
        match self.state:
            case Watching(closed=version):
                self.state = Listed(version)
            case Initial():
                self.state = Listing()
            case _:
                raise ProtocolError(f"a stream ended while {self.state}")

    def event_received(self, frame: Frame) -> tuple[Change, ...]:
        """One event of the open watch, but no ERROR: that is an answer, see `Frame.error`.

        Raises:
            ProtocolError: no watch is open, or the versions went back.
        """
        state = self.state
        if not isinstance(state, Watching) or frame.type is EventType.ERROR:
            raise ProtocolError(f"an event {frame.type} while {state}")
        if frame.type is EventType.BOOKMARK:
            return self.bookmark_received(frame.bookmark()[0])
        item = self.transform(frame.raw)
        change = Delete(item) if frame.type is EventType.DELETED else Upsert(item)
        version = item.resource_version
        if version in ("", "0"):
            raise ProtocolError(f"an event of {item.key} without a resourceVersion")
        if state.received == state.since and compare_versions(version, state.since) in (0, -1):
            return (change,)  # a duplicate from before this watch; the store's guard drops it
        order = compare_versions(version, state.received)
        if order == 0:
            self.state = replace(state, alike=state.alike + 1)
            return (change,)
        if order == -1:
            raise ProtocolError(f"the watch went back from {state.received} to {version}")
        self.state = Watching(state.since, received=version, closed=state.received, alike=1)
        self._highest = version
        return (change,) if state.closed == state.received else (Reached(state.received), change)

    def bookmark_received(self, version: str) -> tuple[Change, ...]:
        """Nothing else will come up to and including this version.

        Raises:
            ProtocolError: no watch is open, or the bookmark is below an event of this watch.
        """
        state = self.state
        if not isinstance(state, Watching):
            raise ProtocolError(f"a bookmark while {state}")
        if compare_versions(version, state.received) == -1:
            if state.received == state.closed:  # true, and known already: closed by another server's bookmark
                return ()
            raise ProtocolError(f"a bookmark went back from {state.received} to {version}")
        self.state = Watching(state.since, received=version, closed=version)
        self._highest = version
        return (Reached(version, bookmark=True),)


def _version(state: Listing, page: Page) -> str:
    """Of the list that a page belongs to."""
    version = state.resource_version or page.resource_version
    if page.resource_version != version:
        raise Inconsistent(f"a page at {page.resource_version} in a list at {version}")
    return version


def _distinct(items: tuple[Item | Head, ...]) -> tuple[Item | Head, ...]:
    """One of each key, the newest: an aggregated API may list an object twice, and a row is written once."""
    found: dict[str, Item | Head] = {}
    for item in items:
        known = found.get(item.key)
        if known is None or compare_versions(item.resource_version, known.resource_version) != -1:
            found[item.key] = item
    return items if len(found) == len(items) else tuple(found.values())


def _advance(last_key: str | None, items: tuple[Item | Head, ...]) -> tuple[str | None, bool]:
    """The last key after a page, and whether all keys rose in byte order from the one before."""
    ordered = True
    previous = last_key.encode() if last_key is not None else None
    highest = last_key
    for item in items:
        key = item.key.encode()
        if previous is not None and key <= previous:
            ordered = False
        else:
            previous, highest = key, item.key
    return highest, ordered
