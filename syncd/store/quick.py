"""PostgreSQL: the commit of a handful of rows as one statement, which is one round trip and a transaction
of its own.

It does what is usual and nothing else: rows come, are overwritten or leave, in one stream. Its fence also
refuses whatever is not usual (another object under the name, a row of another stream, quarantine, a stream's
row that changed since the statement's snapshot), and everything past the fence hangs on its row: unmatched,
nothing is written and nothing is decided. The commit in several statements then does and decides all.
"""

# ruff: noqa: S608 - statements are rendered from this room's own names; every value is a parameter

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import Any

import psycopg

from syncd.core.change import Batch, Committed, StreamRow
from syncd.core.history import History
from syncd.core.resource import State
from syncd.store.changes import INSERT, created, deleted, source
from syncd.store.fence import EXPECTED, HAS_QUARANTINED, MOVES, fence_values
from syncd.store.merge import (
    ITEM_COLUMNS,
    KEEP_HIGHER,
    LEAVING_COLUMNS,
    OBJECT_COLUMNS,
    OVERWRITE,
    OVERWRITE_OLDER,
    TOMBSTONE_COLUMNS,
    columns,
    deletion_values,
    guarding,
    item_values,
    newer,
    not_older,
)
from syncd.store.postgresql import TYPES

SIZES = (0, 1, 2, 4, 8, 16, 32, 64)
"""Rows that a statement has room for: few texts, so that the server plans each once a session."""

_IDENTITY = ("cluster", "api_group", "resource")
_LEAVING = LEAVING_COLUMNS[:-1]
_CASTS = {"stream_id": "bigint", "epoch": "bigint", "unordered": "boolean", "initial": "boolean"}

_OF_TYPE = "{0}.cluster = :cluster AND {0}.api_group = :api_group AND {0}.resource = :resource"
_HELD = f"""
held AS MATERIALIZED (
  SELECT o.object_key, o.stream_id, o.uid, o.resource_version, o.resource_version_number,
    o.first_seen_at, o.committed_at{{document}}
  FROM syncd_objects o
  WHERE {_OF_TYPE.format("o")} AND o.object_key = ANY(ARRAY({{keys}}))
)"""
_DEAD = f"""
dead AS MATERIALIZED (
  SELECT t.object_key, t.resource_version_number FROM syncd_deleted_objects t
  WHERE {_OF_TYPE.format("t")} AND t.object_key = ANY(ARRAY(SELECT object_key FROM incoming))
    AND t.epoch = :epoch AND {guarding("t")}
)"""
_MET = """
met AS MATERIALIZED (
  SELECT i.object_key, o.object_key IS NULL AS fresh
  FROM incoming i LEFT JOIN held o ON o.object_key = i.object_key
  WHERE i.object_key IS NOT NULL {guard}
)"""
_GUARD = (
    f"AND (o.object_key IS NULL OR {newer('i', 'o')}) AND NOT EXISTS (SELECT 1 FROM dead t"
    " WHERE t.object_key = i.object_key AND t.resource_version_number > i.resource_version_number)"
)
_PASSED = """
passed AS MATERIALIZED (
  SELECT l.object_key, o.object_key IS NOT NULL AS removes, o.first_seen_at, o.committed_at
  FROM leaving l LEFT JOIN held o ON o.object_key = l.object_key
  WHERE l.object_key IS NOT NULL {guard}
)"""
_GUARD_LEAVING = f"AND (o.object_key IS NULL OR {not_older('l', 'o')})"
_FENCE = f"""
fence AS (
  UPDATE syncd_streams SET {MOVES}, object_count = object_count + {{gained}}
  WHERE {EXPECTED} AND resource_version IS NOT DISTINCT FROM :expected_version
    AND xmin = (SELECT s.xmin FROM syncd_streams s WHERE s.stream_id = :stream_id)
    AND NOT {HAS_QUARANTINED} {{usual}}
  RETURNING projection, state, resource_version, object_count, unordered, verified_at
)"""
_UNUSUAL = (
    "AND NOT EXISTS (SELECT 1 FROM held o JOIN {0} i ON o.object_key = i.object_key"
    " WHERE o.stream_id <> :stream_id OR o.uid <> i.uid)"
)
_WRITTEN = f"""
written AS (
  INSERT INTO syncd_objects ({columns(OBJECT_COLUMNS)})
  SELECT :cluster, :api_group, :resource, :stream_id, :now, :now, {columns(ITEM_COLUMNS, "i")}
  FROM fence CROSS JOIN met JOIN incoming i ON i.object_key = met.object_key
  {{conflict}}
)"""
_GONE = f"""
gone AS (
  DELETE FROM syncd_objects o WHERE {_OF_TYPE.format("o")} AND o.object_key = ANY(ARRAY(
    SELECT passed.object_key FROM fence CROSS JOIN passed WHERE passed.removes))
)"""
_BURIED = f"""
buried AS (
  INSERT INTO syncd_deleted_objects ({columns(TOMBSTONE_COLUMNS)})
  SELECT :cluster, :api_group, :resource, :stream_id,
    coalesce(o.first_seen_at, :now), coalesce(o.committed_at, :now), {columns(ITEM_COLUMNS, "l")},
    :epoch, l.cause, :now, coalesce(greatest(o.committed_at, :alive), :now)
  FROM fence CROSS JOIN passed o JOIN leaving l ON l.object_key = o.object_key
  {KEEP_HIGHER} RETURNING 1
)"""


