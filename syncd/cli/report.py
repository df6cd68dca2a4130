"""What is printed of results: status and reconcile reports, as tables or JSON."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from syncd.cli.options import json_text
from syncd.core.freshness import Sign, Verdict, verdict
from syncd.core.selection import NOT_ALL
from syncd.store.feed import MOST_BEHIND

if TYPE_CHECKING:
    from syncd.app.reconciling import Run
    from syncd.store.status import Status, StreamStatus

_COUNTS = ("checked", "missing", "stale", "ghost", "altered", "repaired")


def console() -> Console:
    """Stdout, never narrower than a table needs where nobody looks. Brackets of selectors and errors
    are text, and no markup.
    """
    plain = Console(markup=False, emoji=False)
    return plain if plain.is_terminal else Console(width=200, no_color=True, markup=False, emoji=False)


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
    out, found, lease = console(), verdicts(status, max_lag), status.lease
    if lease is None:
        out.print("daemon: none holds this database", highlight=False)
    else:
        beat = _age(status.database_now, lease.heartbeat_at)
        out.print(
            f"daemon: {lease.host} pid {lease.pid}, syncd {lease.version}, "
            f"since {_moment(lease.since)}, heartbeat {beat} ago",
            highlight=False,
        )
    for cluster in status.clusters:
        if cluster.last_error:
            away = "" if cluster.last_error.startswith(NOT_ALL) else "out of reach: "
            out.print(f"{cluster.name}: {away}{cluster.last_error}", highlight=False)
    table = Table(
        "stream", "verdict", "objects", "version", "lag", "verified", "error", box=None, pad_edge=False
    )
    for stream in status.streams:
        error = stream.last_error or (f"{stream.quarantined} in quarantine" if stream.quarantined else "")
        table.add_row(
            _name(stream),
            f"{found[stream.stream_id].value} ({stream.state.value})",
            str(stream.object_count),
            stream.resource_version or "",
            f"{stream.lag_seconds:.1f}s",
            _age(status.database_now, stream.verified_at),
            error,
        )
    out.print(table, highlight=False)
    for cursor in status.cursors:
        more = " or more" if cursor.behind >= MOST_BEHIND else ""
        age = _age(status.database_now, cursor.updated_at)
        out.print(f"{cursor.name}: {cursor.behind}{more} changes behind, moved {age} ago", highlight=False)


def print_run(run: Run, *, dry_run: bool) -> None:
    """A row a stream that was reconciled, and what it comes to."""
    out = console()
    table = Table("stream", *_COUNTS, "error", box=None, pad_edge=False)
    for report in run.reports:
        table.add_row(report["stream"], *(str(report[name]) for name in _COUNTS), report["error"])
    out.print(table, highlight=False)
    found = "no drift" if not run.drift else f"drift in {run.drift} rows"
    done = "" if not run.drift else ", nothing changed (dry run)" if dry_run else f", {run.left} left"
    out.print(f"{run.checked} objects checked in {run.done} streams: {found}{done}", highlight=False)


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
