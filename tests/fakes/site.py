"""A supervisor on the bench: a cluster of several resources, a real database, time that costs nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from syncd.core.recovery import Timing
from syncd.core.selection import Selection
from syncd.sync.supervisor import ClusterSettings, Shared, Supervisor
from tests.fakes.bench import Bench
from tests.fakes.cluster import FakeCluster
from tests.fakes.value import PODS, SECRETS, WIDGETS

WIDGET_NAME = "widgets.example.com"


class Site:
    """A supervisor on the bench's database, over a cluster of pods, secrets and widgets."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.cluster = FakeCluster(PODS, SECRETS, WIDGETS)
        self.cluster.definitions.put(WIDGET_NAME)
        for name in ("a", "b"):
            for part in self.cluster.parts.values():
                part.put(name)
        self.timing = Timing(discovery=0.02)
        self.supervisor: Supervisor
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, *entries: str | Selection) -> asyncio.Task[None]:
        chosen = [Selection(entry) if isinstance(entry, str) else entry for entry in entries]
        shared = Shared(
            self.bench.clock, self.bench.metrics, self.bench.log, lambda: None, self.timing, lambda: 0.0
        )
        settings = ClusterSettings("prod", chosen)
        self.supervisor = Supervisor(settings, self.cluster, self.bench.store, shared)
        task = asyncio.create_task(self.supervisor.run())
        self._tasks.append(task)
        return task

    async def live(self, *entries: str | Selection) -> None:
        self.start(*entries)
        await self.until(
            lambda: self.supervisor.planned.is_set() and all(one.live for one in self.supervisor.reflectors)
        )
        await self.until(lambda: not self.bench.store.busy)

    async def restart(self, *entries: str | Selection) -> None:
        await self.stop()
        await self.bench.lease.release()
        await self.bench.take_lease()
        self.start(*entries)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    async def until(self, condition: Callable[[], object]) -> None:
        await self.bench.until(condition)

    def rows(self) -> set[tuple[str, str]]:
        return set(self.bench.look("SELECT resource, name FROM syncd_objects"))

    def streams(self) -> dict[str, str]:
        return dict(self.bench.look("SELECT resource, state FROM syncd_streams"))

    def causes(self) -> set[tuple[str, str]]:
        return set(self.bench.look("SELECT resource, cause FROM syncd_deleted_objects"))
