"""What a daemon does besides mirroring: it serves HTTP, keeps a schedule, answers requests, tidies up, and
follows its configuration.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from syncd.app.daemon import Daemon
from syncd.app.departure import Departures
from syncd.app.front import Front
from syncd.app.health import probes
from syncd.app.notify import notifying
from syncd.app.reconciling import Run, Wanted, reconcile
from syncd.app.reload import Origin, Reloading, Surroundings
from syncd.app.sinks import Sinks
from syncd.config import Config
from syncd.core.errors import StoreError, SyncdError
from syncd.core.ports import Request
from syncd.logs import get
from syncd.scheduler import Scheduler
from syncd.store.retention import Kept
from syncd.sync.reconcile import Order

PURGE_EVERY = timedelta(minutes=1)
_PROGRESS_EVERY = 1.0  # seconds between two notes of progress on one request


@dataclass(frozen=True, slots=True)
class Purge:
    """Retention is due."""


@dataclass(frozen=True, slots=True)
class _Answer:
    error: str = ""
    result: dict[str, Any] = field(default_factory=dict)


Job = Wanted | Purge | Request


class Service:
    """Runs beside a daemon's supervisors, one job of a kind at a time.

    Args:
        origin: the configuration's file, which is followed; None: what was loaded stays.
    """

    def __init__(self, daemon: Daemon, origin: Origin | None = None) -> None:
        self._daemon = daemon
        self._origin = origin
        self._jobs: asyncio.Queue[Job] = asyncio.Queue()
        self._answers: dict[int, _Answer] = {}  # that the database has not taken yet
        self._log = get("app")

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set, or the daemon has to stop by itself.

        Raises:
            ConfigError: the address cannot be listened on, the schedule cannot be read.
        """
        daemon = self._daemon
        async with AsyncExitStack() as stack:
            front = Front(probes(daemon))
            stack.push_async_callback(front.close)
            await front.move(daemon.config.server.address)
            scheduler = await stack.enter_async_context(Scheduler[Job](self._jobs.put_nowait))
            scheduler.every("purge", Purge(), PURGE_EVERY)
            _schedule(scheduler, None, daemon.config)
            await stack.enter_async_context(notifying(daemon, os.environ))
            departures = Departures(daemon)
            sinks = Sinks(daemon)
            daemon.sinks = sinks
            work = [self._work(), self._listen(), departures.run(), sinks.run()]
            if self._origin is not None:
                around = Surroundings(front, departures, lambda old, new: _schedule(scheduler, old, new))
                work.append(Reloading(daemon, self._origin, around).run())
            tasks = [asyncio.create_task(each) for each in work]
            ends = [asyncio.create_task(stop.wait()), asyncio.create_task(daemon.stopped.wait())]
            try:
                await asyncio.wait([*ends, *tasks], return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (*tasks, *ends):
                    task.cancel()
                results = await asyncio.gather(*tasks, *ends, return_exceptions=True)
            for result in results:
                if isinstance(result, Exception):  # a fault of our own
                    raise result

    async def _listen(self) -> None:
        """Looks for requests, four times a second: a table is all that a command and a daemon share, and
        somebody waits at the other end.
        """
        seen: set[int] = set()
        while True:
            try:
                for request in await self._daemon.mirror.requests():
                    if request.request_id in self._answers:
                        await self._give(request.request_id)
                    elif request.request_id not in seen:
                        seen.add(request.request_id)
                        self._jobs.put_nowait(request)
            except StoreError as error:
                self._log.debug("requests cannot be read", error=str(error))
            await asyncio.sleep(min(0.25, self._daemon.timing.heartbeat / 3))

    async def _work(self) -> None:
        while True:
            job = await self._jobs.get()
            try:
                match job:
                    case Purge():
                        await self._purge()
                    case Request():
                        await self._answer(job)
                    case Wanted():
                        run = await reconcile(self._daemon, job, lambda run: None)
                        self._tell(run)
            except SyncdError as error:
                self._log.warning("a job failed", job=type(job).__name__, error=str(error))

    def _tell(self, run: Run) -> None:
        for failure in run.failed:
            self._log.warning("reconcile incomplete", why=failure)
        say = self._log.warning if run.drift else self._log.info
        say("reconciled", streams=run.done, checked=run.checked, drift=run.drift, left=run.left)

    async def _purge(self) -> None:
        daemon = self._daemon
        config = daemon.config
        kept = Kept(config.changes.keep, config.changes.rows)
        rows = await daemon.database.purge(daemon.lease, keep=config.deleted_objects.keep, changes=kept)
        if rows:
            self._log.info("purged", rows=rows)

    async def _answer(self, request: Request) -> None:
        if request.action != "reconcile":
            error = f"unknown action {request.action!r}; this daemon knows: reconcile"
            self._answers[request.request_id] = _Answer(error)
            await self._give(request.request_id)
            return
        noted_at = 0.0
        notes: set[asyncio.Task[None]] = set()

        def note(run: Run) -> None:
            nonlocal noted_at
            now = self._daemon.clock.monotonic()
            if now - noted_at >= _PROGRESS_EVERY and not notes:
                noted_at = now
                task = asyncio.create_task(self._note(request.request_id, run.as_json()))
                notes.add(task)
                task.add_done_callback(notes.discard)

        run = await reconcile(self._daemon, wanted(request), note)
        self._tell(run)
        await asyncio.gather(*notes, return_exceptions=True)
        self._answers[request.request_id] = _Answer(result=run.as_json())
        await self._give(request.request_id)

    async def _give(self, request_id: int) -> None:
        """Writes an answer down. One that the database does not take is kept: somebody waits for it."""
        answer = self._answers[request_id]
        await self._daemon.mirror.answer(request_id, error=answer.error, result=answer.result)
        self._answers.pop(request_id, None)

    async def _note(self, request_id: int, progress: dict[str, Any]) -> None:
        try:
            await self._daemon.mirror.progress(request_id, progress)
        except SyncdError as error:
            self._log.debug("progress cannot be written", error=str(error))


def wanted(request: Request) -> Wanted:
    """What a request of action `reconcile` asks for; odd arguments are taken as absent."""
    arguments = request.arguments
    names = arguments.get("resources")
    return Wanted(
        resources=tuple(str(name) for name in names) if isinstance(names, list) else (),
        order=Order(
            deep=arguments.get("deep") is True,
            dry_run=arguments.get("dry_run") is True,
            request_id=request.request_id,
        ),
    )


def _schedule(scheduler: Scheduler[Job], old: Config | None, new: Config) -> None:
    """Makes the schedule that of a configuration. What is as in the old one keeps its next time.

    Raises:
        ConfigError: an expression cannot be read, or its time never comes.
    """
    before = {cluster.name: old.schedule(cluster) for cluster in old.clusters} if old is not None else {}
    for cluster in new.clusters:
        name, schedule = f"reconcile {cluster.name}", new.schedule(cluster)
        if schedule == before.pop(cluster.name, None):
            continue
        wanted = Wanted(cluster=cluster.name, order=Order(deep=schedule.deep))
        if schedule.interval is not None:
            scheduler.every(name, wanted, schedule.interval, schedule.spread)
        elif schedule.enabled and schedule.cron is not None:
            scheduler.at(name, wanted, schedule.cron)
        else:
            scheduler.remove(name)
    for gone in before:
        scheduler.remove(f"reconcile {gone}")
