"""Faults that last: each is opened, and closed after its time or all together."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

Window = Callable[[], contextlib.AbstractAsyncContextManager[None]]


class Windows:
    """Those of one seed that are open."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._close = asyncio.Event()

    def open(self, window: Window, seconds: float) -> None:
        """Opens one beside those that are open."""

        async def hold() -> None:
            async with window():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._close.wait(), seconds)

        self._tasks.add(asyncio.create_task(hold()))

    async def close(self) -> None:
        """Closes all, and raises what went wrong in one."""
        self._close.set()
        tasks, self._tasks = self._tasks, set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        self._close.clear()
        for result in results:
            if isinstance(result, BaseException):
                raise result
