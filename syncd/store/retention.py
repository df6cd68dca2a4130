"""What grows is purged: in small transactions, each under the lease, so that no commit waits for long."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from syncd.store import expiry
from syncd.store.engine import Engine
from syncd.store.lease import Lease
from syncd.store.schema import deleted_objects, drift, reconciliations, requests, streams

CLEAN_REPORTS = timedelta(days=7)
REPORTS_WITH_FINDINGS = timedelta(days=90)
ANSWERED_REQUESTS = timedelta(days=1)
YOUNGEST_TOMBSTONE = timedelta(hours=1)
"""A tombstone guards against late replays: none younger is purged, whatever is configured."""

BATCH = 500
"""Rows a transaction."""


@dataclass(frozen=True, slots=True)
class Kept:
    """How long records of changes are kept and how many, whatever comes first."""

    age: timedelta = timedelta(days=7)
    rows: int = 1_000_000


async def purge(engine: Engine, lease: Lease, *, keep: timedelta, changes: Kept | None = None) -> int:
    """Removes what is past its retention; how many rows.

    Args:
        keep: how long tombstones are kept, `deleted_objects.keep`.
        changes: of the records of changes; None keeps all.

    Raises:
        FenceLost, StoreUnavailable: as every write.
    """
    now = lease.now()
    total = 0
    for table, condition in (
        (deleted_objects, _old_tombstones(now, keep)),
        (drift, _drift_of_old_reports(now)),
        (reconciliations, _old_reports(now)),
        (requests, requests.c.answered_at < now - ANSWERED_REQUESTS),
    ):
        total += await _purge(engine, lease, table, condition)
    if changes is not None:
        total += await expiry.purge_changes(engine, lease, now - changes.age, changes.rows, BATCH)
    return total


async def _purge(engine: Engine, lease: Lease, table: sa.Table, condition: Any) -> int:
    key = list(table.primary_key.columns)
    some = sa.select(*key).where(condition).limit(BATCH)
    total = 0
    while True:
        async with engine.writing() as connection:
            await lease.hold(connection)
            gone = await connection.execute(
                sa.delete(table).where(sa.tuple_(*key).in_(some) if len(key) > 1 else key[0].in_(some))
            )
        total += gone.rowcount
        if gone.rowcount < BATCH:
            return total


def _old_tombstones(now: datetime, keep: timedelta) -> sa.ColumnElement[bool]:
    """Old enough, and no snapshot or reconcile of the type is under way that began before they were made."""
    dead = deleted_objects.c
    of_type = (
        streams.c.cluster == dead.cluster,
        streams.c.api_group == dead.api_group,
        streams.c.resource == dead.resource,
    )
    snapshot = sa.exists().where(*of_type, streams.c.syncing_since <= dead.deleted_at)
    reconcile = sa.exists().where(
        reconciliations.c.cluster == dead.cluster,
        reconciliations.c.api_group == dead.api_group,
        reconciliations.c.resource == dead.resource,
        reconciliations.c.finished_at.is_(None),
        reconciliations.c.started_at <= dead.deleted_at,
        reconciliations.c.started_at > now - timedelta(days=1),  # an older one ended with its daemon
    )
    return sa.and_(dead.deleted_at < now - max(keep, YOUNGEST_TOMBSTONE), ~snapshot, ~reconcile)


def _old_reports(now: datetime) -> sa.ColumnElement[bool]:
    report = reconciliations.c
    findings = report.missing + report.stale + report.ghost + report.altered
    return sa.or_(
        sa.and_(report.started_at < now - CLEAN_REPORTS, findings == 0),
        report.started_at < now - REPORTS_WITH_FINDINGS,
    )


def _drift_of_old_reports(now: datetime) -> sa.ColumnElement[bool]:
    return drift.c.found_at < now - REPORTS_WITH_FINDINGS
