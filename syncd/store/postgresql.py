"""PostgreSQL's bulk writer: a few rows as one multi-row VALUES, many by COPY into a temporary table; in
both cases one statement then does the whole merge.

It gets a connection inside a transaction; it cannot commit and sees no checkpoint.
"""

# ruff: noqa: S608 - statements are rendered from this room's own names; every value is a parameter

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import psycopg
from sqlalchemy.ext.asyncio import AsyncConnection

from syncd.core.change import Deletion
from syncd.core.document import Item
from syncd.core.history import History
from syncd.store.changes import INSERT, created, deleted
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
    columns,
    deletion_values,
    guarding,
    item_values,
    newer,
    not_older,
)

FEW = 50
"""Up to so many rows one VALUES list is quicker than a COPY and its temporary table."""

TYPES = dict.fromkeys(LEAVING_COLUMNS, "text") | {
    "object_key": 'text COLLATE "C"',
    "resource_version_number": "bigint",
    "generation": "bigint",
    "creation_timestamp": "timestamptz",
    "deletion_timestamp": "timestamptz",
    "labels": "jsonb",
    "annotations": "jsonb",
    "object": "jsonb",
    "has_item": "boolean",
}
_ALIVE = "greatest(o.committed_at, :alive::timestamptz)"  # a NULL is passed over

# Rows are looked up by an array of keys, which is an index scan whatever the planner believes of a relation
# that it has no statistics of; a join would read the whole table (108 ms a page of 500 beside 100,000 rows).
_OF_TYPE = "{0}.cluster = :cluster AND {0}.api_group = :api_group AND {0}.resource = :resource"
_HELD = f"""
held AS MATERIALIZED (
  SELECT {columns(OBJECT_COLUMNS, "o")} FROM syncd_objects o
  WHERE {_OF_TYPE.format("o")} AND o.object_key = ANY(ARRAY(SELECT object_key FROM {{incoming}}))
)"""
_DEAD = f"""
, dead AS MATERIALIZED (
  SELECT t.object_key, t.resource_version_number FROM syncd_deleted_objects t
  WHERE {_OF_TYPE.format("t")} AND t.object_key = ANY(ARRAY(SELECT object_key FROM {{incoming}}))
    AND t.epoch = :epoch AND {guarding("t")}
)"""

_UPSERT = f"""
WITH {{source}} {{held}} {{dead}}
, met AS (
  SELECT i.object_key, o.stream_id, o.uid <> i.uid AS replaced
  FROM {{incoming}} i LEFT JOIN held o ON o.object_key = i.object_key
  {{guard}}
), buried AS (
  INSERT INTO syncd_deleted_objects ({columns(TOMBSTONE_COLUMNS)})
  SELECT {columns(OBJECT_COLUMNS[:12], "o")}, i.resource_version, i.resource_version_number,
    {columns(OBJECT_COLUMNS[14:], "o")}, :epoch::bigint, :replaced, :now::timestamptz, {_ALIVE}
  FROM met JOIN {{incoming}} i ON i.object_key = met.object_key JOIN held o ON o.object_key = met.object_key
  WHERE met.replaced
  {KEEP_HIGHER} RETURNING 1
), written AS (
  INSERT INTO syncd_objects ({columns(OBJECT_COLUMNS)})
  SELECT :cluster, :api_group, :resource, :stream_id::bigint, :now::timestamptz, :now::timestamptz,
    {columns(ITEM_COLUMNS, "i")}
  FROM met JOIN {{incoming}} i ON i.object_key = met.object_key
  {{conflict}} RETURNING object_key
) {{recorded}}
SELECT met.stream_id, met.replaced, count(*), (SELECT count(*) FROM buried), {{count}}
FROM written JOIN met ON met.object_key = written.object_key GROUP BY 1, 2
"""
_RECORDED = """
, compared AS MATERIALIZED (
  SELECT met.object_key, met.stream_id IS NULL OR met.replaced AS fresh, met.replaced,
    CASE WHEN NOT met.replaced THEN syncd_changed_paths(o.object, i.object, {status}) END AS paths
  FROM met JOIN {incoming} i ON i.object_key = met.object_key
    LEFT JOIN held o ON o.object_key = met.object_key
), recorded AS (
  {insert}
  SELECT {gone} FROM compared JOIN {incoming} i ON i.object_key = compared.object_key
    JOIN held o ON o.object_key = compared.object_key
  WHERE compared.replaced
  UNION ALL
  SELECT {come} FROM compared JOIN {incoming} i ON i.object_key = compared.object_key
  WHERE compared.fresh OR compared.paths IS NOT NULL
  RETURNING 1
)"""
_GUARD = (
    f"WHERE (o.object_key IS NULL OR {newer('i', 'o')}) AND NOT EXISTS (SELECT 1 FROM dead t"
    " WHERE t.object_key = i.object_key AND t.resource_version_number > i.resource_version_number)"
)

