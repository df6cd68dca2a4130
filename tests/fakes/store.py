"""The real store, with faults where it meets the network: away, slow, or silent after it committed."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from syncd.core.change import Batch, Committed, KeyRange, RowVersion, StreamRow
from syncd.core.definition import Definition
from syncd.core.errors import StoreUnavailable
from syncd.store.store import MirrorStore


class FaultyStore(MirrorStore):
    """Attributes:
    commits: every batch that was committed.
    away: every call fails, nothing is written.
    lost_replies: so many commits are made and their answer is lost.
    refusals: how many calls failed because it was away.
    gate: where set, commits wait for it before they begin; `waiting` counts them.
    busy: commits under way.
    """

    commits: list[tuple[Batch, Committed]]
    away = False
    lost_replies = 0
    refusals = 0
    waiting = 0
    busy = 0
    gate: asyncio.Event | None = None

    def _reach(self) -> None:
        if self.away:
            self.refusals += 1
            raise StoreUnavailable("away")

    async def commit(self, row: StreamRow, batch: Batch) -> Committed:
        self._reach()
        self.busy += 1
        try:
            return await self._commit(row, batch)
        finally:
            self.busy -= 1

    async def _commit(self, row: StreamRow, batch: Batch) -> Committed:
        if self.gate is not None:
            self.waiting += 1
            await self.gate.wait()
            self.waiting -= 1
        committed = await super().commit(row, batch)
        self.commits.append((batch, committed))
        if self.lost_replies:
            self.lost_replies -= 1
            raise StoreUnavailable("the connection broke after COMMIT")
        return committed

    async def read(self, stream_id: int) -> StreamRow | None:
        self._reach()
        return await super().read(stream_id)

    async def rows(
        self, row: StreamRow, keys: KeyRange | Sequence[str], *, documents: bool = False
    ) -> list[RowVersion]:
        self._reach()
        return await super().rows(row, keys, documents=documents)

    async def keep_definitions(
        self, cluster: str, found: Sequence[Definition], gone: Collection[str] = ()
    ) -> None:
        self._reach()
        await super().keep_definitions(cluster, found, gone)

    async def newest(self, row: StreamRow) -> RowVersion | None:
        self._reach()
        return await super().newest(row)
