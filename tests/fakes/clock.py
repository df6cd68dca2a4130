"""A clock whose sleeps take no time and still end in order."""

from __future__ import annotations

import asyncio
import heapq
from datetime import UTC, datetime, timedelta
from itertools import count

START = datetime(2026, 1, 1, tzinfo=UTC)
_TICK = 0.0005  # real seconds, so that what runs beside a sleep gets its turn


class FakeClock:
    """Time passes only while somebody sleeps, and then at once.

    Attributes:
        slept: every duration that was asked for, in order.
        hold: while set, nobody wakes.
    """

    def __init__(self) -> None:
        self.slept: list[float] = []
        self.hold = False
        self._time = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = count()
        self._ticker: asyncio.Task[None] | None = None

    def now(self) -> datetime:
        return START + timedelta(seconds=self._time)

    def monotonic(self) -> float:
        return self._time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._time + seconds, next(self._order), woken))
        if self._ticker is None or self._ticker.done():
            self._ticker = asyncio.create_task(self._tick())
        await woken

    def advance(self, seconds: float) -> None:
        """Time passes though nobody sleeps."""
        self._time += seconds

    @property
    def sleeping(self) -> bool:
        """Whether somebody waits for time to pass."""
        return any(not woken.done() for _, _, woken in self._sleepers)

    def wake(self) -> None:
        """The next who sleeps wakes, held or not."""
        while self._sleepers:
            at, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                self._time = max(self._time, at)
                woken.set_result(None)
                return

    async def close(self) -> None:
        if self._ticker is not None:
            self._ticker.cancel()
            await asyncio.gather(self._ticker, return_exceptions=True)

    async def _tick(self) -> None:
        while self._sleepers:
            await asyncio.sleep(_TICK)
            if self.hold:
                continue
            at, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                self._time = max(self._time, at)
                woken.set_result(None)
