"""Reports of reconciles and their findings: rows of syncd_reconciliations and syncd_drift."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from syncd.core.change import Drift
from syncd.core.errors import FenceLost
from syncd.core.ports import Report
from syncd.store.merge import Scope
from syncd.store.schema import drift, reconciliations, streams


async def begin(
    connection: AsyncConnection,
    stream_id: int,
    now: datetime,
    *,
    deep: bool,
    dry_run: bool,
    request_id: int | None,
) -> int:
    """A new report, its id.

    Raises:
        FenceLost: the stream is gone.
    """
    query = sa.select(
        streams.c.stream_id,
        streams.c.cluster,
        streams.c.api_group,
        streams.c.resource,
        streams.c.namespace,
    ).where(streams.c.stream_id == stream_id)
    stream = (await connection.execute(query)).mappings().first()
    if stream is None:
        raise FenceLost(f"stream {stream_id} is gone")
    made = await connection.execute(
        sa.insert(reconciliations)
        .values(
            **stream,
            depth="content" if deep else "version",
            dry_run=dry_run,
            request_id=request_id,
            list_version="",
            checked=0,
            missing=0,
            stale=0,
            ghost=0,
            altered=0,
            repaired=0,
            error="",
            started_at=now,
        )
        .returning(reconciliations.c.reconciliation_id)
    )
    return int(made.scalar_one())


async def finish(connection: AsyncConnection, reconciliation_id: int, report: Report, now: datetime) -> None:
    """The run's figures."""
    await connection.execute(
        sa.update(reconciliations)
        .where(reconciliations.c.reconciliation_id == reconciliation_id)
        .values(
            list_version=report.list_version,
            checked=report.checked,
            missing=report.missing,
            stale=report.stale,
            ghost=report.ghost,
            altered=report.altered,
            repaired=report.repaired,
            error=report.error,
            finished_at=now,
        )
    )


async def record(
    connection: AsyncConnection,
    scope: Scope,
    reconciliation_id: int,
    findings: Sequence[Drift],
    *,
    repaired: bool,
) -> None:
    """A row a finding."""
    await connection.execute(
        sa.insert(drift),
        [
            {
                "reconciliation_id": reconciliation_id,
                "stream_id": scope.stream_id,
                "cluster": scope.cluster,
                "api_group": scope.api_group,
                "resource": scope.resource,
                "object_key": finding.key,
                "namespace": finding.namespace,
                "name": finding.name,
                "uid": finding.uid,
                "finding": finding.kind.value,
                "table_version": finding.table_version,
                "cluster_version": finding.cluster_version,
                "repaired": repaired,
                "found_at": scope.now,
            }
            for finding in findings
        ],
    )