_DELETE = f"""
WITH {{source}} {{held}}
, passed AS (
  SELECT l.object_key, (l.has_item OR o.stream_id = :stream_id::bigint) AS removes
  FROM {{incoming}} l LEFT JOIN held o ON o.object_key = l.object_key
  {{guard}}
), gone AS (
  DELETE FROM syncd_objects o
  WHERE {_OF_TYPE.format("o")} AND o.object_key = ANY(ARRAY(SELECT object_key FROM passed WHERE removes))
  RETURNING {columns(OBJECT_COLUMNS, "o")}
), buried AS (
  INSERT INTO syncd_deleted_objects ({columns(TOMBSTONE_COLUMNS)})
  SELECT {columns(OBJECT_COLUMNS[:12], "o")}, l.resource_version, l.resource_version_number,
    {columns(OBJECT_COLUMNS[14:], "o")}, :epoch::bigint, l.cause, :now::timestamptz, {_ALIVE}
  FROM gone o JOIN {{incoming}} l ON l.object_key = o.object_key WHERE NOT l.has_item OR o.uid <> l.uid
  UNION ALL
  SELECT :cluster, :api_group, :resource, :stream_id::bigint,
    coalesce(o.first_seen_at, :now::timestamptz), coalesce(o.committed_at, :now::timestamptz),
    {columns(ITEM_COLUMNS, "l")}, :epoch::bigint, l.cause, :now::timestamptz,
    coalesce({_ALIVE}, :now::timestamptz)
  FROM passed JOIN {{incoming}} l ON l.object_key = passed.object_key
    LEFT JOIN gone o ON o.object_key = l.object_key AND o.uid = l.uid
  WHERE l.has_item
  {KEEP_HIGHER} RETURNING 1
) {{recorded}}
SELECT stream_id, count(*) FROM gone GROUP BY stream_id
UNION ALL SELECT -1, count(*) FROM buried
UNION ALL SELECT -2, count(*) FROM passed
"""
_RECORDED_LEAVING = """
, recorded AS (
  {insert}
  SELECT {gone} FROM gone o JOIN {incoming} l ON l.object_key = o.object_key
)"""
_GUARD_LEAVING = f"WHERE o.object_key IS NULL OR {not_older('l', 'o')}"


class PostgresqlWriter:
    """Implements `BulkWriter`."""

    async def insert(self, connection: AsyncConnection, scope: Scope, items: Sequence[Item]) -> Tally:
        raw = await _raw(connection)
        head = (scope.cluster, scope.api_group, scope.resource, scope.stream_id, scope.now, scope.now)
        async with (
            raw.cursor() as cursor,
            cursor.copy(f"COPY syncd_objects ({columns(OBJECT_COLUMNS)}) FROM STDIN") as copy,
        ):
            for item in items:
                await copy.write_row((*head, *item_values(item)))
        tally = Tally(inserted=len(items), gained=len(items))
        if scope.history:
            values = _parameters(scope, ()) | {"keys": [item.key for item in items]}
            tally.recorded = (await raw.execute(_record(scope.history), values)).rowcount
        return tally

    async def upsert(self, connection: AsyncConnection, scope: Scope, items: Sequence[Item]) -> Tally:
        rows = [item_values(item) for item in items]
        raw = await _raw(connection)
        tally = Tally()
        few = await _stage(raw, "syncd_incoming", ITEM_COLUMNS, rows)
        statement = _upsert(few, scope.guarded, scope.history)
        cursor = await raw.execute(statement, _parameters(scope, rows if few else ()))
        for stream_id, replaced, count, buried, recorded in await cursor.fetchall():
            tally.met(scope, stream_id, bool(replaced), count)
            tally.tombstones = buried
            tally.recorded = recorded
        tally.skipped = len(items) - tally.inserted - tally.updated
        return tally

    async def delete(self, connection: AsyncConnection, scope: Scope, deletions: Sequence[Deletion]) -> Tally:
        rows = [deletion_values(deletion) for deletion in deletions]
        raw = await _raw(connection)
        tally = Tally()
        few = await _stage(raw, "syncd_leaving", LEAVING_COLUMNS, rows)
        statement = _delete(few, scope.guarded, scope.history)
        cursor = await raw.execute(statement, _parameters(scope, rows if few else ()))
        for stream_id, count in await cursor.fetchall():
            if stream_id == -1:
                tally.tombstones = count
            elif stream_id == -2:
                tally.skipped = len(deletions) - count
            else:
                tally.removed(scope, stream_id, count)
        tally.recorded = tally.deleted if scope.history else 0
        return tally


