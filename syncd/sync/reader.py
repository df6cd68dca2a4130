"""The reader of one watch: from the socket through frames and machine into the inbox.

The same connection serves a WatchList's initial events, which go into the inbox as pages, and what follows.
It never waits between taking an event from the machine and queueing it, so that the machine's position and
the inbox agree wherever it is cut or cancelled.
"""

from __future__ import annotations

import asyncio

from syncd.core.errors import ConnectionLost, NoInitialEvents, ProtocolError, SyncdError
from syncd.core.frames import EventType, Frame, LineSplitter, parse_frame
from syncd.core.listwatch import Initial, Listing, ListWatch
from syncd.core.ports import WatchRequest
from syncd.core.recovery import refuses_watch_list
from syncd.core.resource import Stream
from syncd.sync.environment import Environment
from syncd.sync.inbox import Ended, Inbox, InitialPage, Opened


class Reader:
    """One watch of one stream, from the machine's position; a new one for each watch. Where the machine has
    none, a WatchList.

    Args:
        whole: of a WatchList, open the initial objects wholly.
    """

    def __init__(
        self,
        environment: Environment,
        stream: Stream,
        machine: ListWatch,
        inbox: Inbox,
        *,
        whole: bool = True,
    ) -> None:
        self._environment = environment
        self._stream = stream
        self._machine = machine
        self._inbox = inbox
        self._events = 0
        self._bookmarked = False
        self._whole = whole
        self._initial = isinstance(machine.state, Listing)
        self._opened = False
        self._ends_at = self._initial_until = 0.0  # on the loop's clock
        timing = environment.timing
        spread = (timing.watch_max - timing.watch_min) * environment.random()
        # The initial events of a large type take their time, and that counts (list-watch.md §5).
        least = timing.watch_max if self._initial else timing.watch_min
        self._timeout = max(1, round(least + spread))
        self._task: asyncio.Task[None] | None = None

    @property
    def patience(self) -> float:
        """Seconds after which a watch without an end counts as half-open."""
        return self._timeout + self._environment.timing.watch_margin

    def start(self) -> None:
        """Opens the watch; what becomes of it is told to the inbox."""
        self._task = asyncio.create_task(self._run(), name=f"watch {self._stream}")

    async def stop(self) -> None:
        """Closes the watch. Nothing more is queued, no end is told."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        clock = self._environment.clock
        began = clock.monotonic()
        since = None if self._initial else self._machine.position
        error: SyncdError | None = None
        try:
            async with asyncio.timeout(self.patience) as deadline:
                await self._read(deadline)
        except SyncdError as problem:
            error = problem
        except TimeoutError:
            error = self._silent()
        except Exception as problem:  # a fault of our own: told, or the stream would wait for ever
            self._environment.log.error("a watch failed", stream=str(self._stream), error=repr(problem))
            error = ProtocolError(f"reading the watch failed: {problem!r}")
        if error is not None and self._initial and refuses_watch_list(error, opened=self._opened):
            error = NoInitialEvents(f"no initial events: {error}")
        if self._opened:
            self._machine.stream_ended()
        seconds = clock.monotonic() - began
        progressed = not self._initial and self._machine.position != since
        on_time = seconds >= self._timeout * 0.95
        self._inbox.post(Ended(error, seconds, self._events, progressed, on_time))

    async def _read(self, deadline: asyncio.Timeout) -> None:
        environment, inbox = self._environment, self._inbox
        position = None if self._initial else self._machine.position
        request = WatchRequest(position, self._timeout, initial_events=self._initial)
        self._ends_at = self._now() + self.patience
        self._initial_until = self._now() + environment.timing.initial_events
        deadline.reschedule(self._due())
        async with environment.api.watch(self._stream, request) as chunks:
            if self._initial:
                self._machine.watch_list_opened(whole=self._whole)
                self._initial_until = self._now() + environment.timing.initial_events
                deadline.reschedule(self._due())
            else:
                self._machine.watch_opened()
            self._opened = True
            inbox.post(Opened())
            splitter = LineSplitter()
            async for chunk in chunks:
                received_at = environment.clock.monotonic()
                for line in splitter.feed(chunk):
                    if inbox.full:
                        deadline.reschedule(self._ends_at)  # it is not the server that is silent
                        await inbox.room()
                    self._take(line, received_at)
                deadline.reschedule(self._due())

    def _due(self) -> float:
        """When a silence from now on has lasted too long, on the loop's clock."""
        timing = self._environment.timing
        if self._initial:
            return min(self._ends_at, max(self._initial_until, self._now() + timing.initial_silence))
        if self._bookmarked:  # then silence means something: two of them are overdue
            return min(self._ends_at, self._now() + timing.idle)
        return self._ends_at

    def _silent(self) -> SyncdError:
        if self._initial and self._opened:
            return NoInitialEvents("the initial events did not end in time")
        return ConnectionLost("the watch fell silent past its deadline", connected=True)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _take(self, line: bytes, received_at: float) -> None:
        frame = parse_frame(line)
        if frame is None:
            self._environment.log.warning(
                "an event of an unknown type",
                stream=str(self._stream),
                line=line[:60].decode("utf-8", "replace"),
            )
            return
        self._environment.metrics.received(self._stream, frame.type.value)
        if frame.type is EventType.ERROR:
            raise frame.error()
        self._events += 1
        if self._initial:
            self._take_initial(frame)
            return
        for change in self._machine.event_received(frame):
            self._inbox.put(change, received_at)
        self._bookmarked |= frame.type is EventType.BOOKMARK

    def _take_initial(self, frame: Frame) -> None:
        page = self._machine.initial_event_received(frame)
        if page is not None:
            self._inbox.post(InitialPage(page))
        self._initial = isinstance(self._machine.state, Initial)