_COMPARED = """
compared AS MATERIALIZED (
  SELECT met.object_key, met.fresh, syncd_changed_paths(o.object, i.object, {status}) AS paths
  FROM fence CROSS JOIN met JOIN incoming i ON i.object_key = met.object_key
    LEFT JOIN held o ON o.object_key = met.object_key
)"""
_RECORDED = """
recorded AS (
  {insert} {records} RETURNING 1
)"""
_RECORD_COMING = """SELECT {values} FROM compared JOIN incoming i ON i.object_key = compared.object_key
  WHERE compared.fresh OR compared.paths IS NOT NULL"""
_RECORD_LEAVING = """SELECT {values} FROM fence CROSS JOIN passed o
  JOIN leaving l ON l.object_key = o.object_key WHERE o.removes"""


def is_quick(row: StreamRow, batch: Batch) -> bool:
    """Whether a batch is small and usual enough."""
    largest = SIZES[-1]
    return (
        len(batch.upserts) <= largest
        and len(batch.deletes) <= largest
        and not batch.drift
        and batch.reconciliation_id is None
        and batch.history.record is row.history
        and (batch.projection in (None, row.projection) or not row.projection)
        and all(deletion.item is not None for deletion in batch.deletes)
        and not (
            batch.upserts
            and batch.deletes
            and {item.key for item in batch.upserts} & {one.key for one in batch.deletes}
        )
    )


async def commit(
    raw: psycopg.AsyncConnection[Any],
    identity: tuple[str, str, str],
    row: StreamRow,
    batch: Batch,
    now: datetime,
) -> Committed | None:
    """The whole commit of a batch that `is_quick`; None where nothing was written because the row is not
    as expected or something is not usual.

    Args:
        raw: in autocommit.
        identity: the stream's cluster, group and resource.
    """
    upserts, deletes = len(batch.upserts), len(batch.deletes)
    sizes = _size(upserts), _size(deletes)
    statement, names = _statement(*sizes, batch.guarded, batch.history)
    known = fence_values(row, batch, now) | dict(zip(_IDENTITY, identity, strict=True))
    known["alive"] = row.verified_at
    known["source"], known["initial"] = source(row, batch)
    values = _padded((item_values(item) for item in batch.upserts), sizes[0] - upserts, len(ITEM_COLUMNS))
    values += _padded((deletion_values(one)[:-1] for one in batch.deletes), sizes[1] - deletes, len(_LEAVING))
    values += [known[name] for name in names]
    cursor = psycopg.AsyncRawCursor(raw)
    await cursor.execute(statement, [_text(value) for value in values])
    found = await cursor.fetchone()
    if found is None:
        return None
    projection, state, version, count, unordered, verified, *counts = found
    met, fresh, passed, removed, buried, recorded = counts
    return Committed(
        row=replace(
            row,
            projection=projection,
            state=State(state),
            resource_version=version,
            object_count=count,
            unordered=unordered,
            verified_at=verified,
        ),
        inserted=fresh,
        updated=met - fresh,
        deleted=removed,
        tombstones=buried,
        skipped=upserts - met + deletes - passed,
        recorded=recorded,
    )


