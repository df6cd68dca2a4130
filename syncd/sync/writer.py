"""The one writer of a stream: it holds the fence and tries until the database says yes, or moved."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from syncd.core.change import Batch, Committed, StreamRow
from syncd.core.errors import FenceLost, StoreUnavailable
from syncd.core.history import UNRECORDED, History
from syncd.core.recovery import backoff
from syncd.core.resource import Stream
from syncd.sync.environment import Environment

T = TypeVar("T")


class Writer:
    """Reads and commits for one stream, one thing after another.

    What fails because the database is away is tried again with the same arguments after reading the row:
    still as expected, go on; moved, or the outcome unknown and the row moved: `FenceLost`, and the
    reflector begins anew from what is stored (mirror.md §2). Nothing is skipped because it was read.

    Args:
        history: what is recorded of the changes at present.
    """

    def __init__(
        self,
        environment: Environment,
        stream: Stream,
        row: StreamRow,
        history: Callable[[], History] = lambda: UNRECORDED,
    ) -> None:
        self._environment = environment
        self._history = history
        self._stream = stream
        self.row = row
        self.in_flight: float | None = None
        self.waiting = ""

    async def commit(self, batch: Batch, *, received_at: float | None = None, changes: int = 0) -> Committed:
        """One transaction.

        Args:
            received_at: when the batch's oldest event came (monotonic), for the lag.
            changes: how many changes the batch was made of.

        Raises:
            FenceLost: the row moved under this writer.
        """
        self.in_flight = received_at
        batch.history = self._history()
        try:
            began = self._environment.clock.monotonic()
            committed = await self.attempt(lambda: self._environment.store.commit(self.row, batch))
        finally:
            self.in_flight = None
        self.row = committed.row
        seconds = self._environment.clock.monotonic() - began
        self._environment.metrics.committed(self._stream, committed, seconds, changes)
        self._environment.metrics.stream_state(self._stream, committed.row.state)
        return committed

    async def attempt(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Runs something of the store until the database is there. When asked to stop, what is in
        flight is let finish for a moment, so that what was read need not be read again.
        """
        task = asyncio.ensure_future(self._attempt(operation))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            try:
                if not self.waiting:
                    await asyncio.wait({task}, timeout=self._environment.timing.stop * 0.6)
            finally:  # whoever asks a second time ends the wait, and must not leave the task behind
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            raise

    async def _attempt(self, operation: Callable[[], Awaitable[T]]) -> T:
        environment, tries = self._environment, 0
        while True:
            try:
                if tries:
                    await self._confirm()
                result = await operation()
            except StoreUnavailable as error:
                environment.metrics.database_error("unavailable")
                if not self.waiting:
                    environment.log.warning(
                        "held: the database is unavailable", stream=str(self._stream), error=str(error)
                    )
                self.waiting = str(error)
                timing = environment.timing
                delay = backoff(tries, environment.random, timing, timing.store_backoff_cap)
                await environment.clock.sleep(delay)
                tries += 1
                continue
            if self.waiting:
                self.waiting = ""
                environment.log.info("the database is back", stream=str(self._stream))
            return result

    async def _confirm(self) -> None:
        """Whether the row is still what this writer believes."""
        row = await self._environment.store.read(self.row.stream_id)
        ours = (self.row.holder, self.row.epoch, self.row.resource_version)
        if row is None or (row.holder, row.epoch, row.resource_version) != ours:
            raise FenceLost(f"{self._stream}: its row moved while an outcome was unknown")
