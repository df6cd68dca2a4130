"""What a stream receives and how it is committed: its machine, its inbox, the reader of its watch.

The reader is the only one that puts changes in, the reflector's own task the only one that takes them out and
commits them; both stand on the machine's position.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from syncd.core.batching import Gathering
from syncd.core.change import Batch, Marks
from syncd.core.errors import ConnectionLost, ProtocolError
from syncd.core.listwatch import ListWatch, SnapshotPage
from syncd.core.resource import State, Stream
from syncd.sync.environment import Environment, Settings
from syncd.sync.inbox import Ended, Inbox, Message
from syncd.sync.reader import Reader
from syncd.sync.setback import Setbacks
from syncd.sync.writer import Writer


@dataclass(slots=True)
class Progress:
    """What a terminal or a health check shows of a stream."""

    state: State = State.PENDING
    error: str = ""
    listed: int = 0
    remaining: int | None = None
    events: int = 0
    synced: bool = False  # a snapshot has been completed, now or in an earlier life
    level: bool = False  # a snapshot has been completed in this life


class Feed:
    """One stream's way from the socket to the table.

    Attributes:
        machine: the protocol; another one after each list.
        reader: of the open watch, None where there is none.
        delivered: whether the last watch brought something.
        probe_due: whether the next watch wants a probe first.
    """

    def __init__(self, environment: Environment, stream: Stream, settings: Settings) -> None:
        self.environment = environment
        self.stream = stream
        self.settings = settings
        self.progress = Progress()
        self.setbacks = Setbacks(environment, stream)
        self.machine = ListWatch(settings.transform)
        self.inbox = Inbox(self._gathering, limit=settings.queue_bytes)
        self.reader: Reader | None = None
        self.delivered = True
        self.probe_due = True
        self._writer: Writer | None = None

    def _gathering(self) -> Gathering:
        return Gathering(self.settings.cause(self.stream), each=bool(self.settings.history))

    @property
    def writer(self) -> Writer:
        """The stream's one writer, once it is open."""
        assert self._writer is not None
        return self._writer

    @writer.setter
    def writer(self, writer: Writer) -> None:
        self._writer = writer

    @property
    def opened(self) -> bool:
        """Whether the stream's row was read."""
        return self._writer is not None

    def show(self, state: State, error: str = "") -> None:
        """What the stream is doing."""
        self.progress.state, self.progress.error = state, error
        self.environment.metrics.stream_state(self.stream, state)

    def begin(self, resource_version: str | None = None, *, limit: int | None = 500) -> None:
        """Another machine: from a version, or for a snapshot of pages of so many objects."""
        transform = self.settings.transform
        self.machine = ListWatch(transform, resource_version=resource_version, limit=limit)

    def start_reader(self, *, whole: bool = True) -> None:
        """Opens a watch from the machine's position."""
        self.reader = Reader(self.environment, self.stream, self.machine, self.inbox, whole=whole)
        self.reader.start()

    async def stop_reader(self) -> None:
        """Closes the watch, where one is open."""
        if self.reader is not None:
            await self.reader.stop()
            self.reader = None

    async def abandon(self) -> None:
        """Where something failed while the watch was open, what it brought is given up and read again:
        the machine may be ahead of what is committed.
        """
        if self.reader is not None:
            await self.stop_reader()
            self.begin(self.writer.row.resource_version)

    def post(self, messages: Iterable[Message]) -> None:
        """Puts back what had to wait."""
        for message in messages:
            self.inbox.post(message)

    async def watch_opened(self) -> None:
        """The stream is live, and fresh for as long as its watch may last."""
        now = self.environment.clock.now()
        patience = self.reader.patience if self.reader else 0.0
        marks = Marks(
            deadline_at=now + timedelta(seconds=patience),
            verified_at=now if self.probe_due else None,
            last_error="",
        )
        await self.writer.commit(Batch(state=State.LIVE, marks=marks))
        self.show(State.LIVE)

    async def commit(self, gathering: Gathering, received_at: float) -> None:
        """One batch of what the watch brought."""
        now = self.environment.clock.now()
        marks = Marks(
            last_event_at=now if gathering.changes else None,
            last_bookmark_at=now if gathering.bookmarked else None,
            verified_at=now if self.inbox.empty else None,
        )
        self.delivered = True
        # The watch may never tell its end: a relist may take its place.
        if gathering.reached not in (None, self.writer.row.resource_version):
            self.setbacks.clear()
        await self.writer.commit(
            gathering.batch(marks),
            received_at=received_at if gathering.changes else None,
            changes=gathering.changes,
        )
        self.progress.events += gathering.changes

    def ended(self, ended: Ended) -> None:
        """What a watch's end says about the next one.

        Raises:
            SyncdError: it was no end but a fault.
        """
        timing = self.environment.timing
        if ended.progressed or ended.seconds > timing.backoff_reset:
            self.setbacks.clear()
        if ended.error is not None:
            raise ended.error
        if not ended.progressed and ended.seconds < timing.short_watch:
            self._check_progress(ended)
            raise ConnectionLost("the watch ended at once", connected=True)
        self.setbacks.clear()
        self.probe_due = not (ended.on_time and ended.events)

    def _check_progress(self, ended: Ended) -> None:
        """A watch that brings one version's events and ends leaves that version open, and the next one begins
        below it. Where that happens again and again nothing later ever comes: a snapshot gets on.

        Raises:
            ProtocolError: the watch brought something, and where it stands is not closed.
        """
        position = self.machine.position
        if ended.events and self.machine.received != position:
            raise ProtocolError(f"the watch ended at once, and did not get past {position}")

    def page_done(self, page: SnapshotPage) -> None:
        """One more page of a snapshot is written."""
        self.progress.listed += len(page.items)
        self.progress.remaining = 0 if page.last else page.remaining
