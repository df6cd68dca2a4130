"""A simulated cluster that is never quiet and often sick, a real daemon, and somebody who counts."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from syncd.simulator.server import SimulatorServer, write_kubeconfig
from syncd.simulator.simulator import Simulator
from syncd.simulator.workload import Workload
from tests.chaos.postgresql import PostgresqlFaults, Server
from tests.conftest import DatabasePlace
from tests.e2e.table import Table
from tests.e2e.world import NO_TABLES
from tests.soak.slope import Sample

RESOURCES = (("", "pods"), ("", "configmaps"), ("example.com", "widgets"))
SCALE = 0.1  # of the daemon's durations: thirty minutes are five hours of watches, polls and heartbeats
PATIENCE = 60.0  # seconds to start, and to be level once all faults are gone
SICK = 2.0  # seconds between two faults, on average
RECONCILES = 15.0  # seconds between two of these


@dataclass(slots=True)
class Site:
    """Everything of one soak.

    Attributes:
        rate: changes a second.
        pods: that there are, about.
        done: how often each thing was done.
    """

    directory: Path
    place: DatabasePlace
    table: Table
    postgresql: PostgresqlFaults | None
    pods: int
    rate: float
    simulator: Simulator = field(
        default_factory=lambda: Simulator(bookmark_interval=5.0, history=5_000, remember=False)
    )
    rand: random.Random = field(default_factory=lambda: random.Random(1))
    done: dict[str, int] = field(default_factory=dict)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[psutil.Process]:
        """The daemon's process, mirroring; it must end well."""
        workload = Workload(self.simulator)
        workload.fill(self.pods)
        async with SimulatorServer(self.simulator) as served:
            process = await self._start(served.url)
            tasks = [asyncio.create_task(each) for each in (self._churn(workload), self._harm(), self._ask())]
            try:
                await self.level(PATIENCE, differences=100_000)
                yield psutil.Process(process.pid)
                for task in tasks:
                    task.cancel()
                ended = await asyncio.gather(*tasks, return_exceptions=True)
                for each in ended:
                    if not isinstance(each, asyncio.CancelledError):
                        raise each or AssertionError("a soak's task ended")
                self.simulator.faults.clear()
                await self._reconcile()  # what was dropped since the last one
                await self.level(PATIENCE)
                process.send_signal(signal.SIGTERM)
                code = await asyncio.wait_for(process.wait(), 15.0)
                assert code == 0, f"syncd ended with {code}"
            finally:
                for task in tasks:
                    task.cancel()
                if process.returncode is None:
                    process.kill()
                    await process.wait()

    async def _start(self, url: str) -> asyncio.subprocess.Process:
        kubeconfig, config = self.directory / "kubeconfig", self.directory / "syncd.yaml"
        write_kubeconfig(kubeconfig, url)
        document = {
            "database": {"url": self.place.url, "schema": self.place.schema},
            "clusters": [{"name": "c", "kubeconfig": str(kubeconfig)}],
            "resources": [
                "pods",
                {"name": "configmaps", "mode": "poll", "every": "5s"},
                "widgets.example.com",
            ],
            "reconcile": {"every": "1m"},
            "server": {"listen": ""},
            "log": {"level": "warning"},
        }
        config.write_text(json.dumps(document))
        environment = {
            **os.environ,
            "SYNCD_CONFIG": str(config),
            "SYNCD_TIME_SCALE": str(SCALE),
            "SYNCD_SOAK_TASKS": str(self._tasks),
        }
        with (self.directory / "log").open("wb") as log:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.soak.daemon", "run"), stdout=log, stderr=log, env=environment
            )

    @property
    def _tasks(self) -> Path:
        return self.directory / "tasks"

    @property
    def log(self) -> str:
        """What the daemon said."""
        return (self.directory / "log").read_text(errors="replace")

    # --- what goes on -----------------------------------------------------------------------------

    async def _churn(self, workload: Workload) -> None:
        """Changes, with as many pods as at the start."""
        begun, done = time.monotonic(), 0
        while True:
            while done < (time.monotonic() - begun) * self.rate:
                workload.change()
                done += 1
                pods = self.simulator.collection("", "pods").current
                if len(pods.keys) > self.pods:
                    record = pods.records[self.rand.choice(pods.keys)]
                    self.simulator.delete("", "pods", record.namespace, record.name)
            await asyncio.sleep(0.02)

    async def _harm(self) -> None:
        """One fault after another, none of which lasts."""
        faults = self.simulator.faults
        while True:
            await asyncio.sleep(self.rand.uniform(0.5, 1.5) * SICK)
            group, resource = self.rand.choice(RESOURCES)
            kinds: dict[str, Any] = {
                "cut": lambda r=resource: faults.cut_watches(r),
                "cut inside an event": lambda r=resource: faults.cut_watches(r, mid_line=True),
                "end": lambda r=resource: faults.end_watches(r),
                "410": lambda r=resource: faults.fail_watches(410, r),
                "500": lambda r=resource: faults.answer(500, resource=r, times=3),
                "429": lambda r=resource: faults.answer(429, resource=r, times=2, retry_after=1),
                "truncate": lambda r=resource: faults.truncate(2_000, resource=r),
                "expired token": lambda r=resource: faults.expire_tokens(resource=r),
                "slow": lambda r=resource: faults.delay(0.3, resource=r, times=3),
                "compact": self.simulator.compact,
                "drop": lambda g=group, r=resource: faults.drop_events(3, group=g, resource=r),
            }
            if self.postgresql is not None:
                kinds["sessions ended"] = self.postgresql.end_sessions
            name = self.rand.choice(sorted(kinds))
            self.done[name] = self.done.get(name, 0) + 1
            ended = kinds[name]()
            if asyncio.iscoroutine(ended):
                await ended

    async def _ask(self) -> None:
        """Reconciles, every second one of the contents too."""
        while True:
            await asyncio.sleep(RECONCILES)
            await self._reconcile(deep=self.done.get("reconcile", 0) % 2 == 1)

    async def _reconcile(self, *, deep: bool = False) -> None:
        statement = (
            "INSERT INTO syncd_requests (command, arguments, created_at, progress, result, error)"
            f" VALUES ('reconcile', '{json.dumps({'deep': deep})}', CURRENT_TIMESTAMP, '{{}}', '{{}}', '')"
        )
        await asyncio.to_thread(self.table.write, statement)
        self.done["reconcile"] = self.done.get("reconcile", 0) + 1

    # --- counting ---------------------------------------------------------------------------------

    async def sample(self, process: psutil.Process, at: float) -> Sample:
        """What the process has now."""
        process.send_signal(signal.SIGUSR1)
        await asyncio.sleep(0.2)
        with process.oneshot():
            return Sample(
                at,
                memory=process.memory_info().rss,
                descriptors=process.num_fds(),
                connections=len(process.net_connections("all")),
                threads=process.num_threads(),
                tasks=int(self._tasks.read_text()) if self._tasks.exists() else 0,
                database=await asyncio.to_thread(self._size),
            )

    def _size(self) -> int:
        if self.place.dialect == "sqlite":
            return sum(file.stat().st_size for file in self.directory.glob("mirror.db*"))
        query = (
            "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c WHERE relnamespace = ?::regnamespace"
        )
        return int(self.table.one(query, self.place.schema) or 0)

    async def level(self, patience: float, *, differences: int = 0) -> None:
        """Waits until the table is the cluster, but for so many rows; reconciles do their part."""
        ends_at = time.monotonic() + patience
        while True:
            found = await asyncio.to_thread(self._differences)
            if found is not None and found <= differences:
                return
            assert time.monotonic() < ends_at, f"not level within {patience:g} s: {found} rows differ"
            await asyncio.sleep(0.5)

    def _differences(self) -> int | None:
        """How many rows are not the cluster's; None where there is no table yet."""
        count = 0
        query = (
            "SELECT object_key, uid, resource_version FROM syncd_objects WHERE api_group = ? AND resource = ?"
        )
        for group, resource in RESOURCES:
            try:
                rows = {(key, uid, int(v)) for key, uid, v in self.table.ask(query, group, resource)}
            except NO_TABLES:
                return None
            records = self.simulator.collection(group, resource).current.records.values()
            count += len(rows ^ {(record.key, record.uid, record.version) for record in records})
        return count


def site(directory: Path, server: Server | None, *, pods: int, rate: float) -> Site:
    """A site on PostgreSQL, where there is a server, else on SQLite."""
    if server is None:
        place = DatabasePlace("sqlite", f"sqlite:///{directory / 'mirror.db'}")
        return Site(directory, place, Table(place), None, pods, rate)
    place = server.place()
    # Sessions of this name are not ended.
    reader = replace(place, url=f"{place.url}{'&' if '?' in place.url else '?'}application_name=reader")
    return Site(directory, place, Table(reader), PostgresqlFaults(server, place), pods, rate)
