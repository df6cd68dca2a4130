"""What to do about an error: each row of list-watch.md §7; and when a stored version is distrusted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from syncd.core.change import RowVersion, StreamRow
from syncd.core.errors import (
    ApiError,
    ConfigError,
    ConnectionLost,
    Expired,
    FenceLost,
    Forbidden,
    Invalid,
    LoginFailed,
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
from syncd.core.recovery import Action, Start, Timing, Trouble, backoff, parking, react, rolled_back, start
from syncd.core.resource import State

TIMING = Timing()


def low() -> float:
    return 0.0


def high() -> float:
    return 0.999


SETTLED = Trouble()
LISTING = Trouble(listing=True)
LATE = Trouble(attempt=10)

Row = tuple[SyncdError, Trouble, Action, float, float]

TABLE: dict[str, Row] = {
    "reset in the stream": (ConnectionLost("", connected=True), SETTLED, Action.RETRY, 0.0, 1.0),
    "reset again": (ConnectionLost("", connected=True), Trouble(attempt=1), Action.RETRY, 1.6, 3.2),
    "refused": (ConnectionLost(""), SETTLED, Action.RETRY, 0.8, 1.6),
    "no login": (LoginFailed(""), SETTLED, Action.RETRY, 0.8, 1.6),
    "no login for long": (LoginFailed(""), LATE, Action.RETRY, 30.0, 60.0),
    "refused for long": (ConnectionLost(""), LATE, Action.RETRY, 30.0, 60.0),
    "429 with Retry-After 7": (TooManyRequests(429, retry_after=7), SETTLED, Action.RETRY, 7.0, 8.0),
    "429 without": (TooManyRequests(429), SETTLED, Action.RETRY, 0.8, 1.6),
    "429 again, wanting less than the backoff": (
        TooManyRequests(429, retry_after=1),
        Trouble(attempt=10, throttled=10),
        Action.RETRY,
        30,
        60,
    ),
    "429 after other faults": (TooManyRequests(429, retry_after=1), LATE, Action.RETRY, 1.0, 2.0),
    "503 with Retry-After": (ServerError(503, retry_after=5), SETTLED, Action.RETRY, 5.0, 5.0),
    "500": (ServerError(500), SETTLED, Action.RETRY, 0.8, 1.6),
    "500 for five minutes": (ServerError(500), Trouble(attempt=9, failing_for=301), Action.RELIST, 30, 60),
    "500 of a list for long": (
        ServerError(500),
        Trouble(attempt=9, failing_for=301, listing=True),
        Action.RETRY,
        30,
        60,
    ),
    "504 too large": (VersionTooLarge(504, retry_after=1), SETTLED, Action.RETRY, 1.0, 2.0),
    "410": (Expired(410), SETTLED, Action.RELIST, 0.0, 0.0),
    "410 within a minute": (Expired(410), Trouble(expired_before=59), Action.RELIST, 0.8, 1.6),
    "410 after more": (Expired(410), Trouble(expired_before=61), Action.RELIST, 0.0, 0.0),
    "400 of a watch": (Invalid(400), SETTLED, Action.RELIST, 0.0, 0.0),
    "400 of a watch again": (Invalid(400), Trouble(attempt=1), Action.RELIST, 1.6, 3.2),
    "400 of a list": (Invalid(400), LISTING, Action.RELIST, 0.8, 1.6),
    "400 of a list again and again": (Invalid(400), Trouble(listing=True, attempt=3), Action.PARK, 6.4, 12.8),
    "401": (Unauthorized(401), SETTLED, Action.RETRY, 0.8, 1.6),
    "403": (Forbidden(403), SETTLED, Action.PARK, 0.8, 1.6),
    "403 of a list": (Forbidden(403), LISTING, Action.PARK, 0.8, 1.6),
    "403 of a server that was away": (Forbidden(403), LATE, Action.PARK, 0.8, 1.6),
    "403 again": (Forbidden(403), Trouble(attempt=1, refused=1), Action.PARK, 1.6, 3.2),
    "403 again and again": (Forbidden(403), Trouble(attempt=10, refused=10), Action.PARK, 60, 300),
    "404": (NotFound(404), SETTLED, Action.PARK, 0.8, 1.6),
    "404 again and again": (NotFound(404), Trouble(attempt=10, refused=10), Action.PARK, 60, 300),
    "405": (NotAllowed(405), SETTLED, Action.PARK, 0.8, 1.6),
    "an event that cannot be decoded": (ProtocolError(""), SETTLED, Action.RETRY, 0.8, 1.6),
    "at the same version again": (ProtocolError(""), Trouble(same_version=True), Action.RELIST, 0.8, 1.6),
    "a page that cannot be": (
        ProtocolError(""),
        Trouble(listing=True, same_version=True),
        Action.RETRY,
        0.8,
        1.6,
    ),
    "the database is away": (StoreUnavailable(""), LATE, Action.RETRY, 5, 10),
    "the row moved": (FenceLost(""), LATE, Action.RESTART, 0, 0),
    "some other status": (ApiError(302), SETTLED, Action.RETRY, 0.8, 1.6),
    "anything else": (ConfigError(""), SETTLED, Action.RETRY, 0.8, 1.6),
}


@pytest.mark.parametrize("row", TABLE.values(), ids=TABLE)
def test_the_table(row: Row) -> None:
    error, trouble, action, least, most = row
    for random in (low, high):
        found = react(error, trouble, random, TIMING)
        assert found.action is action
        assert least <= found.delay <= most
        assert found.kind


@pytest.mark.parametrize("random", [low, high])
def test_backoff_doubles_to_its_cap_and_is_never_twice_it(random: Callable[[], float]) -> None:
    delays = [backoff(attempt, random, TIMING) for attempt in range(2000)]
    assert delays == sorted(delays)
    assert delays[0] >= 0.8
    assert 30.0 <= delays[-1] < 60.0
    assert backoff(50, random, TIMING, 5.0) < 10.0


@pytest.mark.parametrize("random", [low, high])
def test_what_is_refused_is_asked_for_less_and_less_often(random: Callable[[], float]) -> None:
    delays = [parking(refused, random, TIMING) for refused in range(50)]
    assert delays == sorted(delays)
    assert sum(delays[:5]) > 20  # five more requests in the first half minute, and hardly any after it
    assert 60 <= delays[-1] < 300
    assert delays[-1] == delays[9]


def test_all_durations_scale() -> None:
    assert TIMING.scaled(0.5).park_max == 150.0
    assert TIMING.scaled(0.5).watch_min == 150.0


# --- where to begin -------------------------------------------------------------------------------


def stream_row(
    version: str | None = "100", state: State = State.LIVE, projection: str = "p", count: int = 5
) -> StreamRow:
    return StreamRow(1, "h", 1, projection, state, version, count)


@pytest.mark.parametrize(
    ("row", "want"),
    [
        (stream_row(), Start()),
        (stream_row(state=State.BACKOFF), Start()),
        (stream_row(state=State.PARKED), Start()),
        (stream_row(projection="other"), Start("projection", content=True)),
        (stream_row(state=State.SYNCING), Start("unfinished")),
        (stream_row(state=State.SYNCING, projection="other"), Start("projection", content=True)),
        (stream_row(None, State.PENDING, "", 0), Start("first")),
        (stream_row(None, State.PENDING, "", 5), Start("first", content=True)),  # adopted rows
        (stream_row(None, State.SYNCING, "p", 0), Start("unfinished")),
        (stream_row(None, State.SYNCING, "p", 5), Start("unfinished", content=True)),  # a new epoch
        (stream_row(None, State.PARKED), Start("unfinished", content=True)),
    ],
)
def test_where_a_stream_begins(row: StreamRow, want: Start) -> None:
    assert start(row, "p") == want


# --- rollback -------------------------------------------------------------------------------------

NEWEST = RowVersion("n/a", "n", "a", "u", "90")


@pytest.mark.parametrize(
    ("checkpoint", "version", "found", "back"),
    [
        ("100", "100", ("u", "90"), False),
        ("100", "101", ("u", "95"), False),
        ("100", "99", ("u", "90"), True),  # the cluster is behind the checkpoint
        ("100", "200", ("u", "89"), True),  # masked: the object is behind its row
        ("100", "200", ("v", "90"), True),  # another object at the very version
        ("100", "200", ("v", "95"), False),  # replaced since
        ("100", "200", None, False),  # deleted, or no longer selected: decides nothing
        ("100", "abc", ("u", "90"), False),  # what does not compare decides nothing
        ("abc", "100", ("u", "abc"), False),
    ],
)
def test_rollback(checkpoint: str, version: str, found: tuple[str, str] | None, back: bool) -> None:
    assert bool(rolled_back(checkpoint, version, NEWEST, found)) is back


def test_without_a_row_only_the_list_decides() -> None:
    assert rolled_back("100", "99", None, None)
    assert not rolled_back("100", "100", None, ("u", "1"))


def test_a_quarantined_row_decides_nothing() -> None:
    poison = RowVersion("n/a", "n", "a", "u", "90", quarantined=True)
    assert not rolled_back("100", "200", poison, ("u", "1"))
