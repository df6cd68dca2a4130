"""One seed from its first object to rest: steps are done, and somebody reads all the while."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.chaos.churn import Churn
from tests.chaos.daemon import Child, InProcess
from tests.chaos.database_faults import DatabaseFaults
from tests.chaos.postgresql import Server
from tests.chaos.process_faults import ProcessFaults
from tests.chaos.rest import Rest
from tests.chaos.schedule import Schedule, Step
from tests.chaos.server_faults import ServerFaults
from tests.chaos.site import Site

BEGINNING = 10.0  # seconds that a process may take to begin


class World:
    """A seed's site, and what its steps mean there."""

    def __init__(self, schedule: Schedule, directory: Path, server: Server | None) -> None:
        self.schedule = schedule
        self.ran = 0
        self.site = Site.of(schedule, directory, server)
        self._churn = Churn(self.site)
        self._rooms = (
            self._churn,
            ServerFaults(self.site, self._churn),
            DatabaseFaults(self.site, self._churn),
            ProcessFaults(self.site, self._churn),
        )
        self._server = server

    def meaning(self, kind: str) -> Callable[[Step, random.Random], Awaitable[None]]:
        """What a kind of step does here. There is one."""
        [found] = [getattr(room, kind) for room in self._rooms if hasattr(room, kind)]
        meaning: Callable[[Step, random.Random], Awaitable[None]] = found
        return meaning

    async def run(self) -> None:
        """All steps, then rest.

        Raises:
            Failed: something did not hold.
        """
        site = self.site
        self._churn.fill(self.schedule.objects)
        async with site.front:
            config = site.configure()
            site.mirror = Child(config, site.table) if self.schedule.process else InProcess(config)
            reader = asyncio.create_task(self._read())
            try:
                await site.mirror.start()
                await self._begun()
                for step in self.schedule.steps:
                    self.ran += 1
                    await self.meaning(step.kind)(step, random.Random(step.draw))
                    await asyncio.sleep(step.pause)
                    site.judge()
                self.ran += 1
                await Rest(site).check()
            finally:
                reader.cancel()
                await asyncio.gather(reader, return_exceptions=True)
                site.simulator.faults.clear()
                await self._leave()

    async def _leave(self) -> None:
        site = self.site
        try:
            await site.windows.close()
        finally:
            await site.mirror.close()
            if self._server is not None:
                await asyncio.to_thread(self._server.drop, site.place)

    async def _begun(self) -> None:
        """A process takes a second to start: the steps are for what runs."""
        if self.schedule.process:
            ends_at = time.monotonic() + BEGINNING
            while await asyncio.to_thread(self.site.picture) is None and time.monotonic() < ends_at:
                await asyncio.sleep(0.03)

    async def _read(self) -> None:
        """Somebody who reads all the while."""
        site = self.site
        while True:
            generation = site.generation
            taken = await asyncio.to_thread(site.picture)
            if taken is not None and generation == site.generation:
                site.wrong += site.checker.wrong(taken)
            await asyncio.sleep(0.04)
