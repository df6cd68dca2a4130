"""The reader of one watch: from the socket through frames and machine into the inbox.

It never waits between taking an event from the machine and queueing it, so that the machine's position and
the inbox agree wherever it is cut or cancelled.
"""

from __future__ import annotations

import asyncio

from syncd.core.errors import ConnectionLost, ProtocolError, SyncdError
from syncd.core.frames import EventType, LineSplitter, parse_frame
from syncd.core.listwatch import ListWatch, Watching
from syncd.core.ports import WatchRequest
from syncd.core.resource import Stream
from syncd.sync.environment import Environment
from syncd.sync.inbox import Ended, Inbox, Opened


class Reader:
    """One watch of one stream, from the machine's position; a new one for each watch."""

    def __init__(self, environment: Environment, stream: Stream, machine: ListWatch, inbox: Inbox) -> None:
        self._environment = environment
        self._stream = stream
        self._machine = machine
        self._inbox = inbox
        self._events = 0
        self._bookmarked = False
        timing = environment.timing
        spread = (timing.watch_max - timing.watch_min) * environment.random()
        self._timeout = max(1, round(timing.watch_min + spread))
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
        began, since = clock.monotonic(), self._machine.position
        error: SyncdError | None = None
        try:
            async with asyncio.timeout(self.patience) as deadline:
                await self._read(deadline)
        except SyncdError as problem:
            error = problem
        except TimeoutError:
            error = ConnectionLost("the watch fell silent past its deadline", connected=True)
        except Exception as problem:  # a fault of our own: told, or the stream would wait for ever
            self._environment.log.error("a watch failed", stream=str(self._stream), error=repr(problem))
            error = ProtocolError(f"reading the watch failed: {problem!r}")
        if isinstance(self._machine.state, Watching):
            self._machine.stream_ended()
        seconds = clock.monotonic() - began
        progressed = self._machine.position != since
        on_time = seconds >= self._timeout * 0.95
        self._inbox.post(Ended(error, seconds, self._events, progressed, on_time))

    async def _read(self, deadline: asyncio.Timeout) -> None:
        environment, inbox = self._environment, self._inbox
        request = WatchRequest(self._machine.position, self._timeout)
        ends_at = asyncio.get_running_loop().time() + self.patience
        async with environment.api.watch(self._stream, request) as chunks:
            self._machine.watch_opened()
            inbox.post(Opened())
            splitter = LineSplitter()
            async for chunk in chunks:
                received_at = environment.clock.monotonic()
                for line in splitter.feed(chunk):
                    if inbox.full:
                        await inbox.room()
                    self._take(line, received_at)
                if self._bookmarked:  # then silence means something: two of them are overdue
                    quiet = asyncio.get_running_loop().time() + environment.timing.idle
                    deadline.reschedule(min(ends_at, quiet))

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
        for change in self._machine.event_received(frame):
            self._inbox.put(change, received_at)
        self._events += 1
        self._bookmarked |= frame.type is EventType.BOOKMARK
