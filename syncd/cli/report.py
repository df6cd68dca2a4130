"""What is printed of results: status and reconcile reports, as tables or JSON."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import typer

from syncd.app.quantity import counted
from syncd.cli.columns import columns
from syncd.cli.options import json_text
from syncd.core.freshness import Sign, Verdict, verdict
from syncd.core.selection import NOT_ALL
from syncd.store.feed import MOST_BEHIND

if TYPE_CHECKING:
    from syncd.app.reconciling import Run
    from syncd.store.status import Status, StreamStatus

_COUNTS = ("checked", "missing", "stale", "ghost", "altered", "repaired")


def verdicts(status: Status, max_lag: timedelta) -> dict[int, Verdict]:
    """The verdict on each stream, by its id."""
    heartbeat = status.lease.heartbeat_at if status.lease else None
    return {
        stream.stream_id: verdict(
            Sign(stream.state, timedelta(seconds=stream.lag_seconds), stream.deadline_at, heartbeat),
            status.database_now,
            max_lag,
        )
        for stream in status.streams
    }


def status_json(status: Status, max_lag: timedelta) -> str:
    """Everything, for machines."""
    found = verdicts(status, max_lag)
    lease = status.lease
    document = {
        "database_now": status.database_now,
        "daemon": lease and {name: getattr(lease, name) for name in lease.__slots__},
        "clusters": [{name: getattr(c, name) for name in c.__slots__} for c in status.clusters],
        "streams": [
            {"verdict": found[s.stream_id], **{name: getattr(s, name) for name in s.__slots__}}
            for s in status.streams
        ],
        "reconciliations": [{name: getattr(r, name) for name in r.__slots__} for r in status.reconciliations],
        "cursors": [{name: getattr(c, name) for name in c.__slots__} for c in status.cursors],
    }
    return json.dumps(document, default=json_text, indent=2)


def print_status(status: Status, max_lag: timedelta) -> None:
    """A line for the daemon, a row a stream."""
    found, lease = verdicts(status, max_lag), status.lease
    if lease is None:
        typer.echo("daemon: none holds this database")
    else:
        beat = _age(status.database_now, lease.heartbeat_at)
        typer.echo(
            f"daemon: {lease.host} pid {lease.pid}, syncd {lease.version}, "
            f"since {_moment(lease.since)}, heartbeat {beat} ago"
        )
    for cluster in status.clusters:
        if cluster.last_error:
            away = "" if cluster.last_error.startswith(NOT_ALL) else "out of reach: "
            typer.echo(f"{cluster.name}: {away}{cluster.last_error}")
    rows = [("stream", "verdict", "objects", "version", "lag", "verified", "error")]
    for stream in status.streams:
        error = stream.last_error or (f"{stream.quarantined} in quarantine" if stream.quarantined else "")
        rows.append(
            (
                _name(stream),
                f"{found[stream.stream_id].value} ({stream.state.value})",
                str(stream.object_count),
                stream.resource_version or "",
                f"{stream.lag_seconds:.1f}s",
                _age(status.database_now, stream.verified_at),
                error,
            )
        )
    typer.echo(columns(rows))
    for cursor in status.cursors:
        more = " or more" if cursor.behind >= MOST_BEHIND else ""
        age = _age(status.database_now, cursor.updated_at)
        typer.echo(f"{cursor.name}: {cursor.behind}{more} changes behind, moved {age} ago")


def print_run(run: Run, *, dry_run: bool) -> None:
    """A row a stream that was reconciled, and what it comes to."""
    names = ("stream", *_COUNTS, "error")
    typer.echo(columns([names, *([str(report[name]) for name in names] for report in run.reports)]))
    found = f"drift in {counted(run.drift, 'row')}" if run.drift else "no drift"
    done = "" if not run.drift else ", nothing changed (dry run)" if dry_run else f", {run.left} left"
    typer.echo(f"{counted(run.checked, 'object')} checked in {counted(run.done, 'stream')}: {found}{done}")


def run_json(run: Run) -> str:
    """The report, for machines."""
    return json.dumps({**run.as_json(), "drift": run.drift, "left": run.left}, default=json_text, indent=2)


def _name(stream: StreamStatus) -> str:
    resource = f"{stream.resource}.{stream.api_group}" if stream.api_group else stream.resource
    scope = f" in {stream.namespace}" if stream.namespace else ""
    chosen = ",".join(filter(None, (stream.label_selector, stream.field_selector)))
    return f"{stream.cluster}: {resource}{scope}{f' [{chosen}]' if chosen else ''}"


def _age(now: datetime, then: datetime | None) -> str:
    if then is None:
        return ""
    seconds = max(0.0, (now - then).total_seconds())
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.0f}s"


def _moment(then: datetime) -> str:
    return then.strftime("%Y-%m-%d %H:%M:%S UTC")
