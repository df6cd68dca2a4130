"""Letting go of clusters that the configuration no longer names: their rows become tombstones of cause
`deselected`, their streams go. What the database knows of the cluster itself stays (its uid and its epoch),
so that it can come back.
"""

from __future__ import annotations

import asyncio

from syncd.app.daemon import Daemon
from syncd.core.errors import StoreError
from syncd.core.recovery import backoff
from syncd.core.resource import Cause
from syncd.logs import get


class Departures:
    """Looks when it begins and whenever it is asked to. Only a configuration that is in force leads here: one
    that could not be loaded never does.
    """

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._asked = asyncio.Event()
        self._asked.set()
        self._busy = asyncio.Lock()
        self._log = get("app")

    def look(self) -> None:
        """Some cluster may be gone."""
        self._asked.set()

    async def quiet(self) -> None:
        """Waits until nothing is being let go of: a cluster that comes back begins after that."""
        async with self._busy:
            return

    async def run(self) -> None:
        """Until cancelled. A database that is away is asked again."""
        timing, attempt = self._daemon.timing, 0
        while True:
            await self._asked.wait()
            self._asked.clear()
            try:
                for name in await self._daemon.database.clusters():
                    async with self._busy:
                        await self._let_go(name)
                attempt = 0
            except StoreError as error:
                say = self._log.debug if attempt else self._log.warning
                say("clusters that are no longer configured stay for now", error=str(error))
                self._asked.set()
                await asyncio.sleep(backoff(attempt, lambda: 0.5, timing, timing.store_backoff_cap))
                attempt += 1

    async def _let_go(self, name: str) -> None:
        daemon = self._daemon
        configured = any(cluster.name == name for cluster in daemon.config.clusters)
        if configured or daemon.connection(name) is not None:
            return
        streams = await daemon.mirror.streams(name)
        self._log.info("cluster no longer configured: letting go of it", cluster=name, streams=len(streams))
        # First, while a stream still tells that there is something to let go of.
        await daemon.mirror.keep_definitions(name, (), await daemon.mirror.definitions(name))
        rows = 0
        for stream in streams:
            rows += await daemon.mirror.retire(stream.stream_id, cause=Cause.DESELECTED)
        self._log.info("cluster retired", cluster=name, streams=len(streams), rows=rows)
