"""What to do about an error, and when to distrust a stored version: every such decision, in one place.

The table is list-watch.md §7; the rules of distrust are mirror.md §7.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import StrEnum

from syncd.core.change import RowVersion, StreamRow
from syncd.core.errors import (
    ApiError,
    ConnectionLost,
    Expired,
    FenceLost,
    Forbidden,
    Invalid,
    LoginFailed,
    NoInitialEvents,
    NotAllowed,
    NotFound,
    ProtocolError,
    ServerError,
    StoreUnavailable,
    SyncdError,
    TooManyRequests,
    Unauthorized,
    VersionTooLarge,
)
from syncd.core.resource import State, compare_versions


@dataclass(frozen=True, slots=True)
class Timing:
    """Every duration of the engine, in seconds. Tests scale them; nothing else sleeps.

    backoff: 0.8 s doubling to 30 s, each delay jittered to [d, 2d): client-go's reflector, 30–60 s at the
    cap. watch: `timeoutSeconds` drawn from [300, 600), so that clients spread.
    """

    backoff_first: float = 0.8
    backoff_cap: float = 30.0
    backoff_reset: float = 120.0  # a stream that held this long begins its backoff anew
    store_backoff_cap: float = 5.0  # a database is nearer, and everything waits for it
    resume_jitter: float = 1.0  # after a cut stream
    park_min: float = 60.0
    park_max: float = 300.0
    watch_min: float = 300.0
    watch_max: float = 600.0
    watch_margin: float = 10.0  # past the server's own timeout before a watch counts as half-open
    idle: float = 165.0  # without a byte, where bookmarks were seen: two of them are overdue
    short_watch: float = 1.0  # an empty watch shorter than this is a fault, not an end
    expired_window: float = 60.0  # a second 410 within it backs off
    server_error_relist: float = 300.0  # of nothing but 5xx before a relist is tried
    initial_events: float = 30.0  # for those of a WatchList to end, and
    initial_silence: float = 10.0  # since the last of them (list-watch.md §5)
    watch_list_refused: float = 3600.0  # a server that cannot is not asked again
    side_watch: float = 5.0  # shorter ones bring no bookmark (wire recordings)
    catch_up: float = 20.0  # for a reconcile to see the stream pass its list
    settle: float = 150.0  # a changed CRD's storage is torn down within two minutes
    discovery: float = 60.0
    heartbeat: float = 3.0
    lease: float = 15.0  # without a heartbeat, after which another daemon may take over
    stop: float = 5.0
    start_jitter: float = 1.0

    def scaled(self, factor: float) -> Timing:
        """All durations multiplied."""
        return Timing(**{field.name: getattr(self, field.name) * factor for field in fields(self)})


class Action(StrEnum):
    """What a reflector does next."""

    RETRY = "retry"  # the same again, from the same version
    RELIST = "relist"  # a snapshot
    PARK = "park"  # keep the rows, ask again, less and less often
    RESTART = "restart"  # forget memory, begin from the stored checkpoint


@dataclass(frozen=True, slots=True)
class Reaction:
    """`delay` in seconds; `kind` is the class of failure, for metrics."""

    action: Action
    delay: float
    kind: str


@dataclass(frozen=True, slots=True)
class Trouble:
    """What a reflector knows when an error comes.

    Attributes:
        attempt: faults in a row before this one.
        refused: of those, the last so many said 403 or 404.
        throttled: of those, the last so many said 429.
        listing: whether a snapshot was under way.
        expired_before: seconds since the last 410, None where there was none.
        failing_for: seconds since the first fault in a row.
        same_version: whether the last fault was at this very version too.
    """

    attempt: int = 0
    refused: int = 0
    throttled: int = 0
    listing: bool = False
    expired_before: float | None = None
    failing_for: float = 0.0
    same_version: bool = False


def backoff(attempt: int, random: Callable[[], float], timing: Timing, cap: float | None = None) -> float:
    """Seconds before the next try: first · 2^attempt up to the cap, jittered to [d, 2d)."""
    delay = min(timing.backoff_first * 2.0 ** min(attempt, 30), cap or timing.backoff_cap)
    return delay * (1.0 + random())


def parking(refused: int, random: Callable[[], float], timing: Timing) -> float:
    """Seconds before what was refused is asked for again: minutes, but soon at first. A server that has just
    started says 403 until it knows its roles, and of several that learn of a new type one says 404 for a
    while.

    Args:
        refused: times in a row before this one.
    """
    spread = timing.park_min + (timing.park_max - timing.park_min) * random()
    return min(spread, backoff(refused, random, timing, timing.park_max))


def react(error: SyncdError, trouble: Trouble, random: Callable[[], float], timing: Timing) -> Reaction:
    """What to do about an error (list-watch.md §7)."""
    wait = backoff(trouble.attempt, random, timing)
    match error:
        case FenceLost():
            return Reaction(Action.RESTART, 0.0, "fence")
        case StoreUnavailable():
            return Reaction(
                Action.RETRY, backoff(trouble.attempt, random, timing, timing.store_backoff_cap), "store"
            )
        case Expired():
            recent = trouble.expired_before is not None and trouble.expired_before < timing.expired_window
            return Reaction(Action.RELIST, wait if recent else 0.0, "expired")
        case TooManyRequests() if error.retry_after is not None:
            # It says when to come back, whatever went wrong before; a type that was just edited says so once.
            wait = backoff(trouble.throttled, random, timing)
            return Reaction(Action.RETRY, _asked(error.retry_after, wait, random), "throttled")
        case TooManyRequests() | VersionTooLarge():
            kind = "throttled" if isinstance(error, TooManyRequests) else "version_too_large"
            return Reaction(Action.RETRY, _asked(error.retry_after or 0.0, wait, random), kind)
        case Forbidden() | NotFound() | NotAllowed():
            delay = parking(trouble.refused, random, timing)
            return Reaction(Action.PARK, delay, type(error).__name__.lower())
        case Unauthorized():
            return Reaction(Action.RETRY, wait, "unauthorized")
        case Invalid():
            # A parameter is not understood: a version or a token, which a fresh list does without.
            action = Action.PARK if trouble.listing and trouble.attempt > 2 else Action.RELIST
            return Reaction(action, wait if trouble.attempt or trouble.listing else 0.0, "invalid")
        case ServerError():
            long = not trouble.listing and trouble.failing_for > timing.server_error_relist
            delay = max(wait, error.retry_after or 0.0)
            return Reaction(Action.RELIST if long else Action.RETRY, delay, "server_error")
        case LoginFailed():
            return Reaction(Action.RETRY, wait, "login")
        case ConnectionLost(connected=True) if trouble.attempt == 0:
            return Reaction(Action.RETRY, timing.resume_jitter * random(), "cut")
        case ConnectionLost():
            return Reaction(Action.RETRY, wait, "cut" if error.connected else "unreachable")
        case ProtocolError():
            again = trouble.same_version and not trouble.listing
            return Reaction(Action.RELIST if again else Action.RETRY, wait, "protocol")
        case ApiError():
            return Reaction(Action.RETRY, max(wait, error.retry_after or 0.0), "api")
    return Reaction(Action.RETRY, wait, "other")


def _asked(seconds: float, wait: float, random: Callable[[], float]) -> float:
    """No sooner than the server asked for, nor all who were asked at the same moment."""
    return max(wait, seconds + random() * min(seconds, 1.0))


def refuses_watch_list(error: SyncdError, *, opened: bool) -> bool:
    """Whether an error before the end of the initial events says that the server cannot send them, so that a
    list is what to do (list-watch.md §5). Anything else is a fault like any other.

    Args:
        opened: the watch was accepted, and the error came in it.
    """
    if isinstance(error, NoInitialEvents | Invalid | NotAllowed):
        return True
    # "storage feature RequestWatchProgress is disabled"
    return opened and isinstance(error, ServerError) and error.reason == "InternalError"


@dataclass(frozen=True, slots=True)
class Start:
    """How a stream begins: with a snapshot for this reason, or ('' ) by resuming its version.

    `content`: the snapshot compares documents too.
    """

    reason: str = ""
    content: bool = False


def start(row: StreamRow, projection: str) -> Start:
    """How to begin from a stored row (mirror.md §7).

    A projection that changed, or rows of an unknown one (adopted, or of an earlier epoch), mean that a
    row may hold other content under its own version.
    """
    changed = row.projection != projection
    if row.resource_version is None:
        reason = "first" if row.state is State.PENDING else "unfinished"
        return Start(reason, content=row.object_count > 0)
    if changed:
        return Start("projection", content=True)
    if row.state is State.SYNCING:
        return Start("unfinished")
    return Start()


def rolled_back(
    checkpoint: str, list_version: str, row: RowVersion | None, found: tuple[str, str] | None
) -> str:
    """Why the cluster went back in time, '' where nothing says so.

    Args:
        checkpoint: the stream's stored version.
        list_version: of a consistent list made after the last commit.
        row: the stream's newest row, which the list asked for.
        found: (uid, version) of that object in the list, None where it is absent: that decides nothing.
    """
    if compare_versions(list_version, checkpoint) == -1:
        return f"the cluster is at {list_version}, behind the checkpoint {checkpoint}"
    if row is None or row.quarantined or found is None:
        return ""
    uid, version = found
    order = compare_versions(version, row.resource_version)
    if order == -1:
        return f"{row.key} is at {version} in the cluster, behind its row at {row.resource_version}"
    if order == 0 and uid != row.uid:
        return f"{row.key} is another object at the same version {version}"
    return ""
