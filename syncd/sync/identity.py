"""Whether the cluster behind the URL is still the one that the table is a mirror of."""

from __future__ import annotations

import asyncio

from syncd.core.errors import FenceLost
from syncd.core.ports import ClusterApi, ClusterSeen, Registry
from syncd.sync.environment import Log


class Identity:
    """Asks for the uid of kube-system, once for all streams that wonder at the same time.

    Args:
        seen: the cluster as configured; uid and version are filled in by what answers.

    Attributes:
        labels: as configured; another value is recorded with the next answer.
    """

    def __init__(self, api: ClusterApi, registry: Registry, log: Log, seen: ClusterSeen) -> None:
        self._api = api
        self._registry = registry
        self._log = log
        self._seen = seen
        self._task: asyncio.Task[bool] | None = None
        self._number = 0
        self._candidate = ""
        self.version = ""
        self.labels = seen.labels

    async def verify(self) -> None:
        """Returns once an answer to a question asked after this call says that nothing changed.

        Raises:
            FenceLost: another cluster answers; a new epoch has begun for all of its streams.
            SyncdError: of the API or the database.
        """
        asked_before = self._number
        while True:
            if self._task is None or self._task.done():
                self._number += 1
                self._task = asyncio.create_task(self._ask())
            number, task = self._number, self._task
            changed = await asyncio.shield(task)
            if number > asked_before:
                if changed:
                    raise FenceLost("another cluster answers")
                return

    async def stop(self) -> None:
        """Gives up a question that nobody waits for any more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def follow_version(self) -> None:
        """Notices an upgrade. While it rolls through several servers they answer differently, so a new
        version counts when it was answered twice running: every document is compared again because of it.
        """
        version = await self._api.version()
        if version == self._candidate:
            self.version = version
        self._candidate = version

    async def _ask(self) -> bool:
        """Records what is new; True where it is another cluster."""
        uid, weak = await self._api.identity()
        version = self.version or await self._api.version()
        seen = ClusterSeen(self._seen.name, uid, self._seen.server, version, self.labels, weak)
        self.version = version
        if seen == self._seen:
            return False
        changed = await self._registry.see_cluster(seen)
        self._seen = seen
        if changed:
            self._log.warning("another cluster behind the URL: a new epoch", cluster=seen.name, uid=uid)
        return changed
