"""PostgreSQL: a few sessions for statements that are each a transaction of their own.

The mirror's hot path is such a statement, and a pool's hand in it (a checkout in another greenlet, a mode set
and set back, a rollback of nothing) took as long as the statement. The session used last is used next: the
server's caches are a session's own, and those of the last one are warm.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from syncd.store.errors import DRIVER_ERRORS

T = TypeVar("T")
_Session = tuple[AsyncConnection, Any]
"""SQLAlchemy's connection, and the driver's in it."""


class Sessions:
    """At most so many connections of the driver, in autocommit.

    Args:
        engine: makes them; it has no pool, and AUTOCOMMIT as its isolation level.
        most: who wants one when all are in use waits.
    """

    def __init__(self, engine: AsyncEngine, most: int) -> None:
        self._engine = engine
        self._idle: list[_Session] = []
        self._turn = asyncio.Semaphore(most)
        self._cleared = 0
        self._taken = 0
        self._pending: set[asyncio.Future[Any]] = set()

    @property
    def busy(self) -> int:
        """How many are in use, being made or being closed."""
        return self._taken + len(self._pending)

    @asynccontextmanager
    async def take(self) -> AsyncIterator[Any]:
        """A connection of the driver. After any error it is closed: nobody knows what it was doing."""
        async with self._turn:
            self._taken += 1
            try:
                cleared = self._cleared
                session = self._idle.pop() if self._idle else await self._made()
                try:
                    yield session[1]
                except BaseException:
                    await asyncio.shield(self._begin(_close(session)))
                    raise
                if cleared == self._cleared:
                    self._idle.append(session)
                else:
                    await asyncio.shield(self._begin(_close(session)))
            finally:
                self._taken -= 1

    async def clear(self) -> None:
        """Closes what is not in use, and what is when it comes back: it is suspect, or no longer needed."""
        self._cleared += 1
        idle, self._idle = self._idle, []
        await asyncio.shield(asyncio.gather(*(self._begin(_close(session)) for session in idle)))

    async def _made(self) -> _Session:
        making = self._begin(self._connect())
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            making.add_done_callback(self._unwanted)
            raise

    async def _connect(self) -> _Session:
        connection = await self._engine.connect()
        return connection, (await connection.get_raw_connection()).driver_connection

    def _unwanted(self, making: asyncio.Future[_Session]) -> None:
        if not making.cancelled() and making.exception() is None:
            self._begin(_close(making.result()))

    def _begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
        """Makes or closes in a task of its own, to the end: cancelled half-way, nobody would close what is
        open by then.
        """
        task = asyncio.ensure_future(work)
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)
        return task


async def _close(session: _Session) -> None:
    connection, _ = session
    with suppress(*DRIVER_ERRORS):
        await connection.invalidate()
    with suppress(*DRIVER_ERRORS):
        await connection.close()
