"""PostgreSQL: a few sessions for statements that are each a transaction of their own.

The mirror's hot path is such a statement, and a pool's hand in it (a checkout in another greenlet, a mode set
and set back, a rollback of nothing) took as long as the statement. The session used last is used next: the
server's caches are a session's own, and those of the last one are warm.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from syncd.store.errors import DRIVER_ERRORS


class Sessions:
    """At most so many connections of the driver, in autocommit.

    Args:
        engine: makes them; it has no pool, and AUTOCOMMIT as its isolation level.
        most: who wants one when all are in use waits.
    """

    def __init__(self, engine: AsyncEngine, most: int) -> None:
        self._engine = engine
        self._idle: list[tuple[AsyncConnection, Any]] = []
        self._turn = asyncio.Semaphore(most)
        self._cleared = 0
        self.taken = 0

    @asynccontextmanager
    async def take(self) -> AsyncIterator[Any]:
        """A connection of the driver. After any error it is closed: nobody knows what it was doing."""
        async with self._turn:
            self.taken += 1
            try:
                cleared = self._cleared
                connection, raw = self._idle.pop() if self._idle else await self._connect()
                try:
                    yield raw
                except BaseException:
                    await _end(connection)
                    raise
                if cleared == self._cleared:
                    self._idle.append((connection, raw))
                else:
                    await _end(connection)
            finally:
                self.taken -= 1

    async def clear(self) -> None:
        """Closes what is not in use, and what is when it comes back: it is suspect, or no longer needed."""
        self._cleared += 1
        idle, self._idle = self._idle, []
        for connection, _ in idle:
            await _end(connection)

    async def _connect(self) -> tuple[AsyncConnection, Any]:
        connection = await self._engine.connect()
        return connection, (await connection.get_raw_connection()).driver_connection


async def _end(connection: AsyncConnection) -> None:
    """Whoever is cancelled in here leaves it to be closed all the same."""
    await asyncio.shield(asyncio.ensure_future(_close(connection)))


async def _close(connection: AsyncConnection) -> None:
    with suppress(*DRIVER_ERRORS):
        await connection.invalidate()
    with suppress(*DRIVER_ERRORS):
        await connection.close()
