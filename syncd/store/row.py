"""Reads of the mirror: a stream's row, its objects, its tombstones. Nothing here writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from syncd.core.change import KeyRange, RowVersion, StreamRow, Tombstone
from syncd.core.history import Record
from syncd.core.resource import Cause, State
from syncd.store.schema import deleted_objects, objects, quarantine, streams

CHUNK = 1000
"""Keys a statement: far below every limit on parameters."""

STREAM_ROW = (
    streams.c.stream_id,
    streams.c.holder,
    streams.c.epoch,
    streams.c.projection,
    streams.c.state,
    streams.c.resource_version,
    streams.c.object_count,
    streams.c.unordered,
    streams.c.verified_at,
    streams.c.history,
)


def stream_row(found: Any) -> StreamRow:
    """The fence, from a result that has the columns of STREAM_ROW."""
    return StreamRow(
        stream_id=found.stream_id,
        holder=found.holder,
        epoch=found.epoch,
        projection=found.projection,
        state=State(found.state),
        resource_version=found.resource_version,
        object_count=found.object_count,
        unordered=found.unordered,
        verified_at=found.verified_at,
        history=Record(found.history),
    )


def chunks(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    """The keys, so many at a time."""
    for start in range(0, len(keys), CHUNK):
        yield keys[start : start + CHUNK]


async def read_stream(connection: AsyncConnection, stream_id: int) -> StreamRow | None:
    """The row as it is now."""
    found = (await connection.execute(sa.select(*STREAM_ROW).where(streams.c.stream_id == stream_id))).first()
    return stream_row(found) if found is not None else None


async def read_clusters(connection: AsyncConnection) -> list[str]:
    """The names of the clusters that have streams."""
    query = sa.select(streams.c.cluster).distinct().order_by(streams.c.cluster)
    return list((await connection.execute(query)).scalars())


async def read_rows(
    connection: AsyncConnection, stream_id: int, keys: KeyRange | Sequence[str], *, documents: bool
) -> list[RowVersion]:
    """A stream's rows in byte order of the key; a quarantined object stands in for its row."""
    conditions = [_within(keys)] if isinstance(keys, KeyRange) else [_among(part) for part in chunks(keys)]
    found: dict[str, RowVersion] = {}
    for condition in conditions:
        query = sa.union_all(
            _versions(objects, stream_id, condition, documents),
            _versions(quarantine, stream_id, condition, documents),
        )
        for one in await connection.execute(query):
            row = RowVersion(*one)
            if row.quarantined or row.key not in found:
                found[row.key] = row
    return sorted(found.values(), key=lambda row: row.key.encode())


async def read_newest(connection: AsyncConnection, stream_id: int) -> RowVersion | None:
    """The stream's row with the highest comparable version."""
    number = objects.c.resource_version_number
    query = (
        sa.select(*(objects.c[name] for name in _VERSION))
        .where(objects.c.stream_id == stream_id, number.is_not(None))
        .order_by(number.desc())
        .limit(1)
    )
    found = (await connection.execute(query)).first()
    return RowVersion(*found) if found is not None else None


async def read_tombstones(
    connection: AsyncConnection, row: StreamRow, keys: Sequence[str]
) -> list[Tombstone]:
    """The tombstones of these keys of the row's epoch, newest last."""
    dead = deleted_objects.c
    found: list[Tombstone] = []
    for part in chunks(keys):
        query = (
            sa.select(dead.object_key, dead.uid, dead.resource_version, dead.cause)
            .join(
                streams,
                sa.and_(
                    streams.c.cluster == dead.cluster,
                    streams.c.api_group == dead.api_group,
                    streams.c.resource == dead.resource,
                ),
            )
            .where(streams.c.stream_id == row.stream_id, dead.epoch == row.epoch, dead.object_key.in_(part))
            .order_by(dead.deleted_at, dead.resource_version_number)
        )
        result = await connection.execute(query)
        found.extend(Tombstone(key, uid, version, Cause(cause)) for key, uid, version, cause in result)
    return found


_VERSION = ("object_key", "namespace", "name", "uid", "resource_version")


def _versions(table: sa.Table, stream_id: int, condition: Any, documents: bool) -> sa.Select[Any]:
    document: Any = sa.cast(sa.null(), sa.Text)
    if documents and table is objects:
        document = sa.cast(objects.c.object, sa.Text)
    return sa.select(
        *(table.c[name] for name in _VERSION),
        document.label("document"),
        sa.literal(table is quarantine, sa.Boolean).label("quarantined"),
    ).where(table.c.stream_id == stream_id, condition(table.c.object_key))


def _within(keys: KeyRange) -> Any:
    def condition(key: sa.Column[str]) -> sa.ColumnElement[bool]:
        parts: list[sa.ColumnElement[bool]] = [sa.true()]
        if keys.after is not None:
            parts.append(key > keys.after)
        if keys.upto is not None:
            parts.append(key <= keys.upto)
        return sa.and_(*parts)

    return condition


def _among(keys: Sequence[str]) -> Any:
    return lambda key: key.in_(keys)
