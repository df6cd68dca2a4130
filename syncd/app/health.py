"""How a running daemon is: what `/livez`, `/readyz` and `/status` answer."""

from __future__ import annotations

from typing import Any

from syncd import __version__
from syncd.app.daemon import Daemon
from syncd.app.sinks import Delivery
from syncd.core.resource import State
from syncd.server import Probes, Readiness
from syncd.sync.reflector import Reflector


def probes(daemon: Daemon) -> Probes:
    """The daemon as the HTTP server asks for it."""
    return Probes(
        alive=lambda: not daemon.stopped.is_set(),
        ready=lambda strict: ready(daemon, strict),
        status=lambda: status(daemon),
        metrics=daemon.metrics.render,
    )


def ready(daemon: Daemon, strict: bool) -> Readiness:
    """Whether each stream has finished its first snapshot, or cannot for now; strictly, is live."""
    reasons = [
        f"{supervisor.settings.name}: {supervisor.error or 'not asked yet'}"
        for supervisor in daemon.supervisors
        if not supervisor.planned.is_set() and (strict or not supervisor.error)
    ]
    for reflector in daemon.reflectors:
        progress = reflector.progress
        resting = progress.state in (State.PARKED, State.BACKOFF)
        if not (progress.state is State.LIVE or (not strict and (progress.synced or resting))):
            detail = f" ({progress.error})" if progress.error else ""
            reasons.append(f"{reflector.stream}: {progress.state.value}{detail}")
    return Readiness(not reasons, tuple(reasons))


def status(daemon: Daemon) -> dict[str, Any]:
    """The daemon's own view, as JSON values; the database's is `syncd status`."""
    return {
        "version": __version__,
        "database": daemon.config.database.shown,
        "configuration": {
            "file": daemon.standing.file,
            "valid": not daemon.standing.error,
            "error": daemon.standing.error,
        },
        "clusters": [
            {
                "cluster": supervisor.settings.name,
                "error": supervisor.error,
                "problems": list(supervisor.problems),
                "streams": [_stream(reflector) for reflector in supervisor.reflectors],
            }
            for supervisor in daemon.supervisors
        ],
        "sinks": [_sink(delivery) for delivery in daemon.sinks.deliveries] if daemon.sinks else [],
    }


def _sink(delivery: Delivery) -> dict[str, Any]:
    return {
        "sink": delivery.settings.name,
        "delivered": delivery.delivered,
        "lag_seconds": round(delivery.lag(), 3),
        "error": delivery.error,
    }


def _stream(reflector: Reflector) -> dict[str, Any]:
    row = reflector.row
    return {
        "resource": reflector.stream.resource.qualified,
        "api_version": reflector.stream.resource.api_version,
        "namespace": reflector.stream.namespace,
        "label_selector": reflector.stream.label_selector,
        "field_selector": reflector.stream.field_selector,
        "state": reflector.progress.state.value,
        "error": reflector.progress.error,
        "resource_version": row.resource_version if row else None,
        "objects": row.object_count if row else 0,
        "lag_seconds": round(reflector.lag(), 3),
        "queued_bytes": reflector.inbox.size,
        "held": reflector.held,
    }
