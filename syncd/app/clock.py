"""The engine's clock: durations from this machine, moments on the database's clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import datetime


class DatabaseClock:
    """Verdicts about freshness are computed where they are read, against the database's clock, so what
    is written must be on that clock too (mirror.md §11).

    Args:
        now: aware UTC, as the lease's last heartbeat corrected it.
    """

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now

    def now(self) -> datetime:
        return self._now()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