def _size(count: int) -> int:
    return next(size for size in SIZES if size >= count)


def _padded(rows: Iterable[tuple[Any, ...]], missing: int, width: int) -> list[Any]:
    return [value for row in rows for value in row] + [None] * (missing * width)


def _text(value: Any) -> str | None:
    """Text alone, whatever the value: a statement is prepared for one list of types."""
    if value is None or type(value) is str:
        return value
    return value.isoformat() if isinstance(value, datetime) else str(value)


@cache
def _statement(upserts: int, deletes: int, guarded: bool, history: History) -> tuple[bytes, tuple[str, ...]]:
    """The text, and the names of the parameters that follow those of the rows."""
    parts: list[str] = []
    if upserts:
        parts.append(_relation("incoming", ITEM_COLUMNS, upserts, 1))
    if deletes:
        parts.append(_relation("leaving", _LEAVING, deletes, 1 + upserts * len(ITEM_COLUMNS)))
    keys = " UNION ALL ".join(
        f"SELECT object_key FROM {name}"
        for name, rows in (("incoming", upserts), ("leaving", deletes))
        if rows
    )
    if keys:
        parts.append(_HELD.format(keys=keys, document=", o.object" if history else ""))
    if upserts:
        parts += [_DEAD] if guarded else []
        parts.append(_MET.format(guard=_GUARD if guarded else ""))
    if deletes:
        parts.append(_PASSED.format(guard=_GUARD_LEAVING if guarded else ""))
    fresh = "(SELECT count(*) FROM met WHERE fresh)" if upserts else "0"
    removed = "(SELECT count(*) FROM passed WHERE removes)" if deletes else "0"
    usual = " ".join(
        _UNUSUAL.format(name) for name, rows in (("incoming", upserts), ("leaving", deletes)) if rows
    )
    parts.append(_FENCE.format(gained=f"{fresh} - {removed}", usual=usual))
    if upserts:
        parts.append(_WRITTEN.format(conflict=OVERWRITE_OLDER if guarded else OVERWRITE))
    if deletes:
        parts += [_GONE, _BURIED]
    recording = history and (upserts or deletes)
    if recording:
        parts += _recording(upserts, deletes, history)
    met = "(SELECT count(*) FROM met)" if upserts else "0"
    passed = "(SELECT count(*) FROM passed)" if deletes else "0"
    buried = "(SELECT count(*) FROM buried)" if deletes else "0"
    recorded = "(SELECT count(*) FROM recorded)" if recording else "0"
    answer = f"SELECT fence.*, {met}, {fresh}, {passed}, {removed}, {buried}, {recorded} FROM fence"
    names: list[str] = []
    first = 1 + upserts * len(ITEM_COLUMNS) + deletes * len(_LEAVING)

    def placeholder(match: re.Match[str]) -> str:
        name = match[1]
        if name not in names:
            names.append(name)
        moment = name in ("now", "alive") or name.endswith("_at")
        return f"${first + names.index(name)}::{_CASTS.get(name, 'timestamptz' if moment else 'text')}"

    text = re.sub(r"(?<!:):([a-z][a-z0-9_]*)", placeholder, f"WITH {','.join(parts)}\n{answer}")
    return text.encode(), tuple(names)


def _recording(upserts: int, deletes: int, history: History) -> list[str]:
    """The relations that write the records of what comes and what leaves."""
    parts, records = [], []
    if upserts:
        parts.append(_COMPARED.format(status=str(history.status).lower()))
        kind = "CASE WHEN compared.fresh THEN 'created' ELSE 'updated' END"
        values = created("i", history, kind=kind, paths="compared.paths")
        records.append(_RECORD_COMING.format(values=values))
    if deletes:
        values = deleted("l", "l.resource_version", "l.cause", "l.object")
        records.append(_RECORD_LEAVING.format(values=values))
    return [*parts, _RECORDED.format(insert=INSERT, records=" UNION ALL ".join(records))]


def _relation(name: str, names: Sequence[str], rows: int, start: int) -> str:
    values = ", ".join(
        "("
        + ", ".join(f"${start + row * len(names) + place}::{TYPES[one]}" for place, one in enumerate(names))
        + ")"
        for row in range(rows)
    )
    return f"\n{name} ({columns(names)}) AS (VALUES {values})"
