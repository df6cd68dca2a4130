"""When things are due: reconciles and housekeeping, by interval or by cron.

The only import of apscheduler. A job posts a message and does no work itself: its executor cancels running
jobs at shutdown, and what was merely posted cannot be cut in half.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Generic, TypeVar

from apscheduler.executors.asyncio import AsyncIOExecutor
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger

from syncd.core.errors import ConfigError

Message = TypeVar("Message")

_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


class Scheduler(Generic[Message]):
    """An async context manager: jobs run inside it and none is left behind.

    Args:
        post: called on the event loop with the message of each job that is due; must not block.
    """

    def __init__(self, post: Callable[[Message], None]) -> None:
        self._post = post
        self._scheduler = AsyncIOScheduler(
            timezone=UTC,
            jobstores={"default": MemoryJobStore()},
            executors={"default": AsyncIOExecutor()},
            # A machine that slept owes one run, however late, and not one for each that it missed.
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        )

    async def __aenter__(self) -> Scheduler[Message]:
        self._scheduler.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._scheduler.remove_all_jobs()
        self._scheduler.shutdown(wait=False)

    def every(self, job: str, message: Message, interval: timedelta, spread: float = 0.0) -> None:
        """Posts the message once an interval, each time up to `spread` (a share of it) sooner or later.
        The first time is an interval from now. A job of the same name is replaced.
        """
        seconds = interval.total_seconds()
        trigger = IntervalTrigger(seconds=seconds, jitter=seconds * spread or None, timezone=UTC)
        self._add(job, message, trigger)

    def at(self, job: str, message: Message, cron: str) -> None:
        """Posts the message at the times of a cron expression, in UTC.

        Raises:
            ConfigError: it is no cron expression, or none of its times ever comes.
        """
        self._add(job, message, _trigger(cron))

    def remove(self, job: str) -> None:
        """Forgets a job; nothing happens where there is none."""
        if self._scheduler.get_job(job) is not None:
            self._scheduler.remove_job(job)

    def next_run(self, job: str) -> datetime | None:
        """When the job is due, aware UTC; None where there is no such job or no more time for it."""
        found = self._scheduler.get_job(job)
        due: datetime | None = getattr(found, "next_run_time", None)
        return due.astimezone(UTC) if due is not None else None

    def _add(self, job: str, message: Message, trigger: BaseTrigger) -> None:
        # A plain function would run in a thread, from where an asyncio queue must not be touched.
        async def due() -> None:
            self._post(message)

        self._scheduler.add_job(due, trigger, id=job, replace_existing=True)


def check_cron(cron: str) -> None:
    """Raises ConfigError where `Scheduler.at` would."""
    _trigger(cron)


def _trigger(cron: str) -> CronTrigger:
    fields = cron.split()
    try:
        if len(fields) != 5:
            raise ValueError("it needs five fields: minute, hour, day, month, weekday")
        minute, hour, day, month, weekday = fields
        trigger = CronTrigger(
            minute=minute, hour=hour, day=day, month=month, day_of_week=_weekdays(weekday), timezone=UTC
        )
    except ValueError as error:
        raise ConfigError(f'reconcile.cron: "{cron}" is no cron expression: {error}') from error
    if trigger.get_next_fire_time(None, datetime.now(UTC)) is None:
        raise ConfigError(f'reconcile.cron: "{cron}" never comes: no date matches it')
    return trigger


def _weekdays(field: str) -> str:
    """The field as a list of names: apscheduler counts from Monday, cron from Sunday (0 or 7), and a range
    may run over the week's end.
    """
    days: list[str] = []
    for part in field.lower().split(","):
        span, _, step = part.partition("/")
        first, dash, last = span.partition("-")
        start = 0 if first == "*" else _day(first)
        end = _day(last) if dash else 6 if step or first == "*" else start
        length = end - start + 1 if end >= start else end - start + 8
        days += [_WEEKDAYS[(start + offset) % 7] for offset in range(0, length, int(step or 1))]
    return ",".join(days)


def _day(text: str) -> int:
    if text in _WEEKDAYS:
        return _WEEKDAYS.index(text)
    if text not in tuple("01234567"):
        raise ValueError(f'there is no weekday "{text}"')
    return int(text)
