"""What is done about an error: for every one, whatever was before, something that ends and is not rushed."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from syncd.core.change import StreamRow
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
from syncd.core.recovery import Action, Timing, Trouble, react, rolled_back, start
from syncd.core.resource import State
from tests.properties.cluster import Cluster
from tests.properties.table import Table

TIMING = Timing()
ANSWERS: tuple[type[ApiError], ...] = (
    ApiError,
    Expired,
    Forbidden,
    Invalid,
    NotAllowed,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
    VersionTooLarge,
)
answers = st.builds(
    lambda kind, status, after: kind(status, "", "", retry_after=after),
    st.sampled_from(ANSWERS),
    st.integers(100, 599),
    st.none() | st.floats(0, 600),
)
lost = st.builds(lambda connected: ConnectionLost("lost", connected=connected), st.booleans())
others = st.sampled_from(
    [
        FenceLost("x"),
        StoreUnavailable("x"),
        ProtocolError("x"),
        NoInitialEvents("x"),
        LoginFailed("x"),
        SyncdError("x"),
    ]
)
errors: st.SearchStrategy[SyncdError] = answers | lost | others
troubles = st.builds(
    Trouble,
    attempt=st.integers(0, 1000),
    listing=st.booleans(),
    expired_before=st.none() | st.floats(0, 1e6),
    failing_for=st.floats(0, 1e6),
    same_version=st.booleans(),
)
randoms = st.floats(0, 1, exclude_max=True)


@given(errors, troubles, randoms)
def test_every_error_gets_a_wait_that_ends(error: SyncdError, trouble: Trouble, random: float) -> None:
    reaction = react(error, trouble, lambda: random, TIMING)
    assert math.isfinite(reaction.delay)
    assert 0.0 <= reaction.delay <= 601.0
    assert reaction.kind


@given(errors, troubles, randoms)
def test_nothing_that_fails_again_and_again_is_asked_without_a_pause(
    error: SyncdError, trouble: Trouble, random: float
) -> None:
    """A first 410, and a row that moved, need none: each can only come once in a row."""
    reaction = react(error, trouble, lambda: random, TIMING)
    once = isinstance(error, FenceLost) or (
        isinstance(error, Expired)
        and (trouble.expired_before is None or trouble.expired_before >= TIMING.expired_window)
    )
    if trouble.attempt and not once:
        assert reaction.delay >= TIMING.backoff_first


@given(errors, troubles, randoms)
def test_what_the_server_asks_for_is_waited_for(error: SyncdError, trouble: Trouble, random: float) -> None:
    reaction = react(error, trouble, lambda: random, TIMING)
    if isinstance(error, TooManyRequests | VersionTooLarge | ServerError):
        assert reaction.delay >= (error.retry_after or 0.0)
        assert reaction.action in (Action.RETRY, Action.RELIST)


@given(
    st.sampled_from(State),
    st.none() | st.integers(1, 9).map(str),
    st.sampled_from(["", "p", "q"]),
    st.integers(0, 3),
)
def test_only_a_version_of_this_projection_and_of_a_finished_snapshot_is_resumed(
    state: State, version: str | None, projection: str, rows: int
) -> None:
    begin = start(StreamRow(1, "me", 1, projection, state, version, rows), "p")
    trusted = version is not None and projection == "p" and state is not State.SYNCING
    assert bool(begin.reason) != trusted
    if projection != "p" and version is not None:
        assert begin.content


writes = st.lists(st.tuples(st.sampled_from(["a/x", "a/y"]), st.booleans()), min_size=1, max_size=12)


def written(cluster: Cluster, done: list[tuple[str, bool]]) -> None:
    for key, removes in done:
        if not removes:
            cluster.put(key)
        elif key in cluster.objects:
            cluster.remove([key])


@given(writes, writes, writes)
def test_a_rollback_below_the_checkpoint_is_seen_and_a_cluster_that_went_on_is_not_one(
    kept: list[tuple[str, bool]], undone: list[tuple[str, bool]], later: list[tuple[str, bool]]
) -> None:
    cluster = Cluster()
    written(cluster, kept)
    back = cluster.version, dict(cluster.objects)
    written(cluster, undone)
    table = Table(rows=dict(cluster.objects), checkpoint=cluster.version)
    newest = table.newest()

    def told() -> str:
        found = cluster.objects.get(newest.key) if newest is not None else None
        shown = None if found is None else (found[0], str(found[1]))
        return rolled_back(str(table.checkpoint), str(cluster.version), newest, shown)

    assert told() == ""
    written(cluster, later)
    assert told() == ""
    cluster.version, cluster.objects = back
    if cluster.version < (table.checkpoint or 0):
        assert told()
