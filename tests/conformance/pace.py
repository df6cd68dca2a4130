"""A clock for the daemon that runs many times as fast: minutes of waiting take a moment."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from syncd.app.clock import DatabaseClock

SPEED = 100.0


@contextmanager
def hurried(speed: float = SPEED) -> Iterator[list[float]]:
    """Daemons that start inside the block live by it; every wait that they asked for, in their seconds."""
    slept: list[float] = []

    class Hurried(DatabaseClock):
        def monotonic(self) -> float:
            return time.monotonic() * speed

        async def sleep(self, seconds: float) -> None:
            slept.append(seconds)
            await asyncio.sleep(seconds / speed)

    with patch("syncd.app.daemon.DatabaseClock", Hurried):
        yield slept
