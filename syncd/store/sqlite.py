"""SQLite's bulk writer: rows go into a temporary table in memory, then a few statements over all of them.

It gets a connection inside a transaction; it cannot commit and sees no checkpoint.
"""

# ruff: noqa: S608 - statements are rendered from this room's own names; every value is a parameter

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import aiosqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from syncd.core.change import Deletion
from syncd.core.document import Item
from syncd.store.merge import (
    ITEM_COLUMNS,
    KEEP_HIGHER,
    LEAVING_COLUMNS,
    OBJECT_COLUMNS,
    OVERWRITE,
    OVERWRITE_OLDER,
    TOMBSTONE_COLUMNS,
    Scope,
    Tally,
    barred,
    columns,
    deletion_values,
    item_values,
    keyed,
    newer,
    not_older,
)
from syncd.store.schema import time_text

TEMPORARY = (
    f"CREATE TEMPORARY TABLE syncd_incoming ({columns(ITEM_COLUMNS)})",
    f"CREATE TEMPORARY TABLE syncd_leaving ({columns(LEAVING_COLUMNS)})",
)
"""What every writing connection is told once."""

_CONSTANTS = ":cluster, :api_group, :resource, :stream_id, :now, :now"
_ALIVE = "max(o.committed_at, coalesce(:alive, o.committed_at))"

_STAGE = f"INSERT INTO syncd_incoming VALUES ({', '.join('?' * len(ITEM_COLUMNS))})"
_STAGE_LEAVING = f"INSERT INTO syncd_leaving VALUES ({', '.join('?' * len(LEAVING_COLUMNS))})"
_INSERT = (
    f"INSERT INTO syncd_objects ({columns(OBJECT_COLUMNS)}) VALUES ({', '.join('?' * len(OBJECT_COLUMNS))})"
)

_REFUSE = (
    "DELETE FROM syncd_incoming AS i WHERE "
    f"EXISTS (SELECT 1 FROM syncd_objects o WHERE o.cluster = :cluster AND o.api_group = :api_group"
    f" AND o.resource = :resource AND o.object_key = i.object_key AND NOT {newer('i', 'o')})"
    f" OR {barred('i')}"
)
_COMPARE = (
    "SELECT o.stream_id, o.uid <> i.uid, count(*) FROM syncd_incoming i"
    f" LEFT JOIN {keyed('syncd_objects', 'o', 'i')} GROUP BY 1, 2"
)
_BURY_REPLACED = (
    f"INSERT INTO syncd_deleted_objects ({columns(TOMBSTONE_COLUMNS)})"
    f" SELECT {columns(OBJECT_COLUMNS[:12], 'o')}, i.resource_version, i.resource_version_number,"
    f" {columns(OBJECT_COLUMNS[14:], 'o')}, :epoch, :replaced, :now, {_ALIVE}"
    f" FROM syncd_incoming i JOIN {keyed('syncd_objects', 'o', 'i')} WHERE o.uid <> i.uid"
    f" {KEEP_HIGHER} RETURNING 1"
)
_MERGE = (
    f"INSERT INTO syncd_objects ({columns(OBJECT_COLUMNS)})"
    f" SELECT {_CONSTANTS}, {columns(ITEM_COLUMNS, 'i')} FROM syncd_incoming i WHERE true "
)