async def _raw(connection: AsyncConnection) -> psycopg.AsyncConnection[Any]:
    raw = (await connection.get_raw_connection()).driver_connection
    assert isinstance(raw, psycopg.AsyncConnection)
    return raw


async def _stage(
    raw: psycopg.AsyncConnection[Any], table: str, names: Sequence[str], rows: Sequence[tuple[Any, ...]]
) -> int:
    """Fills the temporary table where there are many rows; else answers how many the statement carries."""
    if len(rows) <= FEW:
        return len(rows)
    definition = ", ".join(f"{name} {TYPES[name]}" for name in names)
    # Made once a session, so that the catalogue does not grow; the DELETE is for a batch split by savepoints,
    # which stages more than once in a transaction. Loops over relations without statistics are quadratic.
    await raw.execute(
        "SET LOCAL enable_nestloop = off;"
        f" CREATE TEMPORARY TABLE IF NOT EXISTS {table} ({definition}) ON COMMIT DELETE ROWS;"
        f" DELETE FROM pg_temp.{table}"
    )
    async with raw.cursor() as cursor, cursor.copy(f"COPY pg_temp.{table} FROM STDIN") as copy:
        for row in rows:
            await copy.write_row(row)
    return 0


@cache
def _record(history: History) -> bytes:
    """Of rows that were just inserted."""
    return _statement(
        f"{INSERT} SELECT {created('o', history)} FROM syncd_objects o"
        f" WHERE {_OF_TYPE.format('o')} AND o.object_key = ANY(:keys)"
    )


@cache
def _upsert(few: int, guarded: bool, history: History) -> bytes:
    incoming = "incoming" if few else "pg_temp.syncd_incoming"
    kind = "CASE WHEN compared.fresh THEN 'created' ELSE 'updated' END"
    recorded = _RECORDED.format(
        status=str(history.status).lower(),
        incoming=incoming,
        insert=INSERT,
        gone=deleted("o", "i.resource_version", ":replaced", "o.object"),
        come=created("i", history, kind=kind, paths="compared.paths"),
    )
    return _statement(
        _UPSERT.format(
            source=_values("incoming", ITEM_COLUMNS, few),
            incoming=incoming,
            held=_HELD.format(incoming=incoming),
            dead=_DEAD.format(incoming=incoming) if guarded else "",
            guard=_GUARD if guarded else "",
            conflict=OVERWRITE_OLDER if guarded else OVERWRITE,
            recorded=recorded if history else "",
            count="(SELECT count(*) FROM recorded)" if history else "0",
        )
    )


@cache
def _delete(few: int, guarded: bool, history: History) -> bytes:
    incoming = "incoming" if few else "pg_temp.syncd_leaving"
    document = "CASE WHEN l.has_item AND o.uid = l.uid THEN l.object ELSE o.object END"
    recorded = _RECORDED_LEAVING.format(
        insert=INSERT, gone=deleted("o", "l.resource_version", "l.cause", document), incoming=incoming
    )
    return _statement(
        _DELETE.format(
            source=_values("incoming", LEAVING_COLUMNS, few),
            incoming=incoming,
            held=_HELD.format(incoming=incoming),
            guard=_GUARD_LEAVING if guarded else "",
            recorded=recorded if history else "",
        )
    )


def _values(name: str, names: Sequence[str], count: int) -> str:
    if not count:
        return ""
    rows = ", ".join(
        "(" + ", ".join(f":v{row}_{place}::{TYPES[one]}" for place, one in enumerate(names)) + ")"
        for row in range(count)
    )
    return f"{name} ({columns(names)}) AS (VALUES {rows}),"


def _statement(text: str) -> bytes:
    """`:name`, but no `::cast`, becomes psycopg's `%(name)s`."""
    return re.sub(r"(?<!:):([a-z][a-z0-9_]*)", r"%(\1)s", text).encode()


def _parameters(scope: Scope, rows: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    values = {f"v{row}_{place}": value for row, one in enumerate(rows) for place, value in enumerate(one)}
    return values | {
        "cluster": scope.cluster,
        "api_group": scope.api_group,
        "resource": scope.resource,
        "stream_id": scope.stream_id,
        "epoch": scope.epoch,
        "replaced": scope.replaced.value,
        "now": scope.now,
        "alive": scope.alive,
        "source": scope.source.value,
        "initial": scope.initial,
    }
