"""The queue between a reflector's reader and its committer: changes and messages, in one order.

Bounded in bytes: a full inbox stops the reader, the socket fills, the server ends the watch, and the stream
resumes from its checkpoint. Messages keep their place between changes, which is what lets one writer do
everything: a reconcile's judgement comes after exactly the events that were received before it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from syncd.core.batching import Gathering
from syncd.core.change import Change, Reached
from syncd.core.errors import SyncdError
from syncd.core.listwatch import SnapshotPage

INITIAL_PAGES = 2  # that wait: as many as a list holds, which fetches one ahead
_REACHED_SIZE = 128  # bytes; a version weighs little, but a storm of bookmarks must not be free


@dataclass(frozen=True, slots=True)
class Opened:
    """The server accepted the watch."""


@dataclass(frozen=True, slots=True)
class InitialPage:
    """Some of the objects that a WatchList begins with; the last page has `last` set."""

    page: SnapshotPage


@dataclass(frozen=True, slots=True)
class Ended:
    """The watch is over; an `error` of None is a clean end of the body.

    Attributes:
        seconds: how long it was open.
        events: how many lines it brought, bookmarks too.
        progressed: its position moved, so that the next watch starts further on.
        on_time: it ended at its own `timeoutSeconds`.
    """

    error: SyncdError | None
    seconds: float
    events: int
    progressed: bool
    on_time: bool


@dataclass(frozen=True, slots=True)
class Relist:
    """Somebody wants a snapshot. `content`: documents are compared too. `retry`: what the database refused
    is tried again.
    """

    reason: str
    content: bool = False
    retry: bool = False

    def joined(self, other: Relist | None) -> Relist:
        """One snapshot for two wishes: it does what either asks for."""
        if other is None:
            return self
        return Relist(self.reason, self.content or other.content, self.retry or other.retry)


@dataclass(frozen=True, slots=True)
class Restart:
    """The stored row moved by another hand: begin anew from it."""

    reason: str


@dataclass(frozen=True, slots=True)
class Task:
    """Something that only the committer may do, between two batches. `void` is called instead where the
    stream does not get there.
    """

    run: Callable[[], Awaitable[None]]
    void: Callable[[str], None]


Message = Opened | InitialPage | Ended | Relist | Restart | Task


class Inbox:
    """Changes and messages in order of arrival.

    Args:
        gathering: makes an empty batch.
        limit: bytes of queued changes at which the reader waits. What it has in hand still gets in.
    """

    def __init__(self, gathering: Callable[[], Gathering], *, limit: int) -> None:
        self._gathering = gathering
        self._limit = limit
        self._entries: deque[tuple[Change, float] | Message] = deque()
        self._filled = asyncio.Event()
        self._roomy = asyncio.Event()
        self._roomy.set()
        self._pages = 0
        self.size = 0
        self._refusing = ""

    @property
    def empty(self) -> bool:
        return not self._entries

    @property
    def full(self) -> bool:
        return self.size >= self._limit or self._pages >= INITIAL_PAGES

    @property
    def oldest(self) -> float | None:
        """When the oldest queued event was received (monotonic seconds), None where there is none."""
        for entry in self._entries:
            if isinstance(entry, tuple) and not isinstance(entry[0], Reached):
                return entry[1]
        return None

    def put(self, change: Change, received_at: float) -> None:
        """Queues a change. Never waits: a reader asks for `room` before it takes the next event, so that
        an event is either wholly queued or not yet taken.
        """
        entry = (change, received_at)
        self._entries.append(entry)
        self._weigh(_size(entry))
        self._filled.set()

    def post(self, message: Message) -> None:
        """Queues a message behind everything that is queued now; a task is void while they are refused."""
        if self._refusing and isinstance(message, Task):
            message.void(self._refusing)
            return
        self._entries.append(message)
        self._pages += isinstance(message, InitialPage)
        self._weigh(_size(message))
        self._filled.set()

    def resize(self, limit: int) -> None:
        """Another bound; what is queued stays."""
        self._limit = limit
        self._weigh(0)

    async def room(self) -> None:
        """Waits until the queue is below its bound."""
        await self._roomy.wait()

    async def wait_or(self, other: asyncio.Future[Any]) -> None:
        """Waits until something is queued or `other` is done."""
        mail = asyncio.ensure_future(self._filled.wait())
        try:
            await asyncio.wait({other, mail}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            mail.cancel()
            await asyncio.gather(mail, return_exceptions=True)

    async def take(self) -> tuple[Gathering, float] | Message:
        """The next message, or all changes before it that fit one batch with the time (monotonic) at
        which the first was received.
        """
        await self._filled.wait()
        head = self._entries[0]
        if not isinstance(head, tuple):
            self._pop()
            return head
        gathering = self._gathering()
        received_at = head[1]
        while self._entries:
            entry = self._entries[0]
            if not isinstance(entry, tuple) or not gathering.add(entry[0]):
                break
            self._pop()
        return gathering, received_at

    def refuse(self, reason: str) -> None:
        """Makes the tasks that are queued, and those that come, void for this reason; '' takes them again."""
        self._refusing = reason
        if not reason:
            return
        for entry in [each for each in self._entries if isinstance(each, Task)]:
            self._entries.remove(entry)
            entry.void(reason)
        if not self._entries:
            self._filled.clear()

    def clear(self, reason: str) -> None:
        """Drops everything: a snapshot will say it anew, or the checkpoint is where to begin. A wish for
        a snapshot is fulfilled by the one that comes.
        """
        while self._entries:
            entry = self._pop()
            if isinstance(entry, Task):
                entry.void(reason)

    def _pop(self) -> tuple[Change, float] | Message:
        entry = self._entries.popleft()
        self._pages -= isinstance(entry, InitialPage)
        self._weigh(-_size(entry))
        if not self._entries:
            self._filled.clear()
        return entry

    def _weigh(self, nbytes: int) -> None:
        self.size += nbytes
        if self.full:
            self._roomy.clear()
        else:
            self._roomy.set()


def _size(entry: tuple[Change, float] | Message) -> int:
    match entry:
        case (Reached(), _):
            return _REACHED_SIZE
        case (change, _):
            return change.item.size
        case InitialPage(page):
            return page.size
    return 0
