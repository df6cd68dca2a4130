"""The list/watch protocol as a machine without I/O.

    Listing(token) ──last page──► Listed(rv) ──watch_opened──► Watching(rv)
        ▲   └─more pages─┘           ▲                            │
        │                            └──────── stream_ended ──────┤
        └──────────────── expired, relist ────────────────────────┘

A driver asks `next_request`, does the I/O and reports what happened; each report answers with changes.
A report that is illegal in the present state raises `ProtocolError` and changes nothing. Whatever needs a
clock, a database or a decision about errors lives elsewhere.

The machine's promise: `Reached(rv)` is given only when every change up to and including `rv` has been given
before it. Versions may repeat (Events on one lease are deleted at one version), so one is closed by a
higher one or by a bookmark (mirror.md §3). Page versions are those of page one; a page at another version
(an inconsistent continuation) is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from syncd.core.change import Change, Delete, KeyRange, Reached, Upsert
from syncd.core.document import Head, Item, Transform
from syncd.core.errors import ProtocolError
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
class Listed:
    """A version to watch from; no watch is open."""

    resource_version: str


@dataclass(frozen=True, slots=True)
class Watching:
    """A watch is open since `since`. Events up to `received` have come; `closed` is the last version of
    which all have.
    """

    since: str
    received: str
    closed: str


State = Listing | Listed | Watching


@dataclass(frozen=True, slots=True)
class SnapshotPage:
    """The complete truth about a range of keys at one version (mirror.md §4).

    `items` are heads where whole objects were not asked for. `ordered` is False where the page's keys did
    not follow the byte order: its range says nothing then.
    """

    resource_version: str
    range: KeyRange
    items: tuple[Item | Head, ...]
    first: bool
    last: bool
    ordered: bool
    remaining: int | None
    size: int


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
        self._transform = transform
        self.limit = limit
        self.state: State = Listed(resource_version) if resource_version else Listing()
        self._highest = resource_version or ""

    # --- snapshot ---------------------------------------------------------------------------------

    def next_page(self) -> ListRequest:
        """The list request that the state asks for."""
        if not isinstance(self.state, Listing):
            raise ProtocolError(f"no page is due while {self.state}")
        return ListRequest(limit=self.limit, continue_token=self.state.continue_token)

    def page_received(self, page: Page, *, whole: bool = True) -> SnapshotPage:
        """A complete page of a 200 answer.

        Args:
            whole: open the objects wholly; heads are enough where most will equal their rows.

        Raises:
            ProtocolError: no list is under way, or the page is of another version than page one.
        """
        state = self.state
        if not isinstance(state, Listing):
            raise ProtocolError(f"a page while {state}")
        version = state.resource_version or page.resource_version
        if page.resource_version != version:
            raise ProtocolError(f"a page at {page.resource_version} in a list at {version}")
        opened = self._transform if whole else self._transform.head
        items = tuple(opened(raw) for raw in page.items)
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
            items=items,
            first=state.resource_version is None,
            last=last,
            ordered=ordered,
            remaining=page.remaining,
            size=page.size,
        )

    def relist(self) -> None:
        """Begins a snapshot anew, whatever the state: a version expired, or is distrusted."""
        self.state = Listing()

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

    def watch_opened(self) -> None:
        """The server accepted a watch from `position`."""
        if not isinstance(self.state, Listed):
            raise ProtocolError(f"a watch opened while {self.state}")
        version = self.state.resource_version
        self.state = Watching(since=version, received=version, closed=version)

    def stream_ended(self) -> None:
        """The watch is over, for whatever reason. The next one starts from the last closed version: the
        one received last may have had more events to come.
        """
        if not isinstance(self.state, Watching):
            raise ProtocolError(f"a stream ended while {self.state}")
        self.state = Listed(self.state.closed)

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
        item = self._transform(frame.raw)
        change = Delete(item) if frame.type is EventType.DELETED else Upsert(item)
        version = item.resource_version
        if version in ("", "0"):
            raise ProtocolError(f"an event of {item.key} without a resourceVersion")
        if state.received == state.since and compare_versions(version, state.since) in (0, -1):
            return (change,)  # a duplicate from before this watch; the store's guard drops it
        order = compare_versions(version, state.received)
        if order == 0:
            return (change,)
        if order == -1:
            raise ProtocolError(f"the watch went back from {state.received} to {version}")
        self.state = Watching(state.since, received=version, closed=state.received)
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
