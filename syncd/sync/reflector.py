"""A reflector drives one stream: snapshot, probe, watch, commit, and again, for as long as it lives.

A reader task puts what a watch delivers into the inbox; the reflector's own task takes it out and is the
only one that commits. What to do about an error is asked of `recovery.react`; where to begin is decided by
what is stored.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta

from syncd.core import recovery
from syncd.core.batching import Gathering
from syncd.core.change import Batch, Marks, StreamRow
from syncd.core.errors import (
    ConnectionLost,
    FenceLost,
    NoInitialEvents,
    StoreUnavailable,
    SyncdError,
)
from syncd.core.listwatch import ListWatch, SnapshotPage
from syncd.core.recovery import Action, Reaction
from syncd.core.resource import State, Stream
from syncd.sync.environment import Environment, Settings
from syncd.sync.inbox import Ended, Inbox, InitialPage, Message, Opened, Relist, Restart, Task
from syncd.sync.probe import probe
from syncd.sync.reader import Reader
from syncd.sync.setback import Setbacks
from syncd.sync.snapshot import RolledBack, Snapshot, TokensExpired, Unconfirmed, Unordered, pages
from syncd.sync.writer import Writer

ENDS = 2  # of a WatchList before its bookmark: the server cannot
CUTS = 4  # so many: a link that cuts what takes long, and pages are short
POLL = "poll"
_POLL_JITTER = 0.1  # of the interval


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


class Reflector:
    """One stream, mirrored.

    Args:
        adopt: ids of streams no longer selected, whose rows in this scope are taken over.
    """

    def __init__(
        self,
        environment: Environment,
        stream: Stream,
        settings: Settings,
        *,
        adopt: tuple[int, ...] = (),
    ) -> None:
        self.stream = stream
        self.settings = settings
        self.progress = Progress()
        self.machine = ListWatch(settings.transform)
        self.inbox = Inbox(self._gathering, limit=settings.queue_bytes)
        self._environment = environment
        self._adopt = adopt
        self._writer: Writer | None = None
        self._reader: Reader | None = None
        self._setbacks = Setbacks(environment, stream)
        self._delivered = True  # the last watch brought something
        self._probe_due = True
        self._settling: asyncio.TimerHandle | None = None
        self._ends = self._cuts = 0  # of WatchLists in a row, before their bookmark

    def _gathering(self) -> Gathering:
        return Gathering(self.settings.cause(self.stream))

    @property
    def writer(self) -> Writer:
        """The stream's one writer, once it is open."""
        assert self._writer is not None
        return self._writer

    @property
    def row(self) -> StreamRow | None:
        """The durable model as last committed, None before the first time."""
        return None if self._writer is None else self._writer.row

    @property
    def live(self) -> bool:
        return self.progress.state is State.LIVE

    @property
    def held(self) -> str:
        """Why a commit is waiting for the database, '' when none is."""
        return self._writer.waiting if self._writer is not None else ""

    def lag(self) -> float:
        """Seconds since the oldest event that is received and not committed; 0 when there is none."""
        times = [self.inbox.oldest, self._writer.in_flight if self._writer else None]
        known = [time for time in times if time is not None]
        return self._environment.clock.monotonic() - min(known) if known else 0.0

    def relist(self, reason: str, *, content: bool = False) -> None:
        """Asks for a snapshot as soon as the stream can."""
        self.inbox.post(Relist(reason, content))

    def wake(self) -> None:
        """Asks a parked stream to try again: something about its type changed."""
        self.inbox.post(Restart("its type may be served again"))

    def restart(self, reason: str) -> None:
        """Asks to begin anew from the stored row: a new epoch began."""
        self.inbox.post(Restart(reason))

    def change_settings(self, settings: Settings) -> None:
        """Another projection: a snapshot that compares content. The old schema may still serve a custom
        resource, so its projection counts only after its storage was seen torn down, or had the time.
        """
        self.settings = settings
        if settings.custom:
            self._unsettle()
        self.relist("projection", content=True)

    # --- the loop ---------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled."""
        environment, faults = self._environment, 0
        try:
            while True:
                try:
                    await self._open()
                    await self._follow()
                except FenceLost as error:
                    environment.log.info("beginning anew", stream=str(self.stream), why=str(error))
                    environment.metrics.retry(self.stream, "fence")
                    delay = environment.timing.backoff_first / 8
                except Exception as error:  # a fault of our own: this stream begins anew, others go on
                    environment.log.error("stream failed", stream=str(self.stream), error=repr(error))
                    environment.metrics.retry(self.stream, "fault")
                    self._show(State.BACKOFF, repr(error))
                    delay = recovery.backoff(faults, environment.random, environment.timing)
                    faults += 1
                await self._stop_reader()
                self.inbox.clear("the stream began anew")
                await environment.clock.sleep(delay)
        finally:
            await self._stop_reader()
            self.inbox.clear("syncd is stopping")
            if self._settling is not None:
                self._settling.cancel()

    async def _open(self) -> None:
        environment, attempt = self._environment, 0
        while True:
            try:
                row = await environment.store.open(self.stream, adopt=self._adopt)
                break
            except StoreUnavailable as error:
                environment.metrics.database_error("unavailable")
                self._show(State.BACKOFF, str(error))
                timing = environment.timing
                cap = timing.store_backoff_cap
                await environment.clock.sleep(recovery.backoff(attempt, environment.random, timing, cap))
                attempt += 1
            except FenceLost:
                environment.lease_lost()
                raise
        self._writer = Writer(environment, self.stream, row)
        self.progress.synced = row.resource_version is not None
        # What is stored is the state of an earlier life: this one is live when its watch is open.
        self._show(State.PENDING)

    async def _follow(self) -> None:
        """From the stored row onwards; never returns, raises FenceLost to begin anew."""
        row, settings = self.writer.row, self.settings
        self.machine = ListWatch(settings.transform, resource_version=row.resource_version)
        begin = recovery.start(row, settings.projection)
        reason = begin.reason or (POLL if settings.poll else "")
        wish = Relist(reason, begin.content) if reason else None
        if begin.reason == "projection" and settings.custom:
            self._unsettle()
        self._probe_due = True
        while True:
            try:
                if wish is not None:
                    await self._snapshot(wish)
                    wish = None
                wish = await (self._watch() if self.settings.poll is None else self._poll())
            except RolledBack as error:
                await self._distrust(str(error))
            except FenceLost:
                raise
            except SyncdError as error:
                if self.settings.poll:
                    wish = wish or Relist(POLL)
                self._probe_due = True
                await self._abandon_watch()
                wish = await self._recover(error, wish)

    async def _abandon_watch(self) -> None:
        """Where something failed while the watch was open, what it brought is given up and read again:
        the machine may be ahead of what is committed.
        """
        if self._reader is not None:
            await self._stop_reader()
            version = self.writer.row.resource_version
            self.machine = ListWatch(self.settings.transform, resource_version=version)

    async def _recover(self, error: SyncdError, wish: Relist | None) -> Relist | None:
        """Says what happened and waits as long as it asks for; the snapshot that must follow, if any."""
        version = "" if wish is not None else self.machine.position
        reaction = self._setbacks.react(error, listing=wish is not None, version=version)
        if reaction.action is Action.RELIST:
            kind = "settle" if self._settling is not None else reaction.kind
            wish = wish or Relist(kind, self.settings.custom)
        at_once = reaction.action is Action.RELIST and not reaction.delay
        if not at_once and not self._setbacks.negligible(error, reaction):
            parked = reaction.action is Action.PARK
            await self._mark(State.PARKED if parked else State.BACKOFF, str(error))
        wished = await self._pause(reaction)
        return wish.joined(wished) if wish is not None else wished

    async def _mark(self, state: State, error: str) -> None:
        if (self.progress.state, self.progress.error) != (state, error):
            self._show(state, error)
            await self.writer.commit(Batch(state=state, marks=Marks(last_error=error)))

    def _show(self, state: State, error: str = "") -> None:
        self.progress.state, self.progress.error = state, error
        self._environment.metrics.stream_state(self.stream, state)

    async def _pause(self, reaction: Reaction) -> Relist | None:
        """Waits as long as it asks for, and gives back a wish for a snapshot that came meanwhile; where
        the stream is parked the wish ends the wait. Other tasks are void.
        """
        wish: Relist | None = None
        sleep = asyncio.ensure_future(self._environment.clock.sleep(reaction.delay))
        try:
            while not sleep.done() and not (wish and reaction.action is Action.PARK):
                await self.inbox.wait_or(sleep)
                while not self.inbox.empty:
                    entry = await self.inbox.take()
                    if isinstance(entry, Restart):
                        raise FenceLost(entry.reason)
                    if isinstance(entry, Relist):
                        wish = entry.joined(wish)
                    elif isinstance(entry, Task):
                        entry.void(f"the stream is in {self.progress.state}: {self.progress.error}")
            return wish
        finally:
            sleep.cancel()
            await asyncio.gather(sleep, return_exceptions=True)

    async def _distrust(self, reason: str) -> None:
        """A new epoch for the whole cluster, committed before page one (mirror.md §7)."""
        environment, writer = self._environment, self.writer
        environment.log.warning("distrusting stored versions", stream=str(self.stream), why=reason)
        environment.metrics.relist(self.stream, "rollback")
        await writer.attempt(lambda: environment.store.begin_epoch(writer.row, reason))
        environment.distrusted(self.stream)
        raise FenceLost(f"a new epoch: {reason}")

    # --- snapshot ---------------------------------------------------------------------------------

    async def _snapshot(self, wish: Relist) -> None:
        # Nobody is kept waiting for this stream: a reconcile may be what holds the slot.
        self.inbox.refuse("a relist is under way")
        try:
            async with self._environment.snapshots:
                await self._environment.verify()
                await self.take_snapshot(wish)
        finally:
            self.inbox.refuse("")

    async def take_snapshot(self, wish: Relist) -> None:
        """Brings the rows level with the API, by a list or a WatchList. A poll changes nothing about the
        state: the rows are as good as they were, until the next one is overdue.
        """
        environment, writer = self._environment, self.writer
        await self._stop_reader()
        self.inbox.clear("a relist began")
        polls = wish.reason == POLL
        say = environment.log.debug if polls else environment.log.info
        say("snapshot begins", stream=str(self.stream), reason=wish.reason)
        began = environment.clock.monotonic()
        self.progress.listed, self.progress.remaining = 0, None
        if not polls:
            environment.metrics.relist(self.stream, wish.reason)
            await writer.commit(Batch(state=State.SYNCING))
            self._show(State.SYNCING)
        await self._bring_level(self._new_snapshot(wish), wish)
        if self.settings.poll:
            self._setbacks.clear()
        else:
            self._setbacks.listed()
        self._probe_due, self._delivered = False, False
        self.progress.synced = self.progress.level = True
        self._show(State.LIVE)
        seconds = environment.clock.monotonic() - began
        environment.metrics.snapshot(self.stream, seconds)
        say(
            "snapshot complete",
            stream=str(self.stream),
            objects=writer.row.object_count,
            version=writer.row.resource_version,
            seconds=round(seconds, 2),
        )

    async def _bring_level(self, snapshot: Snapshot, wish: Relist) -> None:
        """By what the configuration prefers, as far as the server can."""
        if self.settings.watch_list and await self._watch_list(snapshot):
            return
        if self._starved(wish):
            await self._list_beside(snapshot)
            return
        try:
            version = await snapshot.run()
        except TokensExpired:
            snapshot.begin()
            if await self._watch_list(snapshot):
                return
            version = await snapshot.run(paged=False)
        self.machine = ListWatch(self.settings.transform, resource_version=version)

    async def _watch_list(self, snapshot: Snapshot) -> bool:
        """A WatchList: its initial events bring the rows level, and the same watch goes on. False where the
        server cannot, or where a list has to confirm what it said.

        Raises:
            SyncdError: a fault like any other.
        """
        environment = self._environment
        if self.settings.poll or not environment.knows_watch_list(self.stream):
            return False
        if self._cuts >= CUTS:
            self._cuts = 0
            return False
        self.machine = ListWatch(self.settings.transform, limit=self.settings.page_size)
        later: list[Message] = []
        self._start_reader(whole=snapshot.whole)
        try:
            await self._apply_initial(snapshot, later)
        except NoInitialEvents as error:
            environment.metrics.retry(self.stream, "watch_list")
            environment.watch_list_refused(self.stream, str(error))
        except Unconfirmed:
            snapshot.confirm()
        else:
            self._ends = self._cuts = 0
            await self._opened()
            self._post(later)
            return True
        await self._stop_reader()
        self.inbox.clear("a list takes over")
        self._post(later)
        snapshot.begin()
        return False

    async def _apply_initial(self, snapshot: Snapshot, later: list[Message]) -> None:
        """Applies the initial events to their end. What can wait for it is put into `later`."""
        while True:
            match await self.inbox.take():
                case InitialPage(page):
                    await snapshot.apply_initial(page)
                    if page.last:
                        return
                case Ended(error=error):
                    self._reader = None
                    self._ends += error is None
                    self._cuts += isinstance(error, ConnectionLost)
                    if self._ends >= ENDS:
                        self._ends = 0
                        raise NoInitialEvents("the initial events never come to their end")
                    raise error or ConnectionLost("the initial events did not end", connected=True)
                case Relist() as wish:
                    later.append(wish)
                case Restart(reason):
                    raise FenceLost(reason)
                case Task(void=void):
                    void("a relist is under way")

    def _starved(self, wish: Relist) -> bool:
        """The watch after the last snapshot expired before it brought anything: writing takes longer
        than the server's history. Then the watch is opened first, and the list runs beside it.
        """
        ranges = self.settings.ranges and not self.writer.row.unordered
        watched = self.settings.poll is None
        return wish.reason == "expired" and not self._delivered and ranges and watched

    def _new_snapshot(self, wish: Relist) -> Snapshot:
        settling = self._settling
        if settling is not None and (
            wish.reason == "settle" or settling.when() <= asyncio.get_running_loop().time()
        ):
            settling.cancel()
            self._settling = None
        # Another wish may have taken the place of the one for a changed projection.
        changed = self.writer.row.projection != self.settings.projection
        return Snapshot(
            self._environment,
            self.stream,
            self.settings,
            self.writer,
            content=wish.content or changed or self.settings.custom,
            projection=self.settings.projection if self._settling is None else None,
            progress=self._page_done,
        )

    def _page_done(self, page: SnapshotPage) -> None:
        self.progress.listed += len(page.items)
        self.progress.remaining = 0 if page.last else page.remaining

    async def _list_beside(self, snapshot: Snapshot) -> None:
        """A list beside a watch from its own version: what the watch brings is applied between the pages
        and is newer than they are; the checkpoint moves with the last page (mirror.md §4).
        """
        lister = ListWatch(self.settings.transform, limit=self.settings.page_size)
        later: list[Message] = []
        async with aclosing(pages(self._environment, self.stream, lister, whole=snapshot.whole)) as source:
            page = await anext(source)
            snapshot.check_rollback(page.resource_version)
            reached = page.resource_version
            self.machine = ListWatch(self.settings.transform, resource_version=reached)
            self._start_reader()
            while True:
                try:
                    await snapshot.apply(page, beside=self.machine, reached=reached)
                except Unconfirmed:
                    self._delivered = True  # then the next list has the stream stopped, and may confirm
                    raise ConnectionLost("a list would delete most of the rows; asking again") from None
                except Unordered:
                    await snapshot.remember_unordered()
                    raise ConnectionLost("the list is not in byte order; asking again") from None
                if page.last:
                    break
                fetch = asyncio.ensure_future(anext(source))
                try:
                    reached = await self._apply_until(fetch, later) or reached
                    page = await fetch
                finally:
                    fetch.cancel()
                    await asyncio.gather(fetch, return_exceptions=True)
        self._post(later)

    def _post(self, messages: list[Message]) -> None:
        for message in messages:
            self.inbox.post(message)

    async def _apply_until(self, fetch: asyncio.Future[SnapshotPage], later: list[Message]) -> str | None:
        """Applies what the watch brings, without a checkpoint, until the next page is there and nothing
        is left; the last version it closed. What can wait for the end of the list is put into `later`.
        """
        reached: str | None = None
        while not (fetch.done() and self.inbox.empty):
            await self.inbox.wait_or(fetch)
            while not self.inbox.empty:
                match await self.inbox.take():
                    case (Gathering() as gathering, float() as received_at):
                        reached, gathering.reached = gathering.reached or reached, None
                        await self._commit(gathering, received_at)
                    case Ended() as ended:
                        self._ended(ended)
                        self._start_reader()
                    case Opened() | Relist() as message:
                        later.append(message)
                    case Restart(reason):
                        raise FenceLost(reason)
                    case Task(void=void):
                        void("a relist is under way")
        return reached

    # --- watch ------------------------------------------------------------------------------------

    def _start_reader(self, *, whole: bool = True) -> None:
        self._reader = Reader(self._environment, self.stream, self.machine, self.inbox, whole=whole)
        self._reader.start()

    async def _stop_reader(self) -> None:
        if self._reader is not None:
            await self._reader.stop()
            self._reader = None

    async def _watch(self) -> Relist | None:
        """One watch, to its end; the snapshot somebody wished for meanwhile, if any.

        Raises:
            SyncdError: why it ended, when everything received is committed.
        """
        if self._reader is None:
            if self._probe_due:
                await probe(
                    self._environment,
                    self.stream,
                    self.settings.transform,
                    self.writer,
                    self.machine.position,
                )
            self._start_reader()
        while True:
            entry = await self.inbox.take()
            match entry:
                case (Gathering() as gathering, float() as received_at):
                    await self._commit(gathering, received_at)
                case Relist():
                    return entry
                case Restart(reason):
                    raise FenceLost(reason)
                case Ended():
                    self._reader = None
                    return self._ended(entry)
                case Opened():
                    await self._opened()
                case Task(run=run):
                    await run()

    async def _poll(self) -> Relist:
        """Waits until the next poll is due; the snapshot to take then, or the one that somebody wished for.

        Raises:
            SyncdError: of a snapshot that was taken meanwhile.
        """
        every = self.settings.poll or 0.0
        delay = every * (1.0 + _POLL_JITTER * (2.0 * self._environment.random() - 1.0))
        due = asyncio.ensure_future(self._environment.clock.sleep(delay))
        try:
            while not due.done():
                await self.inbox.wait_or(due)
                while not self.inbox.empty:
                    match await self.inbox.take():
                        case Relist() as wish:
                            return wish
                        case Restart(reason):
                            raise FenceLost(reason)
                        case Task(run=run):
                            await run()
            return Relist(POLL)
        finally:
            due.cancel()
            await asyncio.gather(due, return_exceptions=True)

    async def _opened(self) -> None:
        now = self._environment.clock.now()
        patience = self._reader.patience if self._reader else 0.0
        marks = Marks(
            deadline_at=now + timedelta(seconds=patience),
            verified_at=now if self._probe_due else None,
            last_error="",
        )
        await self.writer.commit(Batch(state=State.LIVE, marks=marks))
        self._show(State.LIVE)

    async def _commit(self, gathering: Gathering, received_at: float) -> None:
        now = self._environment.clock.now()
        marks = Marks(
            last_event_at=now if gathering.changes else None,
            last_bookmark_at=now if gathering.bookmarked else None,
            verified_at=now if self.inbox.empty else None,
        )
        self._delivered = True
        await self.writer.commit(
            gathering.batch(marks),
            received_at=received_at if gathering.changes else None,
            changes=gathering.changes,
        )
        self.progress.events += gathering.changes

    def _ended(self, ended: Ended) -> Relist | None:
        timing = self._environment.timing
        if ended.progressed or ended.seconds > timing.backoff_reset:
            self._setbacks.clear()
        if ended.error is not None:
            raise ended.error
        if not ended.events and ended.seconds < timing.short_watch:
            raise ConnectionLost("the watch ended at once", connected=True)
        self._setbacks.clear()
        self._probe_due = not (ended.on_time and ended.events)
        if self._settling is not None and not ended.on_time:
            return Relist("settle", content=True)
        return None

    def _unsettle(self) -> None:
        if self._settling is not None:
            self._settling.cancel()
        loop = asyncio.get_running_loop()
        self._settling = loop.call_later(self._environment.timing.settle, self.relist, "settle")
