"""SQLite's bulk writer: rows go into a temporary table in memory, then a few statements over all of them.

It gets a connection inside a transaction; it cannot commit and sees no checkpoint.
"""

# ruff: noqa: S608 - statements are rendered from this room's own names; every value is a parameter

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any

import aiosqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from syncd.core.change import Deletion
from syncd.core.document import Item
from syncd.core.history import History, changed_paths
from syncd.store.changes import INSERT, created, deleted
from syncd.store.column import time_text
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

TEMPORARY = (
    f"CREATE TEMPORARY TABLE syncd_incoming ({columns(ITEM_COLUMNS)})",
    f"CREATE TEMPORARY TABLE syncd_leaving ({columns(LEAVING_COLUMNS)})",
)
"""What every writing connection is told once."""

# A CROSS JOIN is done in the order in which it is written: the planner, which does not know how few the rows
# of a temporary table are, would read every row of the type instead of looking a few up.
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
    f" FROM syncd_incoming i CROSS JOIN {keyed('syncd_objects', 'o', 'i')} WHERE o.uid <> i.uid"
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
    f" FROM syncd_leaving l CROSS JOIN {keyed('syncd_objects', 'o', 'l')}"
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
    "DELETE FROM syncd_objects WHERE rowid IN (SELECT o.rowid FROM syncd_leaving l"
    f" CROSS JOIN {keyed('syncd_objects', 'o', 'l')} WHERE {_OWN}) RETURNING stream_id"
)


_COMPARED = (
    "SELECT i.rowid AS place, o.uid IS NULL OR o.uid <> i.uid AS fresh,"
    " CASE WHEN o.uid = i.uid THEN syncd_changed_paths(o.object, i.object, {status}) END AS paths"
    f" FROM syncd_incoming i LEFT JOIN {keyed('syncd_objects', 'o', 'i')}"
)
_KIND = "CASE WHEN compared.fresh THEN 'created' ELSE 'updated' END"
_RECORD_REPLACED = (
    f"{INSERT} SELECT {deleted('o', 'i.resource_version', ':replaced', 'o.object')}"
    f" FROM syncd_incoming i CROSS JOIN {keyed('syncd_objects', 'o', 'i')} WHERE o.uid <> i.uid RETURNING 1"
)
_LAST = "CASE WHEN l.has_item AND o.uid = l.uid THEN l.object ELSE o.object END"
_RECORD_LEAVING = (
    f"{INSERT} SELECT {deleted('o', 'l.resource_version', 'l.cause', _LAST)}"
    f" FROM syncd_leaving l CROSS JOIN {keyed('syncd_objects', 'o', 'l')} WHERE {_OWN} RETURNING 1"
)


class SqliteWriter:
    """Implements `BulkWriter`."""

    async def insert(self, connection: AsyncConnection, scope: Scope, items: Sequence[Item]) -> Tally:
        raw = await _raw(connection)
        now = time_text(scope.now)
        head = (scope.cluster, scope.api_group, scope.resource, scope.stream_id, now, now)
        await raw.executemany(_INSERT, [(*head, *_texts(item_values(item))) for item in items])
        tally = Tally(inserted=len(items), gained=len(items))
        if scope.history:
            values = _parameters(scope) | {"keys": json.dumps([item.key for item in items])}
            tally.recorded = await _count(raw, _record(scope.history), values)
        return tally

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
        if scope.history:
            if tally.deleted:
                tally.recorded = await _count(raw, _RECORD_REPLACED, values)
            tally.recorded += await _count(raw, _record_merge(scope.history), values)
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
        if scope.history:
            tally.recorded = await _count(raw, _RECORD_LEAVING, values)
        for statement in (_BURY_ROWS, _BURY_ITEMS):
            tally.tombstones += len(list(await raw.execute_fetchall(statement, values)))
        for (stream_id,) in await raw.execute_fetchall(_REMOVE, values):
            tally.removed(scope, stream_id, 1)
        await raw.execute_fetchall("DELETE FROM syncd_leaving")
        return tally


@cache
def _record(history: History) -> str:
    """Of rows that were just inserted."""
    return (
        f"{INSERT} SELECT {created('o', history)} FROM json_each(:keys) k CROSS JOIN syncd_objects o"
        " ON o.cluster = :cluster AND o.api_group = :api_group AND o.resource = :resource"
        " AND o.object_key = k.value RETURNING 1"
    )


@cache
def _record_merge(history: History) -> str:
    """Of what is about to be merged."""
    compared = _COMPARED.format(status=int(history.status))
    return (
        f"WITH compared AS MATERIALIZED ({compared})"
        f" {INSERT} SELECT {created('i', history, kind=_KIND, paths='compared.paths')}"
        " FROM compared JOIN syncd_incoming i ON i.rowid = compared.place"
        " WHERE compared.fresh OR compared.paths IS NOT NULL RETURNING 1"
    )


async def _count(raw: aiosqlite.Connection, statement: str, values: dict[str, Any]) -> int:
    return len(list(await raw.execute_fetchall(statement, values)))


def paths_of(old: str | None, new: str | None, status: int) -> str | None:
    """`syncd_changed_paths` of this dialect: a JSON array, NULL where nothing that counts differs."""
    if old is None or new is None:
        return None
    try:
        paths = changed_paths(old, new, status=bool(status))
    except (ValueError, ArithmeticError, RecursionError):
        return "[]"  # changed, nobody knows where: as an error of the database it would hold the stream
    return None if paths is None else json.dumps(paths, ensure_ascii=False)


FUNCTIONS = {"syncd_changed_paths": (3, paths_of)}
"""What every writing connection knows besides."""


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
        "source": scope.source.value,
        "initial": scope.initial,
    }


def _texts(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(time_text(value) if isinstance(value, datetime) else value for value in values)
