"""What becomes of the process, and what it is asked to do: stop, die, sleep, give way, follow, reconcile."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

from tests.chaos.churn import Churn
from tests.chaos.daemon import Child, InProcess, Mirror
from tests.chaos.schedule import RECORDS, Step
from tests.chaos.site import SCOPES, TYPES, Site

START = 0.8  # seconds within which a process that starts may be met at anything


class ProcessFaults:
    """Each public method of a step's name is what that step means."""

    def __init__(self, site: Site, churn: Churn) -> None:
        self._site = site
        self._churn = churn

    @property
    def _child(self) -> Child:
        assert isinstance(self._site.mirror, Child)
        return self._site.mirror

    async def restart(self, step: Step, rand: random.Random) -> None:
        await self._site.windows.close()
        await self._site.mirror.stop()
        self._churn.write_some(rand, 20)
        await self._site.mirror.start()

    terminate = restart

    async def reconfigure(self, step: Step, rand: random.Random) -> None:
        """Another scope, where what is new adopts rows of what was; perhaps more is recorded, or less."""
        await self._site.windows.close()
        await self._site.mirror.stop()
        self._rescope(rand)
        self._churn.write_some(rand, 20)
        await self._site.mirror.start()

    async def reload(self, step: Step, rand: random.Random) -> None:
        """The same, to a daemon that goes on."""
        self._rescope(rand)
        await self._site.mirror.reload()
        self._churn.write_some(rand, 20)

    def _rescope(self, rand: random.Random) -> None:
        site = self._site
        site.distrust()
        site.rescoped = True
        site.record = rand.choice((site.record, *RECORDS))
        for name, choice in SCOPES.items():
            site.history.scopes[TYPES[name]] = rand.choice(choice)
        site.configure()

    async def kill(self, step: Step, rand: random.Random) -> None:
        await asyncio.sleep(rand.random() * START)
        await self._site.windows.close()
        await self._child.kill()
        self._churn.write_some(rand, 20)
        await self._child.start()
        await asyncio.sleep(rand.random() * START)

    async def freeze(self, step: Step, rand: random.Random) -> None:
        """Past the lease; a second daemon comes meanwhile."""
        await asyncio.sleep(rand.random() * START)
        await self._site.windows.close()
        await self._child.rival(asleep=0.5)

    async def rival(self, step: Step, rand: random.Random) -> None:
        """A second daemon beside one that is well: one of them leaves."""
        await self._site.windows.close()
        await self._child.rival()

    async def reconcile(self, step: Step, rand: random.Random) -> None:
        """Beside all else; its findings are checked against what could be wrong."""
        mirror = self._site.mirror
        if isinstance(mirror, InProcess) and mirror.daemon is not None:
            deep = rand.random() < 0.5
            self._site.windows.open(lambda: self._reconciling(mirror, deep), 0.0)

    @contextlib.asynccontextmanager
    async def _reconciling(self, mirror: Mirror, deep: bool) -> AsyncIterator[None]:
        site = self._site
        generation, doubtful = site.generation, site.history.doubtful
        reports: list[dict[str, Any]] = []
        with contextlib.suppress(TimeoutError):  # where the stream's reflector is gone with its daemon
            reports = await asyncio.wait_for(mirror.reconcile(deep=deep), 3.0)
        for report in reports:
            if generation == site.generation and report["drift"]:
                type_ = next(t for t in TYPES.values() if report["resource"].split(".")[0] == t[1])
                if not doubtful[type_] and not (report["altered"] and type_ == TYPES["widgets"]):
                    site.wrong.append(f"a reconcile invented drift: {report}")
        yield
