"""The first statement of every commit: it moves the stream's row where that is what the writer believes.

One text, whatever a batch says of the stream, so that it is built once: NULL leaves a column alone
(mirror.md §2).
"""

# ruff: noqa: S608 - statements are rendered from this room's own names; every value is a parameter

from __future__ import annotations

from dataclasses import fields
from datetime import datetime
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from syncd.core.change import Batch, Marks, StreamRow
from syncd.core.errors import FenceLost
from syncd.store.column import UtcTime
from syncd.store.row import STREAM_ROW
from syncd.store.schema import streams

_MARKS = tuple(mark.name for mark in fields(Marks))
_SAID = ("resource_version", "projection", "state", *_MARKS)

MOVES = (
    "last_commit_at = :now, history = :history, "
    + ", ".join(f"{name} = coalesce(:{name}, {name})" for name in _SAID)
    + ", syncing_since = CASE WHEN :state = 'syncing' THEN coalesce(syncing_since, :now)"
    " WHEN :state = 'live' THEN NULL ELSE syncing_since END"
)
"""What a batch says of its stream, as assignments."""

EXPECTED = "stream_id = :stream_id AND holder = :holder AND epoch = :epoch"
"""What the writer believes, but for the version, which is compared as each dialect can."""

HAS_QUARANTINED = "EXISTS (SELECT 1 FROM syncd_quarantine q WHERE q.stream_id = :stream_id)"

FENCE_NAMES = ("stream_id", "holder", "epoch", "expected_version", "now", "history", *_SAID)
"""The parameters of all this."""

_TYPES = {name: streams.c[name].type for name in ("stream_id", "holder", "epoch", "history", *_SAID)} | {
    "now": UtcTime(),
    "expected_version": sa.Text(),
}


def fence_values(row: StreamRow, batch: Batch, now: datetime) -> dict[str, Any]:
    """The values of FENCE_NAMES."""
    marks = batch.marks
    return {
        "stream_id": row.stream_id,
        "holder": row.holder,
        "epoch": row.epoch,
        "expected_version": row.resource_version,
        "now": now,
        "history": batch.history.record.value,
        "resource_version": batch.resource_version,
        "projection": batch.projection,
        "state": batch.state.value if batch.state is not None else None,
        **{name: getattr(marks, name) for name in _MARKS},
    }


async def move(connection: AsyncConnection, row: StreamRow, batch: Batch, now: datetime) -> Any:
    """Moves the row; the columns of STREAM_ROW, the stream's cluster, api_group and resource, and whether
    it has anything in quarantine: the usual commit asks nothing more.

    Raises:
        FenceLost: the row is not what the writer believes.
    """
    statement = _statement(connection.dialect.name == "sqlite")
    found = (await connection.execute(statement, fence_values(row, batch, now))).first()
    if found is None:
        raise FenceLost(
            f"stream {row.stream_id} is no longer at version {row.resource_version} of this holder"
        )
    return found


@cache
def _statement(on_sqlite: bool) -> sa.TextualSelect:
    same = "IS" if on_sqlite else "IS NOT DISTINCT FROM"
    answer = (*STREAM_ROW, streams.c.cluster, streams.c.api_group, streams.c.resource)
    text = (
        f"UPDATE syncd_streams SET {MOVES} WHERE {EXPECTED} AND resource_version {same} :expected_version"
        f" RETURNING {', '.join(column.name for column in answer)}, {HAS_QUARANTINED} AS quarantined"
    )
    typed = [sa.bindparam(name, type_=_TYPES[name]) for name in FENCE_NAMES]
    return sa.text(text).bindparams(*typed).columns(*answer, sa.column("quarantined", sa.Boolean))
