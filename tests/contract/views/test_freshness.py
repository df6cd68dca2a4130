"""The view `freshness` says what core says, whatever a stream and the daemon are like."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

from syncd.app.viewing import show
from syncd.core.freshness import VERDICTS, Reason, Sign, reason
from syncd.core.resource import Resource, State, Stream
from syncd.store.lease import NAME
from syncd.views.freshness import LEASE
from tests.conftest import DatabasePlace
from tests.contract.mirror_case import look, opened
from tests.contract.views.case import Row, rows

LAGS = (0.0, 59.999, 60.0, 60.001, 1e6)
SPANS = (None, -3600.0, -0.5, 0.5, 3600.0)  # seconds from now to the deadline
BEATS = (None, 0.0, 14.0, 16.0, 86_400.0)  # seconds since the heartbeat
CASES = list(itertools.product(State, LAGS, SPANS))


def moment(place: DatabasePlace, seconds: float | None) -> str:
    """SQL of a time so far from now."""
    if seconds is None:
        return "NULL"
    if place.dialect == "sqlite":
        return f"strftime('%Y-%m-%d %H:%M:%f', 'now', '{seconds:+} seconds') || '000'"
    return f"clock_timestamp() + interval '{seconds} seconds'"


def aware(value: Any) -> datetime | None:
    return None if value is None else datetime.fromisoformat(value).replace(tzinfo=UTC)


def expected(row: Row, heartbeat_at: datetime | None) -> Reason | None:
    """What core says of a row, at the moment at which the view looked."""
    now = aware(row["checked_at"])
    assert now is not None
    lag = timedelta(seconds=row["lag_seconds"])
    return reason(Sign(State(row["state"]), lag, aware(row["deadline_at"]), heartbeat_at), now)


async def test_the_view_decides_as_core_does(place: DatabasePlace) -> None:
    assert LEASE == NAME
    async with opened(place) as mirror:
        await show(mirror.database)
        for number in range(len(CASES)):
            await mirror.store.open(Stream("prod", Resource("", "v1", f"r{number}", "Pod", namespaced=True)))
        updates = (
            f"UPDATE syncd_streams SET state = '{state.value}', lag_seconds = {lag},"
            f" deadline_at = {moment(place, span)} WHERE resource = 'r{number}'"
            for number, (state, lag, span) in enumerate(CASES)
        )
        mirror.look_at(*updates)
        seen: set[Reason | None] = set()
        for beat in BEATS:
            name = f"'{NAME}', heartbeat_at = {moment(place, -beat)}" if beat is not None else "'another'"
            look(place, f"UPDATE syncd_leases SET name = {name}")
            [lease] = rows(place, "SELECT heartbeat_at FROM syncd_leases")
            heartbeat_at = None if beat is None else aware(lease["heartbeat_at"])
            listed = rows(place, "SELECT * FROM freshness")
            assert len(listed) == len(CASES)
            for row in listed:
                want = expected(row, heartbeat_at)
                assert (row["reason"], row["verdict"]) == (want, VERDICTS[want]), row
                seen.add(want)
        assert seen == {None, *Reason}


async def test_ages_are_in_seconds(place: DatabasePlace) -> None:
    async with opened(place) as mirror:
        await show(mirror.database)
        await mirror.open()
        look(
            place,
            f"UPDATE syncd_streams SET verified_at = {moment(place, -90)}, last_event_at = NULL",
        )
        [row] = rows(place, "SELECT * FROM freshness")
    now, verified = aware(row["checked_at"]), aware(row["verified_at"])
    assert now is not None
    assert verified is not None
    assert abs(row["verified_age_seconds"] - (now - verified).total_seconds()) < 0.002
    assert 90 <= row["verified_age_seconds"] < 150
    assert row["event_age_seconds"] is None
    assert 0 <= row["heartbeat_age_seconds"] < 60


async def test_a_query_can_refuse_what_is_stale(place: DatabasePlace) -> None:
    async with opened(place) as mirror:
        await show(mirror.database)
        await mirror.open()
        query = "SELECT count(*) AS found FROM freshness WHERE verdict = 'fresh'"
        assert rows(place, query) == [{"found": 1}]
        look(place, f"UPDATE syncd_leases SET heartbeat_at = {moment(place, -60)}")
        assert rows(place, query) == [{"found": 0}]
