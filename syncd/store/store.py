"""The commit: one transaction that begins with the compare-and-swap of the stream's row (mirror.md §2).

The algorithm is one for both dialects; a bulk writer does the rows. A commit is tried as a whole first;
only where the database refuses a row for its data is it done again in savepoints, halved until the
refused row stands alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from syncd.core.change import Batch, Committed, Deletion, KeyRange, RowVersion, StreamRow, Tombstone
from syncd.core.document import Item
from syncd.core.errors import StoreError, StoreUnavailable
from syncd.core.ports import Report
from syncd.core.resource import Cause, Stream
from syncd.store import changes, fence, quick, reconciliation
from syncd.store.engine import Engine
from syncd.store.errors import ROW_ERRORS, is_row_error
from syncd.store.lease import Lease
from syncd.store.merge import BulkWriter, Scope, Tally
from syncd.store.quarantine import admit, heal, put_away
from syncd.store.redaction import redact_past
from syncd.store.registry import MirrorRegistry
from syncd.store.row import (
    read_newest,
    read_rows,
    read_stream,
    read_tombstones,
    stream_row,
)
from syncd.store.schema import streams


class _RowRefusedError(StoreError):
    """The database refused something for its data: the transaction is rolled back and split."""


class MirrorStore(MirrorRegistry):
    """Implements `Store` and, by its parent, `Registry`, for the holder of a lease.

    Attributes:
        recorded: set whenever there may be new records of changes; who has seen it clears it.
    """

    def __init__(self, engine: Engine, lease: Lease, writer: BulkWriter) -> None:
        super().__init__(engine, lease)
        self._writer = writer
        self.recorded = asyncio.Event()
        self._identities: dict[int, tuple[str, str, str]] = {}  # cluster, group and resource never change

    async def open(self, stream: Stream, *, adopt: Iterable[int] = ()) -> StreamRow:
        async with self._engine.writing() as connection:
            await self._lease.hold(connection)
            row = await self._open_stream(connection, stream, list(adopt))
        self._identities[row.stream_id] = stream.identity[:3]
        self.retyped.set()
        return row

    async def read(self, stream_id: int) -> StreamRow | None:
        async with self._engine.reading() as connection:
            return await read_stream(connection, stream_id)

    async def rows(
        self, row: StreamRow, keys: KeyRange | Sequence[str], *, documents: bool = False
    ) -> list[RowVersion]:
        async with self._engine.reading() as connection:
            return await read_rows(connection, row.stream_id, keys, documents=documents)

    async def newest(self, row: StreamRow) -> RowVersion | None:
        async with self._engine.reading() as connection:
            return await read_newest(connection, row.stream_id)

    async def tombstones(self, row: StreamRow, keys: Sequence[str]) -> list[Tombstone]:
        async with self._engine.reading() as connection:
            return await read_tombstones(connection, row, keys)

    async def begin_epoch(self, row: StreamRow, reason: str) -> None:
        async with self._engine.writing() as connection:
            await self._lease.hold(connection)
            cluster = sa.select(streams.c.cluster).where(streams.c.stream_id == row.stream_id)
            name = (await connection.execute(cluster)).scalar_one_or_none()
            if name is not None:
                await self._next_epoch(connection, name, row.epoch, reason)

    async def begin_reconciliation(
        self, row: StreamRow, *, deep: bool, dry_run: bool, request_id: int | None
    ) -> int:
        async with self._engine.writing() as connection:
            await self._lease.hold(connection)
            return await reconciliation.begin(
                connection,
                row.stream_id,
                self._lease.now(),
                deep=deep,
                dry_run=dry_run,
                request_id=request_id,
            )

    async def finish_reconciliation(self, row: StreamRow, reconciliation_id: int, report: Report) -> None:
        async with self._engine.writing() as connection:
            await self._lease.hold(connection)
            await reconciliation.finish(connection, reconciliation_id, report, self._lease.now())

    async def commit(self, row: StreamRow, batch: Batch) -> Committed:
        try:
            committed = await self._quickly(row, batch)
            committed = committed or await self._transaction(row, batch, split=False)
        except _RowRefusedError:
            committed = await self._transaction(row, batch, split=True)
        if committed.recorded:
            self.recorded.set()
        return committed

    async def retire(self, stream_id: int, *, cause: Cause) -> int:
        rows = await super().retire(stream_id, cause=cause)
        self.recorded.set()
        return rows

    async def _quickly(self, row: StreamRow, batch: Batch) -> Committed | None:
        """In one statement, where the database can and the batch is of the usual kind; else None, and
        nothing is written.
        """
        identity = self._identities.get(row.stream_id)
        if self._engine.is_sqlite or identity is None or not quick.is_quick(row, batch):
            return None
        async with self._engine.autocommit() as raw:
            try:
                return await quick.commit(raw, identity, row, batch, self._lease.now())
            except ROW_ERRORS as error:
                if not is_row_error(error):
                    raise
                refused = error
        raise _RowRefusedError("a row was refused") from refused

    async def _transaction(self, row: StreamRow, batch: Batch, *, split: bool) -> Committed:
        now = self._lease.now()
        async with self._engine.writing() as connection:
            found = await fence.move(connection, row, batch, now)
            scope = _scope(row, batch, found, now)
            begun = await changes.begin(connection, row, batch.history.record, now)
            tally, quarantined = await self._write(connection, scope, batch, found.quarantined, split=split)
            await _count(connection, scope, tally)
            if batch.drift:
                await reconciliation.record(
                    connection, scope, batch.reconciliation_id or 0, batch.drift, repaired=batch.repaired
                )
            redacted = False
            if batch.projection not in (None, row.projection) and row.projection:
                redacted = await redact_past(connection, scope.cluster, scope.api_group, scope.resource)
        if redacted:
            with suppress(StoreUnavailable):  # it is committed: the log is then overwritten in its own time
                await self._engine.scrub()
        after = stream_row(found)
        return Committed(
            row=replace(after, object_count=after.object_count + tally.gained),
            inserted=tally.inserted,
            updated=tally.updated,
            deleted=tally.deleted,
            tombstones=tally.tombstones,
            quarantined=quarantined,
            skipped=tally.skipped,
            recorded=tally.recorded + begun,
        )

    async def _write(
        self, connection: AsyncConnection, scope: Scope, batch: Batch, held: bool, *, split: bool
    ) -> tuple[Tally, int]:
        """Deletions first: an object replaced under its name has both. Returns the tally and how many
        rows went to quarantine.
        """
        tally = Tally()
        upserts: Sequence[Item] = batch.upserts
        if held:
            upserts, skipped = await admit(connection, scope, upserts)
            tally.skipped += skipped
        if batch.deletes:
            tally.add(await self._delete(connection, scope, batch.deletes, split=split))
        refused: list[tuple[Item, BaseException]] = []
        if upserts:
            fresh = batch.fresh and not batch.deletes and not batch.guarded
            tally.add(await self._upsert(connection, scope, upserts, refused, fresh=fresh, split=split))
        if held:
            keys = [item.key for item in upserts] + [deletion.key for deletion in batch.deletes]
            await heal(connection, scope, keys, kept=[item.key for item, _ in refused])
        await put_away(connection, scope, refused)
        return tally, len(refused)

    async def _upsert(
        self,
        connection: AsyncConnection,
        scope: Scope,
        items: Sequence[Item],
        refused: list[tuple[Item, BaseException]],
        *,
        fresh: bool,
        split: bool,
    ) -> Tally:
        if fresh and not split:
            try:
                async with connection.begin_nested():
                    return await self._writer.insert(connection, scope, items)
            except ROW_ERRORS as error:
                if not is_row_error(error):
                    raise
                # a row is there after all (a page written before a crash), or one is bad: merge and see
        try:
            if not split:
                return await self._writer.upsert(connection, scope, items)
            async with connection.begin_nested():
                return await self._writer.upsert(connection, scope, items)
        except ROW_ERRORS as error:
            if not is_row_error(error):
                raise
            if not split:
                raise _RowRefusedError("a row was refused") from error
            if len(items) == 1:
                refused.append((items[0], error))
                return Tally()
        middle = len(items) // 2
        tally = Tally()
        for half in (items[:middle], items[middle:]):
            tally.add(await self._upsert(connection, scope, half, refused, fresh=False, split=True))
        return tally

    async def _delete(
        self, connection: AsyncConnection, scope: Scope, deletions: Sequence[Deletion], *, split: bool
    ) -> Tally:
        try:
            if not split:
                return await self._writer.delete(connection, scope, deletions)
            async with connection.begin_nested():
                return await self._writer.delete(connection, scope, deletions)
        except ROW_ERRORS as error:
            if not is_row_error(error):
                raise
            if not split:
                raise _RowRefusedError("a deletion was refused") from error
            if len(deletions) == 1:
                if deletions[0].item is None:
                    raise
                # its last content cannot be stored: the row still leaves, with the content it had
                bare = Deletion(
                    deletions[0].key, deletions[0].uid, deletions[0].resource_version, deletions[0].cause
                )
                return await self._delete(connection, scope, [bare], split=True)
        middle = len(deletions) // 2
        tally = Tally()
        for half in (deletions[:middle], deletions[middle:]):
            tally.add(await self._delete(connection, scope, half, split=True))
        return tally


def _scope(row: StreamRow, batch: Batch, found: Any, now: datetime) -> Scope:
    if batch.guarded:
        replaced = Cause.DELETED
    else:
        replaced = Cause.SNAPSHOT if batch.reconciliation_id is None else Cause.RECONCILE
    source, initial = changes.source(row, batch)
    return Scope(
        cluster=found.cluster,
        api_group=found.api_group,
        resource=found.resource,
        stream_id=row.stream_id,
        epoch=row.epoch,
        guarded=batch.guarded,
        replaced=replaced,
        now=now,
        alive=row.verified_at,
        history=batch.history,
        source=source,
        initial=initial,
    )


async def _count(connection: AsyncConnection, scope: Scope, tally: Tally) -> None:
    counts = {stream_id: -count for stream_id, count in tally.left.items()}
    if tally.gained:
        counts[scope.stream_id] = tally.gained
    for stream_id, change in sorted(counts.items()):
        await connection.execute(
            sa.update(streams)
            .where(streams.c.stream_id == stream_id)
            .values(object_count=streams.c.object_count + change)
        )