_REFUSE_LEAVING = (
    "DELETE FROM syncd_leaving AS l WHERE EXISTS (SELECT 1 FROM syncd_objects o"
    " WHERE o.cluster = :cluster AND o.api_group = :api_group AND o.resource = :resource"
    f" AND o.object_key = l.object_key AND NOT {not_older('l', 'o')}) RETURNING 1"
)
_OWN = "(l.has_item OR o.stream_id = :stream_id)"  # a diff removes its own rows alone (mirror.md §8)
_BURY_ROWS = (
    f"INSERT INTO syncd_deleted_objects ({columns(TOMBSTONE_COLUMNS)})"
    f" SELECT {columns(OBJECT_COLUMNS[:12], 'o')}, l.resource_version, l.resource_version_number,"
    f" {columns(OBJECT_COLUMNS[14:], 'o')}, :epoch, l.cause, :now, {_ALIVE}"
    f" FROM syncd_leaving l JOIN {keyed('syncd_objects', 'o', 'l')}"
    f" WHERE {_OWN} AND (NOT l.has_item OR o.uid <> l.uid)"
    f" {KEEP_HIGHER} RETURNING 1"
)
_BURY_ITEMS = (
    f"INSERT INTO syncd_deleted_objects ({columns(TOMBSTONE_COLUMNS)})"
    " SELECT :cluster, :api_group, :resource, :stream_id,"
    " coalesce(o.first_seen_at, :now), coalesce(o.committed_at, :now),"
    f" {columns(ITEM_COLUMNS, 'l')}, :epoch, l.cause, :now, coalesce({_ALIVE}, :alive, :now)"
    f" FROM syncd_leaving l LEFT JOIN {keyed('syncd_objects', 'o', 'l')} AND o.uid = l.uid"
    f" WHERE l.has_item {KEEP_HIGHER} RETURNING 1"
)
_REMOVE = (
    "DELETE FROM syncd_objects AS o WHERE o.cluster = :cluster AND o.api_group = :api_group"
    " AND o.resource = :resource AND o.object_key IN (SELECT l.object_key FROM syncd_leaving l"
    f" WHERE {_OWN}) RETURNING stream_id"
)


class SqliteWriter:
    """Implements `BulkWriter`."""

    async def insert(self, connection: AsyncConnection, scope: Scope, items: Sequence[Item]) -> Tally:
        raw = await _raw(connection)
        now = time_text(scope.now)
        head = (scope.cluster, scope.api_group, scope.resource, scope.stream_id, now, now)
        await raw.executemany(_INSERT, [(*head, *_texts(item_values(item))) for item in items])
        return Tally(inserted=len(items), gained=len(items))

    async def upsert(self, connection: AsyncConnection, scope: Scope, items: Sequence[Item]) -> Tally:
        raw = await _raw(connection)
        values = _parameters(scope)
        await raw.executemany(_STAGE, [_texts(item_values(item)) for item in items])
        if scope.guarded:
            await raw.execute_fetchall(_REFUSE, values)
        tally = Tally()
        for stream_id, replaced, count in await raw.execute_fetchall(_COMPARE, values):
            tally.met(scope, stream_id, bool(replaced), count)
        tally.skipped = len(items) - tally.inserted - tally.updated
        if tally.deleted:
            tally.tombstones = len(list(await raw.execute_fetchall(_BURY_REPLACED, values)))
        await raw.execute_fetchall(_MERGE + (OVERWRITE_OLDER if scope.guarded else OVERWRITE), values)
        await raw.execute_fetchall("DELETE FROM syncd_incoming")
        return tally

    async def delete(self, connection: AsyncConnection, scope: Scope, deletions: Sequence[Deletion]) -> Tally:
        raw = await _raw(connection)
        values = _parameters(scope)
        tally = Tally()
        await raw.executemany(_STAGE_LEAVING, [_texts(deletion_values(one)) for one in deletions])
        if scope.guarded:
            tally.skipped = len(list(await raw.execute_fetchall(_REFUSE_LEAVING, values)))
        for statement in (_BURY_ROWS, _BURY_ITEMS):
            tally.tombstones += len(list(await raw.execute_fetchall(statement, values)))
        for (stream_id,) in await raw.execute_fetchall(_REMOVE, values):
            tally.removed(scope, stream_id, 1)
        await raw.execute_fetchall("DELETE FROM syncd_leaving")
        return tally


async def _raw(connection: AsyncConnection) -> aiosqlite.Connection:
    raw = (await connection.get_raw_connection()).driver_connection
    assert isinstance(raw, aiosqlite.Connection)
    return raw


def _parameters(scope: Scope) -> dict[str, Any]:
    return {
        "cluster": scope.cluster,
        "api_group": scope.api_group,
        "resource": scope.resource,
        "stream_id": scope.stream_id,
        "epoch": scope.epoch,
        "replaced": scope.replaced.value,
        "now": time_text(scope.now),
        "alive": time_text(scope.alive) if scope.alive else None,
    }


def _texts(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(time_text(value) if isinstance(value, datetime) else value for value in values)
