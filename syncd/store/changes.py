"""The records of changes that a commit writes beside its rows, as SQL text, and the few that stand alone.

A record is made of what passed the guard and of nothing else, in the statement, or at least the transaction,
that moves the row. Reading them in order is `feed`'s.
"""

# ruff: noqa: S608 - statements are rendered from this room's own names; every value is a parameter

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from syncd.core.change import Batch, StreamRow
from syncd.core.history import History, Record, Source
from syncd.core.resource import Cause
from syncd.store.column import UtcTime

CHANGE_COLUMNS = (
    "cluster",
    "api_group",
    "resource",
    "object_key",
    "kind",
    "namespace",
    "name",
    "uid",
    "resource_version",
    "change_type",
    "source",
    "initial",
    "cause",
    "committed_at",
    "changed_paths",
    "object",
)
INSERT = f"INSERT INTO syncd_changes ({', '.join(CHANGE_COLUMNS)})"

_OF_TYPE = ":cluster, :api_group, :resource"


def created(item: str, history: History, *, kind: str = "'created'", paths: str = "NULL") -> str:
    """The values of CHANGE_COLUMNS for what is written from the relation `item`.

    Args:
        kind: an expression for change_type.
        paths: an expression for changed_paths.
    """
    document = f"{item}.object" if history.record is Record.VERSIONS else "NULL"
    return (
        f"{_OF_TYPE}, {item}.object_key, {item}.kind, {item}.namespace, {item}.name, {item}.uid,"
        f" {item}.resource_version, {kind}, :source, :initial, NULL, :now, {paths}, {document}"
    )


def deleted(row: str, version: str, cause: str, document: str) -> str:
    """The values of CHANGE_COLUMNS for a row that leaves; each argument but the first is an expression."""
    return (
        f"{_OF_TYPE}, {row}.object_key, {row}.kind, {row}.namespace, {row}.name, {row}.uid, {version},"
        f" 'deleted', :source, false, {cause}, :now, NULL, {document}"
    )


def source(row: StreamRow, batch: Batch) -> tuple[Source, bool]:
    """How what a batch holds came to be known, and whether it is of the stream's first snapshot: one that was
    never finished has no projection. With a projection and no version, an epoch began.
    """
    if batch.guarded:
        return Source.WATCH, False
    if batch.reconciliation_id is not None:
        return Source.RECONCILE, False
    if not row.projection:
        return Source.SNAPSHOT, True
    return (Source.EPOCH if row.resource_version is None else Source.SNAPSHOT), False


_STREAM = (
    " SELECT o.cluster, o.api_group, o.resource, o.object_key, o.kind, o.namespace, o.name, o.uid,"
    " o.resource_version, {kind}, 'snapshot', {initial}, {cause}, :now, NULL, {document}"
    " FROM syncd_objects o WHERE o.stream_id = :stream_id"
)
_LEAVING = INSERT + _STREAM.format(kind="'deleted'", initial="false", cause=":cause", document="o.object")
_BEGINNING = {
    record: INSERT + _STREAM.format(kind="'created'", initial="true", cause="NULL", document=document)
    for record, document in ((Record.CHANGES, "NULL"), (Record.VERSIONS, "o.object"))
}
# What left the table while nothing was recorded: its last record says that it is there.
_GONE = (
    f"{INSERT} SELECT c.cluster, c.api_group, c.resource, c.object_key, c.kind, c.namespace, c.name, c.uid,"
    " c.resource_version, 'deleted', 'snapshot', false, :cause, :now, NULL, c.object"
    " FROM syncd_changes c JOIN syncd_streams s ON s.stream_id = :stream_id AND s.cluster = c.cluster"
    " AND s.api_group = c.api_group AND s.resource = c.resource"
    " WHERE c.change_type <> 'deleted' AND s.namespace IN ('', c.namespace)"
    " AND NOT EXISTS (SELECT 1 FROM syncd_changes l WHERE l.cluster = c.cluster"
    " AND l.api_group = c.api_group AND l.resource = c.resource AND l.object_key = c.object_key"
    " AND l.sequence > c.sequence)"
    " AND NOT EXISTS (SELECT 1 FROM syncd_objects o WHERE o.cluster = c.cluster"
    " AND o.api_group = c.api_group AND o.resource = c.resource AND o.object_key = c.object_key)"
)


async def begin(connection: AsyncConnection, row: StreamRow, record: Record, now: datetime) -> int:
    """What is there when more than before is recorded of a stream from here on, as the beginning of it; how
    many records. Nothing where the stream is new, or where less is recorded.
    """
    written = 0
    if row.history is Record.NONE and record is not Record.NONE:
        written += await leave_unrecorded(connection, row.stream_id, Cause.SNAPSHOT, now)
    if row.object_count and record is not Record.NONE and row.history not in (record, Record.VERSIONS):
        written += await _execute(connection, _BEGINNING[record], stream_id=row.stream_id, now=now)
    return written


async def leave(connection: AsyncConnection, stream_id: int, cause: Cause, now: datetime) -> int:
    """Every row of a stream leaves; how many records."""
    return await _execute(connection, _LEAVING, stream_id=stream_id, cause=cause.value, now=now)


async def leave_unrecorded(connection: AsyncConnection, stream_id: int, cause: Cause, now: datetime) -> int:
    """What the records have within a stream and the table has not, of a time when nothing was recorded of it;
    how many records. Else whoever replays them would keep it for ever.
    """
    return await _execute(connection, _GONE, stream_id=stream_id, cause=cause.value, now=now)


async def _execute(connection: AsyncConnection, statement: str, **values: Any) -> int:
    text = sa.text(statement).bindparams(sa.bindparam("now", type_=UtcTime))
    return (await connection.execute(text, values)).rowcount
