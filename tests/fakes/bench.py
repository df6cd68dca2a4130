"""A reflector on the bench: a fake API server, a real database, time that costs nothing."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import time
from collections.abc import Callable
from typing import Any

from syncd.core.change import StreamRow
from syncd.core.document import Transform
from syncd.core.ports import ClusterSeen, Report
from syncd.core.recovery import Timing
from syncd.core.resource import State, Stream
from syncd.metrics import Metrics
from syncd.store.database import Database
from syncd.store.lease import Lease
from syncd.store.sqlite import SqliteWriter
from syncd.sync.environment import Environment, Settings
from syncd.sync.identity import Identity
from syncd.sync.reconcile import Order, Reconcile
from syncd.sync.reflector import Reflector
from tests.fakes.api import FakeApi
from tests.fakes.clock import FakeClock
from tests.fakes.store import FaultyStore

PATIENCE = 20.0  # real seconds; a busy machine is given plenty


class Lines:
    """A log that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, dict[str, Any]]] = []

    def debug(self, event: str, **about: Any) -> None:
        self.lines.append(("debug", event, about))

    def info(self, event: str, **about: Any) -> None:
        self.lines.append(("info", event, about))

    def warning(self, event: str, **about: Any) -> None:
        self.lines.append(("warning", event, about))

    def error(self, event: str, **about: Any) -> None:
        self.lines.append(("error", event, about))

    def events(self, level: str) -> list[str]:
        return [event for each, event, _ in self.lines if each == level]


class Bench:
    """One cluster with one resource, its mirror, and the reflectors that were started."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.api = FakeApi()
        self.clock = FakeClock()
        self.log = Lines()
        self.metrics = Metrics()
        self.database = Database(url)
        self.timing = Timing(catch_up=1.0)
        self.lease: Lease
        self.store: FaultyStore
        self.identity: Identity
        self.leases_lost = 0
        self.distrusted: list[Stream] = []
        self.missed: list[Stream] = []
        self.unretrieved: list[str] = []
        self.reflector: Reflector
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda _loop, context: self.unretrieved.append(str(context))
        )
        await self.database.migrate()
        await self.take_lease()

    async def take_lease(self) -> None:
        """A new holder of the database, as after a restart of the process."""
        self.lease = self.database.lease("bench", 1, "test")
        await self.lease.acquire()
        self.store = FaultyStore(self.database.engine, self.lease, SqliteWriter())
        self.store.commits = []
        self.mirror(self.api)

    def mirror(self, api: FakeApi) -> None:
        """This cluster, instead of one with pods."""
        self.api = api
        seen = ClusterSeen("prod", "", api.server, "")
        self.identity = Identity(api, self.store, self.log, seen)

    def environment(self, **changes: Any) -> Environment:
        return Environment(
            api=self.api,
            store=self.store,
            clock=self.clock,
            metrics=self.metrics,
            log=self.log,
            verify=self.identity.verify,
            missed=self.missed.append,
            distrusted=self.distrusted.append,
            lease_lost=self._lost,
            timing=self.timing,
            **{"random": lambda: 0.0, **changes},
        )

    def _lost(self) -> None:
        self.leases_lost += 1

    def settings(self, **changes: Any) -> Settings:
        about: dict[str, Any] = {"transform": Transform(self.api.resource), "projection": "p"}
        return Settings(**{**about, **changes})

    def start(self, settings: Settings | None = None, stream: Stream | None = None) -> Reflector:
        """Runs a reflector; the last one started is `reflector`."""
        stream = stream or Stream("prod", self.api.resource)
        self.reflector = Reflector(self.environment(), stream, settings or self.settings())
        self._tasks.append(asyncio.create_task(self.reflector.run()))
        return self.reflector

    async def live(self, settings: Settings | None = None) -> Reflector:
        """Starts one and waits until its watch is open."""
        reflector = self.start(settings)
        await self.watching(reflector)
        return reflector

    async def watching(self, reflector: Reflector) -> None:
        """Waits until the open watch is recorded."""

        def opened() -> bool:
            return any(batch.marks.deadline_at for batch, _ in self.store.commits)

        await self.until(lambda: self.api.open and reflector.live and opened() and not self.store.busy)

    async def stop(self) -> None:
        """Ends every reflector as a shutdown does."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    async def restart(self, settings: Settings | None = None) -> Reflector:
        """Another life of the process; what it asks and commits is counted from here."""
        await self.stop()
        await self.lease.release()
        await self.take_lease()
        self.api.lists.clear()
        self.api.watches.clear()
        return self.start(settings)

    async def reconcile(self, **order: Any) -> Report:
        return await Reconcile(self.environment(), self.reflector, Order(**order)).run()

    async def close(self) -> None:
        await self.stop()
        await self.clock.close()
        await self.lease.close()
        await self.database.close()
        gc.collect(1)  # a task that was forgotten tells its error when it is collected
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        assert not left, f"tasks left running: {left}"
        assert not self.unretrieved, self.unretrieved

    # --- looking ----------------------------------------------------------------------------------

    async def until(self, condition: Callable[[], object]) -> None:
        """Polls until it is true."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, f"it never came true; {self.log.lines[-5:]}"
            await asyncio.sleep(0.001)

    async def level(self) -> None:
        """Waits until the table is what the cluster is."""
        await self.until(lambda: self.table() == self.cluster() and not self.store.busy)

    async def reached(self, version: int | None = None) -> None:
        """Waits until the checkpoint is at the cluster's version; asks for it with a bookmark."""

        def bookmarks() -> int:
            return len([batch for batch, _ in self.store.commits if batch.marks.last_bookmark_at])

        before, want = bookmarks(), str(version or self.api.rv)
        self.api.bookmark()
        await self.until(lambda: bookmarks() > before and self.row().resource_version == want)
        await self.until(lambda: not self.store.busy and self.reflector.inbox.empty)

    def cluster(self) -> dict[str, str]:
        return {key: value["metadata"]["resourceVersion"] for key, value in self.api.objects.items()}

    def table(self) -> dict[str, str]:
        return dict(self.look("SELECT object_key, resource_version FROM syncd_objects"))

    def tombstones(self) -> set[tuple[str, str, str]]:
        """(key, version, cause)."""
        return set(self.look("SELECT object_key, resource_version, cause FROM syncd_deleted_objects"))

    def drift(self) -> set[tuple[str, str]]:
        return set(self.look("SELECT finding, object_key FROM syncd_drift"))

    def row(self) -> StreamRow:
        """The stream's row as committed."""
        columns = "stream_id, holder, epoch, projection, state, resource_version, object_count"
        one = self.look(f"SELECT {columns} FROM syncd_streams")[0]
        return StreamRow(one[0], one[1], one[2], one[3], State(one[4]), one[5], one[6])

    def look(self, query: str) -> list[tuple[Any, ...]]:
        """A query in a session of its own."""
        session = sqlite3.connect(self.url.removeprefix("sqlite:///"), isolation_level=None, timeout=10)
        try:
            return session.execute(query).fetchall()
        finally:
            session.close()

    async def spoil(self, *statements: str) -> None:
        """Changes the tables behind syncd's back; it may have to wait for a commit."""
        for statement in statements:
            await asyncio.to_thread(self.look, statement)

    def written(self) -> int:
        """Rows and tombstones written since the process began."""
        return sum(
            done.inserted + done.updated + done.deleted + done.tombstones for _, done in self.store.commits
        )
