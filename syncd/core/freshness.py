"""Fresh or stale: the verdict on one stream, from what the database says, on the database's clock.

A quiet stream is not stale, and a dead daemon is not fresh (mirror.md §11). The view `freshness` decides the
same in SQL: it is rendered from what stands here, and a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType

from syncd.core.resource import State

HEARTBEAT_BOUND = timedelta(seconds=15)
"""A daemon whose heartbeat is older has lost its lease; nothing it mirrors counts as fresh."""
MAX_LAG = timedelta(seconds=60)
"""The lag past which a stream is stale, where nobody says another."""


class Verdict(StrEnum):
    """What a consumer may think of a stream's rows."""

    FRESH = "fresh"
    STALE = "stale"
    SYNCING = "syncing"
    PARKED = "parked"
    DAEMON_DOWN = "daemon_down"


class Reason(StrEnum):
    """Why a stream is not fresh; the first that holds, in this order."""

    NO_DAEMON = "no_daemon"  # nobody holds the lease
    HEARTBEAT = "heartbeat"  # who holds it has not been heard of for too long
    PARKED = "parked"
    PENDING = "pending"
    SYNCING = "syncing"
    BACKOFF = "backoff"
    LAG = "lag"
    DEADLINE = "deadline"  # the watch should have brought something, or have been renewed


VERDICTS: Mapping[Reason | None, Verdict] = MappingProxyType(
    {
        Reason.NO_DAEMON: Verdict.DAEMON_DOWN,
        Reason.HEARTBEAT: Verdict.DAEMON_DOWN,
        Reason.PARKED: Verdict.PARKED,
        Reason.PENDING: Verdict.SYNCING,
        Reason.SYNCING: Verdict.SYNCING,
        Reason.BACKOFF: Verdict.STALE,
        Reason.LAG: Verdict.STALE,
        Reason.DEADLINE: Verdict.STALE,
        None: Verdict.FRESH,
    }
)


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


def reason(sign: Sign, now: datetime, max_lag: timedelta = MAX_LAG) -> Reason | None:
    """Why a stream is not fresh at `now`; None where it is."""
    if sign.heartbeat_at is None:
        return Reason.NO_DAEMON
    if now - sign.heartbeat_at > HEARTBEAT_BOUND:
        return Reason.HEARTBEAT
    if sign.state is not State.LIVE:
        return Reason(sign.state.value)
    if sign.lag > max_lag:
        return Reason.LAG
    return Reason.DEADLINE if sign.deadline_at is not None and now > sign.deadline_at else None


def verdict(sign: Sign, now: datetime, max_lag: timedelta = MAX_LAG) -> Verdict:
    """The verdict on a stream at `now`."""
    return VERDICTS[reason(sign, now, max_lag)]
