"""Clusters, streams and requests, as a supervisor needs them; every write is under the lease."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from syncd.core.change import StreamRow
from syncd.core.definition import Definition
from syncd.core.errors import FenceLost, StoreUnavailable
from syncd.core.history import Record
from syncd.core.ports import ClusterSeen, KnownStream, Request
from syncd.core.resource import Cause, State, Stream
from syncd.store import changes, definition, request
from syncd.store.column import UtcTime
from syncd.store.engine import RETIREMENT_TIMEOUT, Engine
from syncd.store.lease import Lease
from syncd.store.merge import KEEP_HIGHER, OBJECT_COLUMNS, TOMBSTONE_COLUMNS, columns
from syncd.store.redaction import redact_past
from syncd.store.row import STREAM_ROW, stream_row
from syncd.store.schema import clusters, objects, quarantine, streams

_BURY_STREAM = sa.text(
    f"INSERT INTO syncd_deleted_objects ({columns(TOMBSTONE_COLUMNS)})"  # noqa: S608 - our own names
    f" SELECT {columns(OBJECT_COLUMNS, 'o')}, :epoch, :cause, :now,"
    " CASE WHEN o.committed_at < :alive THEN :alive ELSE o.committed_at END"
    f" FROM syncd_objects o WHERE o.stream_id = :stream_id {KEEP_HIGHER}"
).bindparams(sa.bindparam("now", type_=UtcTime), sa.bindparam("alive", type_=UtcTime))


class MirrorRegistry:
    """Implements `Registry` for the holder of a lease.

    Attributes:
        retyped: set whenever a type may have come, changed or gone; who has seen it clears it.
    """

    def __init__(self, engine: Engine, lease: Lease) -> None:
        self._engine = engine
        self._lease = lease
        self.retyped = asyncio.Event()

    async def see_cluster(self, cluster: ClusterSeen) -> bool:
        now = self._lease.now()
        async with self._engine.writing() as connection:
            await self._lease.hold(connection)
            query = sa.select(clusters).where(clusters.c.name == cluster.name).with_for_update()
            known = (await connection.execute(query)).first()
            if known is None:
                await _insert_cluster(connection, cluster, now)
                return False
            # A hash of server and CA says nothing about a uid, nor a uid about the hash.
            comparable = bool(known.uid) and known.weak_uid == cluster.weak
            keep = bool(known.uid) and cluster.weak and not known.weak_uid
            values: dict[str, Any] = {} if keep else {"uid": cluster.uid, "weak_uid": cluster.weak}
            await connection.execute(
                sa.update(clusters)
                .where(clusters.c.name == cluster.name)
                .values(
                    server=cluster.server,
                    kubernetes_version=cluster.kubernetes_version,
                    labels=dict(cluster.labels),
                    last_seen_at=now,
                    last_error="",
                    **values,
                )
            )
            if not comparable or known.uid == cluster.uid:
                return False
            return await self._next_epoch(
                connection, cluster.name, known.epoch, "another cluster answers under this name"
            )

    async def streams(self, cluster: str) -> list[KnownStream]:
        query = sa.select(streams).where(streams.c.cluster == cluster).order_by(streams.c.stream_id)
        async with self._engine.reading() as connection:
            return [
                KnownStream(
                    stream_id=found.stream_id,
                    identity=(
                        found.cluster,
                        found.api_group,
                        found.resource,
                        found.namespace,
                        found.label_selector,
                        found.field_selector,
                    ),
                    state=State(found.state),
                    object_count=found.object_count,
                )
                for found in await connection.execute(query)
            ]

    async def retire(self, stream_id: int, *, cause: Cause) -> int:
        async with self._engine.writing(RETIREMENT_TIMEOUT) as connection:
            if not self._engine.is_sqlite:
                await connection.execute(
                    sa.text(f"SET LOCAL statement_timeout = '{RETIREMENT_TIMEOUT:.0f}s'")
                )
            query = sa.select(*STREAM_ROW, streams.c.cluster, streams.c.api_group, streams.c.resource).where(
                streams.c.stream_id == stream_id, streams.c.holder == self._lease.required
            )
            found = (await connection.execute(query.with_for_update())).first()
            if found is None:
                raise FenceLost(f"stream {stream_id} is gone, or another daemon's")
            values: dict[str, Any] = {
                "stream_id": stream_id,
                "epoch": found.epoch,
                "cause": cause.value,
                "now": self._lease.now(),
                "alive": found.verified_at,
            }
            await connection.execute(_BURY_STREAM, values)
            if found.history != Record.NONE:
                await changes.leave(connection, stream_id, cause, values["now"])
            gone = await connection.execute(sa.delete(objects).where(objects.c.stream_id == stream_id))
            if found.history == Record.NONE:
                await changes.leave_unrecorded(connection, stream_id, cause, values["now"])
            await connection.execute(sa.delete(quarantine).where(quarantine.c.stream_id == stream_id))
            await connection.execute(sa.delete(streams).where(streams.c.stream_id == stream_id))
            # The entry that allowed the values of Secrets is gone with the stream.
            redacted = await redact_past(connection, found.cluster, found.api_group, found.resource)
        self.retyped.set()
        if redacted:
            with suppress(StoreUnavailable):  # it is committed: the log is then overwritten in its own time
                await self._engine.scrub()
        return gone.rowcount

    async def mark_cluster(self, cluster: str, state: State | None, error: str) -> None:
        async with self._engine.writing() as connection:
            await self._lease.hold(connection)
            marked = await connection.execute(
                sa.update(clusters).where(clusters.c.name == cluster).values(last_error=error)
            )
            if not marked.rowcount:  # it has never answered
                await _insert_cluster(connection, ClusterSeen(cluster, "", "", ""), self._lease.now())
                await connection.execute(
                    sa.update(clusters).where(clusters.c.name == cluster).values(last_error=error)
                )
            if state is not None:
                await connection.execute(
                    sa.update(streams)
                    .where(streams.c.cluster == cluster, streams.c.holder == self._lease.token)
                    .values(state=state.value, last_error=error)
                )

    async def mark_stream(self, stream_id: int, state: State, error: str) -> None:
        async with self._engine.writing() as connection:
            marked = await connection.execute(
                sa.update(streams)
                .where(streams.c.stream_id == stream_id, streams.c.holder == self._lease.required)
                .values(state=state.value, last_error=error)
            )
            if marked.rowcount != 1:
                raise FenceLost(f"stream {stream_id} is gone, or another daemon's")

    async def definitions(self, cluster: str) -> dict[str, tuple[str, int]]:
        async with self._engine.reading() as connection:
            return await definition.identities(connection, cluster)

    async def keep_definitions(
        self, cluster: str, found: Sequence[Definition], gone: Collection[str] = ()
    ) -> None:
        async with self._engine.writing() as connection:
            await self._lease.hold(connection)
            await definition.keep(connection, cluster, found, gone)
        self.retyped.set()

    async def requests(self) -> list[Request]:
        async with self._engine.reading() as connection:
            found = await request.unanswered(connection)
        unclaimed = [one.request_id for one, claimed in found if not claimed]
        if unclaimed:
            async with self._engine.writing() as connection:
                await self._lease.hold(connection)
                await request.claim(connection, unclaimed, self._lease.now())
        return [one for one, _ in found]

    async def answer(self, request_id: int, *, error: str, result: Mapping[str, object]) -> None:
        async with self._engine.writing() as connection:
            await self._lease.hold(connection)
            await request.answer(connection, request_id, self._lease.now(), error=error, result=result)

    async def progress(self, request_id: int, progress: Mapping[str, object]) -> None:
        async with self._engine.writing() as connection:
            await self._lease.hold(connection)
            await request.progress(connection, request_id, progress)

    async def _open_stream(
        self, connection: AsyncConnection, stream: Stream, adopt: Sequence[int]
    ) -> StreamRow:
        cluster, group, resource, namespace, labels, chosen = stream.identity
        identity = (
            streams.c.cluster == cluster,
            streams.c.api_group == group,
            streams.c.resource == resource,
            streams.c.namespace == namespace,
            streams.c.label_selector == labels,
            streams.c.field_selector == chosen,
        )
        served = {"api_version": stream.resource.version, "kind": stream.resource.kind}
        known = await connection.execute(
            sa.update(streams)
            .where(*identity)
            .values(**served, holder=self._lease.token)
            .returning(*STREAM_ROW)
        )
        found = known.first()
        if found is not None:
            return stream_row(found)
        epoch = await self._epoch(connection, cluster)
        made = await connection.execute(
            sa.insert(streams)
            .values(
                cluster=cluster,
                api_group=group,
                resource=resource,
                namespace=namespace,
                label_selector=labels,
                field_selector=chosen,
                **served,
                state=State.PENDING.value,
                epoch=epoch,
                projection="",
                holder=self._lease.token,
                object_count=0,
                unordered=False,
                created_at=self._lease.now(),
                lag_seconds=0.0,
                last_error="",
            )
            .returning(streams.c.stream_id)
        )
        stream_id = made.scalar_one()
        await _adopt(connection, stream, stream_id, adopt)
        opened = await connection.execute(sa.select(*STREAM_ROW).where(streams.c.stream_id == stream_id))
        return stream_row(opened.one())

    async def _epoch(self, connection: AsyncConnection, cluster: str) -> int:
        query = sa.select(clusters.c.epoch).where(clusters.c.name == cluster)
        known: int | None = (await connection.execute(query)).scalar_one_or_none()
        if known is not None:
            return known
        seen = ClusterSeen(name=cluster, uid="", server="", kubernetes_version="")  # not answered yet
        await _insert_cluster(connection, seen, self._lease.now())
        return 1

    async def _next_epoch(self, connection: AsyncConnection, cluster: str, epoch: int, reason: str) -> bool:
        """Distrust, where the cluster's epoch is still this one: nothing of any stream's version is
        believed from here on (mirror.md §7).
        """
        moved = await connection.execute(
            sa.update(clusters)
            .where(clusters.c.name == cluster, clusters.c.epoch == epoch)
            .values(epoch=epoch + 1)
        )
        if moved.rowcount != 1:
            return False
        await connection.execute(
            sa.update(streams)
            .where(streams.c.cluster == cluster)
            .values(
                epoch=epoch + 1,
                state=State.SYNCING.value,
                resource_version=None,
                syncing_since=sa.func.coalesce(
                    streams.c.syncing_since, sa.literal(self._lease.now(), UtcTime)
                ),
                last_error=reason,
            )
        )
        return True


async def _insert_cluster(connection: AsyncConnection, cluster: ClusterSeen, now: Any) -> None:
    await connection.execute(
        sa.insert(clusters).values(
            name=cluster.name,
            uid=cluster.uid,
            weak_uid=cluster.weak,
            server=cluster.server,
            kubernetes_version=cluster.kubernetes_version,
            labels=dict(cluster.labels),
            epoch=1,
            first_seen_at=now,
            last_seen_at=now,
        )
    )


async def _adopt(connection: AsyncConnection, stream: Stream, stream_id: int, adopt: Sequence[int]) -> None:
    """Moves the rows in the stream's namespace from the streams that held them. Those have no version any
    more: what was configured before may be wanted again before they are retired, and begins with a snapshot.
    """
    if not adopt:
        return
    kept = sa.select(streams.c.history).where(streams.c.stream_id.in_(adopt)).distinct()
    histories = list((await connection.execute(kept)).scalars())
    adopted = 0
    for old in sorted(adopt):
        moved = 0
        for table in (quarantine, objects):
            scope = [
                table.c.stream_id == old,
                table.c.cluster == stream.cluster,
                table.c.api_group == stream.resource.group,
                table.c.resource == stream.resource.name,
            ]
            if stream.namespace:
                scope.append(table.c.namespace == stream.namespace)
            result = await connection.execute(sa.update(table).where(*scope).values(stream_id=stream_id))
            moved = result.rowcount
        adopted += moved
        await connection.execute(
            sa.update(streams)
            .where(streams.c.stream_id == old)
            .values(
                object_count=streams.c.object_count - moved,
                resource_version=None,
                state=State.SYNCING.value,
            )
        )
    history = histories[0] if len(histories) == 1 else Record.NONE.value
    await connection.execute(
        sa.update(streams)
        .where(streams.c.stream_id == stream_id)
        .values(object_count=adopted, history=history)
    )
