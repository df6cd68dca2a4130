"""The scheduler: messages when they are due, and a quiet end."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncd.core.errors import ConfigError
from syncd.scheduler import Scheduler, _trigger


def due_days(weekdays: str) -> list[str]:
    """The days of one week on which a cron expression with this last field is due."""
    trigger = _trigger(f"0 3 * * {weekdays}")
    now, days = datetime(2026, 11, 1, tzinfo=UTC), []  # a Sunday
    while (due := trigger.get_next_fire_time(None, now)) < datetime(2026, 11, 8, tzinfo=UTC):
        days.append(due.strftime("%a").lower())
        now = due + timedelta(minutes=1)
    return days


WEEK = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]


@pytest.mark.parametrize(
    ("field", "days"),
    [
        ("*", WEEK),
        ("0", ["sun"]),
        ("7", ["sun"]),
        ("1-5", WEEK[1:6]),
        ("mon-fri", WEEK[1:6]),
        ("MON,wed", ["mon", "wed"]),
        ("0-7", WEEK),
        ("5-7", ["sun", "fri", "sat"]),
        ("sat-mon", ["sun", "mon", "sat"]),
        ("*/2", ["sun", "tue", "thu", "sat"]),
        ("1-5/2", ["mon", "wed", "fri"]),
        ("4/2", ["thu", "sat"]),
    ],
)
def test_weekdays_are_those_of_cron(field: str, days: list[str]) -> None:
    assert due_days(field) == days


@pytest.mark.parametrize(
    "cron",
    ["", "* * * *", "60 * * * *", "* * * * 8", "* * * * xyz", "* * * * */0", "* * * * 1-", "a b c d e"],
)
def test_what_is_no_cron_expression_is_named(cron: str) -> None:
    with pytest.raises(ConfigError, match=r"reconcile\.cron"):
        _trigger(cron)


@given(st.lists(st.text("0123456789*/,-abcdefghijklmnopqrstuvwxyz", max_size=8), min_size=5, max_size=5))
def test_any_five_fields_are_a_trigger_or_an_error_of_ours(fields: list[str]) -> None:
    try:
        trigger = _trigger(" ".join(fields))
    except ConfigError:
        return
    assert trigger.timezone is UTC


async def test_messages_are_posted_on_the_loop() -> None:
    posted: asyncio.Queue[tuple[str, asyncio.AbstractEventLoop]] = asyncio.Queue()
    async with Scheduler[str](
        lambda message: posted.put_nowait((message, asyncio.get_running_loop()))
    ) as due:
        due.every("reconcile prod", "reconcile", timedelta(milliseconds=20), 0.2)
        async with asyncio.timeout(30):
            for _ in range(3):
                assert await posted.get() == ("reconcile", asyncio.get_running_loop())


async def test_when_a_job_is_due() -> None:
    async with Scheduler[str](lambda message: None) as scheduler:
        before = datetime.now(UTC)
        scheduler.every("a", "x", timedelta(hours=1), 0.2)
        scheduler.at("b", "x", "0 3 * * *")
        due = scheduler.next_run("a")
        assert due is not None
        assert timedelta(minutes=47) < due - before < timedelta(minutes=73)
        at = scheduler.next_run("b")
        assert at is not None
        assert (at.hour, at.minute, at.utcoffset()) == (3, 0, timedelta())
        assert scheduler.next_run("c") is None


async def test_a_time_that_never_comes_is_named() -> None:
    async with Scheduler[str](lambda message: None) as scheduler:
        with pytest.raises(ConfigError, match="never comes"):
            scheduler.at("a", "x", "0 0 31 2 *")


async def test_a_job_is_replaced_and_removed_by_name() -> None:
    async with Scheduler[str](lambda message: None) as scheduler:
        scheduler.every("a", "x", timedelta(hours=1))
        scheduler.every("a", "y", timedelta(hours=9))
        due = scheduler.next_run("a")
        assert due is not None
        assert due > datetime.now(UTC) + timedelta(hours=8)
        scheduler.remove("a")
        scheduler.remove("a")
        assert scheduler.next_run("a") is None


async def test_it_stops_quietly_in_the_middle_of_work(caplog: pytest.LogCaptureFixture) -> None:
    posted = asyncio.Event()
    async with asyncio.timeout(30):
        async with Scheduler[str](lambda message: posted.set()) as scheduler:
            for number in range(20):
                scheduler.every(f"job {number}", "x", timedelta(milliseconds=1))
            await posted.wait()
    for _ in range(5):
        await asyncio.sleep(0)
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_job_that_fails_is_due_again(caplog: pytest.LogCaptureFixture) -> None:
    calls = 0
    again = asyncio.Event()

    def post(message: str) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise RuntimeError("full")
        again.set()

    async with asyncio.timeout(30), Scheduler[str](post) as scheduler:
        scheduler.every("a", "x", timedelta(milliseconds=10))
        await again.wait()
    assert "full" in caplog.text
