"""A reflector drives one stream: snapshot, probe, watch, commit, and again, for as long as it lives.

A reader task puts what a watch delivers into the inbox; the reflector's own task takes it out and is the
only one that commits. What to do about an error is asked of `recovery.react`; where to begin is decided by
what is stored.
"""

from __future__ import annotations

import asyncio

from syncd.core import recovery
from syncd.core.batching import Gathering
from syncd.core.change import Batch, Marks, StreamRow
from syncd.core.errors import (
    FenceLost,
    StoreUnavailable,
    SyncdError,
)
from syncd.core.listwatch import ListWatch
from syncd.core.ports import ListRequest
from syncd.core.recovery import Action, Reaction
from syncd.core.resource import State, Stream
from syncd.sync.environment import Environment, Settings
from syncd.sync.feed import Feed
from syncd.sync.inbox import Ended, Opened, Relist, Restart, Task
from syncd.sync.leveling import Leveling
from syncd.sync.probe import probe
from syncd.sync.snapshot import RolledBack, Snapshot
from syncd.sync.writer import Writer

POLL = "poll"
_POLL_JITTER = 0.1  # of the interval


class Reflector:
    """One stream, mirrored.

    Args:
        adopt: ids of streams no longer selected, whose rows in this scope are taken over.

    Attributes:
        rested: set while no snapshot is waited for or under way.
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
        self.feed = Feed(environment, stream, settings)
        self.progress = self.feed.progress
        self.inbox = self.feed.inbox
        self._environment = environment
        self._adopt = adopt
        self._leveling = Leveling(self.feed)
        self._settling: asyncio.TimerHandle | None = None
        self.rested = asyncio.Event()
        self.rested.set()

    @property
    def settings(self) -> Settings:
        """What shapes the stream's mirror now."""
        return self.feed.settings

    @settings.setter
    def settings(self, settings: Settings) -> None:
        self.feed.settings = settings

    @property
    def machine(self) -> ListWatch:
        """The protocol's state; another machine after each list."""
        return self.feed.machine

    @property
    def writer(self) -> Writer:
        """The stream's one writer, once it is open."""
        return self.feed.writer

    @property
    def row(self) -> StreamRow | None:
        """The durable model as last committed, None before the first time."""
        return self.feed.writer.row if self.feed.opened else None

    @property
    def live(self) -> bool:
        return self.progress.state is State.LIVE

    @property
    def held(self) -> str:
        """Why a commit is waiting for the database, '' when none is."""
        return self.feed.writer.waiting if self.feed.opened else ""

    def lag(self) -> float:
        """Seconds since the oldest event that is received and not committed; 0 when there is none."""
        times = [self.inbox.oldest, self.feed.writer.in_flight if self.feed.opened else None]
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

    def record(self) -> None:
        """Asks to begin with what is recorded of changes now, though nothing happens."""

        async def commit() -> None:
            await self.writer.commit(Batch())

        self.inbox.post(Task(commit, lambda reason: None))  # void: the next commit says it

    def change_settings(self, settings: Settings) -> None:
        """Another projection: a snapshot that compares content. The old schema may still serve a custom
        resource, so its projection counts only after its storage was seen torn down, or had the time.
        """
        self.feed.settings = settings
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
                    self.feed.show(State.BACKOFF, repr(error))
                    delay = recovery.backoff(faults, environment.random, environment.timing)
                    faults += 1
                await self.feed.stop_reader()
                self.inbox.clear("the stream began anew")
                await environment.clock.sleep(delay)
        finally:
            await self.feed.stop_reader()
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
                self.feed.show(State.BACKOFF, str(error))
                timing = environment.timing
                cap = timing.store_backoff_cap
                await environment.clock.sleep(recovery.backoff(attempt, environment.random, timing, cap))
                attempt += 1
            except FenceLost:
                environment.lease_lost()
                raise
        self.feed.writer = Writer(environment, self.stream, row, lambda: self.settings.history)
        self.progress.synced = row.resource_version is not None
        # What is stored is the state of an earlier life: this one is live when its watch is open.
        self.feed.show(State.PENDING)

    async def _follow(self) -> None:
        """From the stored row onwards; never returns, raises FenceLost to begin anew."""
        row, settings = self.writer.row, self.settings
        self.feed.begin(row.resource_version)
        begin = recovery.start(row, settings.projection)
        reason = begin.reason or (POLL if settings.poll else "")
        wish = Relist(reason, begin.content) if reason else None
        if begin.reason == "projection" and settings.custom:
            self._unsettle()
        self.feed.probe_due = True
        while True:
            try:
                if wish is not None:
                    await self.snapshot(wish)
                    wish = None
                wish = await (self._watch() if self.settings.poll is None else self._poll())
            except RolledBack as error:
                await self._distrust(str(error))
            except FenceLost:
                raise
            except SyncdError as error:
                if self.settings.poll:
                    wish = wish or Relist(POLL)
                self.feed.probe_due = True
                await self.feed.abandon()
                wish = await self._recover(error, wish)

    async def _recover(self, error: SyncdError, wish: Relist | None) -> Relist | None:
        """Says what happened and waits as long as it asks for; the snapshot that must follow, if any."""
        version = "" if wish is not None else self.machine.position
        reaction = self.feed.setbacks.react(error, listing=wish is not None, version=version)
        if reaction.action is Action.RELIST:
            kind = "settle" if self._settling is not None else reaction.kind
            wish = wish or Relist(kind, self.settings.custom)
        at_once = reaction.action is Action.RELIST and not reaction.delay
        if not at_once and not self.feed.setbacks.negligible(error, reaction):
            parked = reaction.action is Action.PARK
            await self._mark(State.PARKED if parked else State.BACKOFF, str(error))
        wished = await self._pause(reaction)
        return wish.joined(wished) if wish is not None else wished

    async def _mark(self, state: State, error: str) -> None:
        if (self.progress.state, self.progress.error) != (state, error):
            self.feed.show(state, error)
            await self.writer.commit(Batch(state=state, marks=Marks(last_error=error)))

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

    async def snapshot(self, wish: Relist) -> None:
        """One snapshot, in its turn; for the stream's own task alone."""
        # Nobody is kept waiting for this stream: a reconcile may be what holds the slot.
        self.inbox.refuse("a relist is under way")
        self.rested.clear()
        try:
            async with self._environment.snapshots:
                await self._environment.verify()
                if self.progress.state is State.PARKED:  # what is refused still has not begun
                    await self._environment.api.list(self.stream, ListRequest(limit=1))
                await self._take_snapshot(wish)
        finally:
            self.rested.set()
            self.inbox.refuse("")

    async def _take_snapshot(self, wish: Relist) -> None:
        """Brings the rows level with the API, by a list or a WatchList. A poll changes nothing about the
        state: the rows are as good as they were, until the next one is overdue.
        """
        environment, writer = self._environment, self.writer
        await self.feed.stop_reader()
        self.inbox.clear("a relist began")
        polls = wish.reason == POLL
        say = environment.log.debug if polls else environment.log.info
        say("snapshot begins", stream=str(self.stream), reason=wish.reason)
        began = environment.clock.monotonic()
        self.progress.listed, self.progress.remaining = 0, None
        if not polls:
            environment.metrics.relist(self.stream, wish.reason)
            await writer.commit(Batch(state=State.SYNCING))
            self.feed.show(State.SYNCING)
        await self._leveling.run(self._new_snapshot(wish), wish)
        if self.settings.poll:
            self.feed.setbacks.clear()
        else:
            self.feed.setbacks.listed()
        self.feed.probe_due = self.feed.delivered = False
        self.progress.synced = self.progress.level = True
        self.feed.show(State.LIVE)
        seconds = environment.clock.monotonic() - began
        environment.metrics.snapshot(self.stream, seconds)
        say(
            "snapshot complete",
            stream=str(self.stream),
            objects=writer.row.object_count,
            version=writer.row.resource_version,
            seconds=round(seconds, 2),
        )

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
            retry=wish.retry,
            projection=self.settings.projection if self._settling is None else None,
            progress=self.feed.page_done,
        )

    # --- watch ------------------------------------------------------------------------------------

    async def _watch(self) -> Relist | None:
        """One watch, to its end; the snapshot somebody wished for meanwhile, if any.

        Raises:
            SyncdError: why it ended, when everything received is committed.
        """
        if self.feed.reader is None:
            if self.feed.probe_due:
                await probe(
                    self._environment,
                    self.stream,
                    self.settings.transform,
                    self.writer,
                    self.machine.position,
                )
            self.feed.start_reader()
        while True:
            entry = await self.inbox.take()
            match entry:
                case (Gathering() as gathering, float() as received_at):
                    await self.feed.commit(gathering, received_at)
                case Relist():
                    return entry
                case Restart(reason):
                    raise FenceLost(reason)
                case Ended():
                    self.feed.reader = None
                    self.feed.ended(entry)
                    unsettled = self._settling is not None and not entry.on_time
                    return Relist("settle", content=True) if unsettled else None
                case Opened():
                    await self.feed.watch_opened()
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

    def _unsettle(self) -> None:
        if self._settling is not None:
            self._settling.cancel()
        loop = asyncio.get_running_loop()
        self._settling = loop.call_later(self._environment.timing.settle, self.relist, "settle")
