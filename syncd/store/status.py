"""What the tables say, in one read-only transaction: for `syncd status`, /status and /readyz."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from syncd.core.resource import State
from syncd.store import feed
from syncd.store.engine import Engine
from syncd.store.feed import CursorStatus
from syncd.store.lease import NAME, database_now
from syncd.store.schema import clusters, leases, quarantine, reconciliations, streams


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """A row of syncd_clusters."""

    name: str
    uid: str
    server: str
    kubernetes_version: str
    labels: Mapping[str, str]
    epoch: int
    last_seen_at: datetime
    last_error: str


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """A row of syncd_streams; `quarantined` counts its rows there."""

    stream_id: int
    cluster: str
    api_group: str
    api_version: str
    resource: str
    namespace: str
    label_selector: str
    field_selector: str
    state: State
    resource_version: str | None
    epoch: int
    object_count: int
    last_event_at: datetime | None
    last_bookmark_at: datetime | None
    last_commit_at: datetime | None
    last_list_at: datetime | None
    verified_at: datetime | None
    deadline_at: datetime | None
    lag_seconds: float
    last_error: str
    quarantined: int


@dataclass(frozen=True, slots=True)
class LeaseStatus:
    """Who has the database."""

    host: str
    pid: int
    version: str
    since: datetime
    heartbeat_at: datetime


@dataclass(frozen=True, slots=True)
class ReconciliationStatus:
    """A stream's last report."""

    reconciliation_id: int
    stream_id: int
    depth: str
    dry_run: bool
    checked: int
    missing: int
    stale: int
    ghost: int
    altered: int
    repaired: int
    error: str
    started_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class Status:
    """All of it, as of `database_now`; `lease` None: no daemon."""

    database_now: datetime
    lease: LeaseStatus | None
    clusters: tuple[ClusterStatus, ...]
    streams: tuple[StreamStatus, ...]
    reconciliations: tuple[ReconciliationStatus, ...]
    cursors: tuple[CursorStatus, ...]


async def read_status(connection: AsyncConnection, engine: Engine) -> Status:
    """Reads the small tables only; no object, and of the changes no more than are counted."""
    count = (
        sa.select(quarantine.c.stream_id, sa.func.count().label("quarantined"))
        .group_by(quarantine.c.stream_id)
        .subquery()
    )
    order = (streams.c.cluster, streams.c.api_group, streams.c.resource, streams.c.namespace)
    known = (
        sa.select(
            *(streams.c[name] for name in StreamStatus.__slots__ if name != "quarantined"),
            sa.func.coalesce(count.c.quarantined, 0).label("quarantined"),
        )
        .outerjoin(count, count.c.stream_id == streams.c.stream_id)
        .order_by(*order, streams.c.stream_id)
    )
    last = sa.select(sa.func.max(reconciliations.c.reconciliation_id)).group_by(reconciliations.c.stream_id)
    reports = (
        sa.select(*(reconciliations.c[name] for name in ReconciliationStatus.__slots__))
        .where(reconciliations.c.reconciliation_id.in_(last))
        .order_by(reconciliations.c.stream_id)
    )
    seen = sa.select(*(clusters.c[name] for name in ClusterStatus.__slots__)).order_by(clusters.c.name)
    held = sa.select(*(leases.c[name] for name in LeaseStatus.__slots__)).where(leases.c.name == NAME)
    lease = (await connection.execute(held)).first()
    return Status(
        database_now=await database_now(connection, engine),
        lease=LeaseStatus(*lease) if lease is not None else None,
        clusters=tuple(ClusterStatus(*found) for found in await connection.execute(seen)),
        streams=tuple(
            StreamStatus(**{**found, "state": State(found["state"])})
            for found in (await connection.execute(known)).mappings()
        ),
        reconciliations=tuple(ReconciliationStatus(*found) for found in await connection.execute(reports)),
        cursors=tuple(await feed.readers(connection)),
    )
