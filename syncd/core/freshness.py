"""Fresh or stale: the verdict on one stream, from what the database says, on the database's clock.

A quiet stream is not stale, and a dead daemon is not fresh (mirror.md §11).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from syncd.core.resource import State

HEARTBEAT_BOUND = timedelta(seconds=15)
"""A daemon whose heartbeat is older has lost its lease; nothing it mirrors counts as fresh."""


class Verdict(StrEnum):
    """What a consumer may think of a stream's rows."""

    FRESH = "fresh"
    STALE = "stale"
    SYNCING = "syncing"
    PARKED = "parked"
    DAEMON_DOWN = "daemon_down"


@dataclass(frozen=True, slots=True)
class Sign:
    """What the verdict rests on.

    Attributes:
        heartbeat_at: of the lease, None where nobody holds it.
        deadline_at: by when the stream's watch must have brought something or been renewed.
    """

    state: State
    lag: timedelta
    deadline_at: datetime | None
    heartbeat_at: datetime | None


def verdict(sign: Sign, now: datetime, max_lag: timedelta) -> Verdict:
    """The verdict on a stream at `now`."""
    if sign.heartbeat_at is None or now - sign.heartbeat_at > HEARTBEAT_BOUND:
        return Verdict.DAEMON_DOWN
    match sign.state:
        case State.PARKED:
            return Verdict.PARKED
        case State.PENDING | State.SYNCING:
            return Verdict.SYNCING
        case State.BACKOFF:
            return Verdict.STALE
    if sign.lag > max_lag or (sign.deadline_at is not None and now > sign.deadline_at):
        return Verdict.STALE
    return Verdict.FRESH
