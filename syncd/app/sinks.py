"""Handing the feed on to webhooks: each sink is a task with a cursor in the database.

At least once, and in order by object: a few lanes deliver side by side, each object's changes in one of them,
and the cursor moves when a page is through. A receiver that does not answer holds up its own cursor and
nothing else; the mirror waits for none of this, and retention neither.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from datetime import datetime
from random import random
from typing import Any
from zlib import crc32

from syncd.app import feeding
from syncd.app.daemon import Daemon
from syncd.app.database import configured
from syncd.config import Sink
from syncd.core.errors import StoreError, Undelivered
from syncd.core.recovery import backoff
from syncd.logs import get
from syncd.store.database import Database
from syncd.store.feed import ChangeRecord, Purged, Wanted
from syncd.webhook import Webhook, event

PAGE = 100  # changes that are read ahead of their delivery
_LOOK = 1.0  # seconds between two looks at the configuration


class Delivery:
    """One sink at work.

    Attributes:
        settings: as configured.
        delivered: events that were acknowledged.
        oldest: of the changes that wait for their delivery, None where none is known to.
        error: why it does not get on, '' while it does.
    """

    def __init__(self, daemon: Daemon, database: Database, settings: Sink) -> None:
        self.settings = settings
        self.delivered = 0
        self.oldest: datetime | None = None
        self.error = ""
        self._daemon = daemon
        self._database = database
        self._log = get("sink")
        self._cursor = cursor_name(settings.name)

    def lag(self) -> float:
        """Seconds since the oldest undelivered change was committed; 0 when there is none."""
        if self.oldest is None:
            return 0.0
        return max(0.0, (self._daemon.clock.now() - self.oldest).total_seconds())

    async def run(self) -> None:
        """Until cancelled."""
        hook, attempt, timing = self.settings.webhook, 0, self._daemon.timing
        secret = hook.secret.get_secret_value().encode() if hook.secret is not None else b""
        async with Webhook(hook.url.get_secret_value(), secret, hook.timeout.total_seconds()) as webhook:
            while True:
                before = self.delivered
                try:
                    await self._follow(webhook)
                except StoreError as error:
                    self.error = str(error)
                    self._log.warning(
                        "sink waits for the database", sink=self.settings.name, error=self.error
                    )
                attempt = attempt + 1 if self.delivered == before else 0
                await asyncio.sleep(backoff(attempt, random, timing, timing.store_backoff_cap))

    async def _follow(self, webhook: Webhook) -> None:
        sink, database = self.settings, self._database
        start = await feeding.start(database, self._cursor, from_now=sink.begin == "now")
        await database.advance(self._cursor, start.position)
        if start.gap is not None:
            await self._tell_gap(webhook, start.gap)
        wanted = Wanted(sink.clusters, sink.namespaces, sink.kinds)
        source = feeding.pages(database, start.position, wanted, follow=True, limit=PAGE)
        async with aclosing(source) as pages:
            async for page in pages:
                self.error = ""
                await self._deliver(webhook, page.changes)
                await database.advance(self._cursor, page.upto)
                _, purged = await database.cursor(self._cursor)
                if purged is not None and purged.position > page.upto:
                    await self._tell_gap(webhook, purged)

    async def _deliver(self, webhook: Webhook, changes: Sequence[ChangeRecord]) -> None:
        lanes: dict[int, list[ChangeRecord]] = {}
        for change in changes:
            identity = f"{change.cluster} {change.api_group} {change.resource} {change.object_key}"
            lanes.setdefault(crc32(identity.encode()) % self.settings.parallel, []).append(change)
        waiting = {lane: left[0].committed_at for lane, left in lanes.items()}

        async def deliver(lane: int, left: list[ChangeRecord]) -> None:
            for change in left:
                waiting[lane] = change.committed_at
                self.oldest = min(waiting.values())
                await self._send(webhook, as_event(change))
            del waiting[lane]

        async with asyncio.TaskGroup() as group:
            for lane, left in lanes.items():
                group.create_task(deliver(lane, left))
        self.oldest = None

    async def _tell_gap(self, webhook: Webhook, gap: Purged) -> None:
        name, until = self.settings.name, gap.committed_at.isoformat()
        self._log.warning("changes were purged before they were delivered", sink=name, before=until)
        self._daemon.metrics.sink_gap(name)
        about = ("/syncd", name, until)
        data = {"purged_before": until}
        await self._send(webhook, event(f"gap-{gap.position}", "syncd.changes.purged", about, data))

    async def _send(self, webhook: Webhook, body: bytes) -> None:
        """Until it is acknowledged."""
        name, metrics, timing, attempt = self.settings.name, self._daemon.metrics, self._daemon.timing, 0
        while True:
            try:
                await webhook.send(body)
            except Undelivered as error:
                metrics.sink_failed(name)
                if not self.error:
                    self._log.warning("a sink refuses: trying again", sink=name, error=str(error))
                self.error = str(error)
                await asyncio.sleep(max(backoff(attempt, random, timing), error.retry_after))
                attempt += 1
                continue
            self.delivered += 1
            metrics.sink_delivered(name)
            if self.error:
                self._log.info("a sink takes events again", sink=name)
                self.error = ""
            return


class Sinks:
    """The sinks of the configuration in force."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._log = get("sink")
        self._running: dict[str, tuple[Delivery, asyncio.Task[None]]] = {}

    @property
    def deliveries(self) -> list[Delivery]:
        return [delivery for delivery, _ in self._running.values()]

    async def run(self) -> None:
        """Until cancelled; follows the configuration."""
        daemon = self._daemon
        # SQLite has one writer, whose turn is waited for; elsewhere sinks have connections of their own.
        own = not daemon.database.engine.is_sqlite
        database = configured(daemon.config) if own else daemon.database
        try:
            while True:
                await self._follow(database)
                for delivery in self.deliveries:
                    daemon.metrics.sink_lag(delivery.settings.name, delivery.lag())
                await asyncio.sleep(_LOOK)
        finally:
            for name in list(self._running):
                await self._end(name)
            if own:
                await database.close()

    async def _follow(self, database: Database) -> None:
        wanted = {sink.name: sink for sink in self._daemon.config.sinks}
        for name, (delivery, task) in list(self._running.items()):
            if wanted.get(name) != delivery.settings:
                await self._end(name)
                if name not in wanted:
                    self._daemon.metrics.sink_forget(name)
            elif task.done():  # a fault of our own: it begins anew, and nothing else minds
                self._log.error("sink failed", sink=name, error=repr(task.exception()))
                del self._running[name]
        for name, sink in wanted.items():
            if name not in self._running:
                delivery = Delivery(self._daemon, database, sink)
                self._running[name] = delivery, asyncio.create_task(delivery.run(), name=f"sink {name}")

    async def _end(self, name: str) -> None:
        _, task = self._running.pop(name)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def cursor_name(sink: str) -> str:
    """Of a sink, in syncd_cursors."""
    return f"sink:{sink}"


def as_event(change: ChangeRecord) -> bytes:
    """A change as a CloudEvent."""
    moment = change.committed_at.isoformat()
    data: dict[str, Any] = {
        name: getattr(change, name)
        for name in change.__slots__
        if name not in ("transaction_id", "committed_at")
    }
    data["committed_at"] = moment
    group = f".{change.api_group}" if change.api_group else ""
    about = (f"/syncd/{change.cluster}", f"{change.resource}{group}/{change.object_key}", moment)
    return event(str(change.position), f"syncd.object.{change.change_type}", about, data)
