"""The view `freshness`: the verdict of `core/freshness.py` on every stream, on the database's clock."""

# ruff: noqa: S608 - text is rendered from constants

from __future__ import annotations

from syncd.core.freshness import HEARTBEAT_BOUND, MAX_LAG, VERDICTS, Reason
from syncd.core.relation import Relation, RelationColumn
from syncd.core.resource import State
from syncd.views.expression import Type
from syncd.views.render import quoted

LEASE = "daemon"
"""Whose heartbeat counts: the row of `syncd_leases` that the daemon has."""

_STREAM = (
    ("stream_id", Type.INTEGER, "The stream; every view carries it."),
    ("cluster", Type.TEXT, "The cluster's name in the configuration."),
    ("api_group", Type.TEXT, "The API group, '' for the core group."),
    ("resource", Type.TEXT, "The plural of what it mirrors."),
    ("kind", Type.TEXT, "The kind of what it mirrors."),
    ("namespace", Type.TEXT, "The namespace that it is confined to, '' for all."),
    ("label_selector", Type.TEXT, "The labels that it is confined to, '' for all."),
    ("field_selector", Type.TEXT, "The fields that it is confined to, '' for all."),
)
_REST = (
    ("state", Type.TEXT, "pending, syncing, live, backoff or parked."),
    ("object_count", Type.INTEGER, "Its rows."),
    ("lag_seconds", Type.NUMBER, "The age of the oldest event received and not committed."),
    ("verified_at", Type.TIME, "When it was last known to be level with the API."),
    ("deadline_at", Type.TIME, "By when its watch must have brought something, or been renewed."),
    ("last_event_at", Type.TIME, "When its last event came."),
    ("last_commit_at", Type.TIME, "When its last commit was."),
    ("last_error", Type.TEXT, "What went wrong last, '' when all is well."),
)
_AGES = (
    ("verified_age_seconds", "verified_at", "Seconds since it was last known to be level with the API."),
    ("event_age_seconds", "last_event_at", "Seconds since its last event."),
    ("heartbeat_age_seconds", "heartbeat_at", "Seconds since the daemon was last heard of."),
)


def relation(dialect: str) -> Relation:
    """The view, for `sqlite` or `postgresql`."""
    columns = [RelationColumn(name, kind.value, f"f.{name}", about) for name, kind, about in _STREAM]
    verdict = " ".join(
        f"WHEN {quoted(one.value)} THEN {quoted(then.value)}" for one, then in VERDICTS.items() if one
    )
    columns += [
        RelationColumn(
            "verdict",
            Type.TEXT.value,
            f"CASE f.reason {verdict} ELSE {quoted(VERDICTS[None].value)} END",
            "fresh, stale, syncing, parked or daemon_down: what to think of its rows.",
        ),
        RelationColumn(
            "reason",
            Type.TEXT.value,
            "f.reason",
            "Why it is not fresh: " + ", ".join(Reason) + "; NULL where it is.",
        ),
    ]
    columns += [RelationColumn(name, kind.value, f"f.{name}", about) for name, kind, about in _REST]
    columns += [
        RelationColumn(name, Type.NUMBER.value, _age(f"f.{since}", dialect), about)
        for name, since, about in _AGES
    ]
    columns.append(
        RelationColumn(
            "checked_at", Type.TIME.value, "f.now", "The database's clock, by which all this is so."
        )
    )
    return Relation(
        "freshness",
        f"A row a stream: may its rows be believed? A lag of {MAX_LAG.total_seconds():.0f} s is the bound.",
        tuple(columns),
        f"FROM ({_streams(dialect)}) AS f",
    )


def _streams(dialect: str) -> str:
    names = [name for name, _, _ in (*_STREAM, *_REST)]
    listed = ", ".join(f"s.{name}" for name in names)
    return (
        f"SELECT {listed}, l.heartbeat_at, n.now, CASE {_reasons(dialect)} END AS reason"
        f"\n  FROM syncd_streams s CROSS JOIN (SELECT {_now(dialect)} AS now) AS n"
        f" LEFT JOIN syncd_leases l ON l.name = {quoted(LEASE)}"
    )


def _reasons(dialect: str) -> str:
    states = (Reason.PARKED, Reason.PENDING, Reason.SYNCING, Reason.BACKOFF)
    assert {State(one.value) for one in states} == set(State) - {State.LIVE}
    conditions = {
        Reason.NO_DAEMON: "l.heartbeat_at IS NULL",
        Reason.HEARTBEAT: f"l.heartbeat_at < {_bound(dialect)}",
        **{one: f"s.state = {quoted(one.value)}" for one in states},
        Reason.LAG: f"s.lag_seconds > {MAX_LAG.total_seconds()}",
        Reason.DEADLINE: "s.deadline_at < n.now",
    }
    return " ".join(f"WHEN {conditions[one]} THEN {quoted(one.value)}" for one in Reason)


def _now(dialect: str) -> str:
    """Of the statement: a long transaction's own start says nothing."""
    return "strftime('%Y-%m-%d %H:%M:%f', 'now') || '000'" if dialect == "sqlite" else "statement_timestamp()"


def _bound(dialect: str) -> str:
    seconds = f"{HEARTBEAT_BOUND.total_seconds():.0f} seconds"
    if dialect == "sqlite":
        return f"strftime('%Y-%m-%d %H:%M:%f', n.now, '-{seconds}') || '000'"
    return f"n.now - interval '{seconds}'"


def _age(since: str, dialect: str) -> str:
    if dialect == "sqlite":
        return f"round((julianday(f.now) - julianday({since})) * 86400.0, 3)"
    return f"round(extract(epoch from f.now - {since})::numeric, 3)::double precision"
