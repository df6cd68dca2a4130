"""One process that mirrors: it owns the database by lease, runs a supervisor for each cluster, and stops in
an order that loses nothing.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncd import __version__
from syncd.app.client import client
from syncd.app.clock import DatabaseClock
from syncd.app.cluster import KubeCluster
from syncd.app.database import configured
from syncd.app.feeding import announcing
from syncd.app.steampipe import steampipe_names
from syncd.app.viewing import shown
from syncd.config import Cluster, Config
from syncd.core.errors import FenceLost, StoreError, SyncdError
from syncd.core.recovery import Timing
from syncd.kube.client import KubeClient
from syncd.kube.connection import Connection
from syncd.logs import get
from syncd.metrics import Metrics
from syncd.store.database import Database
from syncd.store.lease import Lease
from syncd.sync.plan import Knobs
from syncd.sync.reflector import Reflector
from syncd.sync.supervisor import ClusterSettings, Shared, Supervisor

if TYPE_CHECKING:
    from syncd.app.sinks import Sinks


@dataclass(frozen=True, slots=True)
class Standing:
    """How the configuration file stands to what is in force.

    Attributes:
        file: '' where nothing is reloaded.
        error: why the file is refused and what was before it goes on, '' where it is the one in force.
    """

    file: str = ""
    error: str = ""


@dataclass(slots=True)
class _Branch:
    """One cluster's part of the daemon."""

    client: KubeClient
    supervisor: Supervisor
    task: asyncio.Task[None]


class Daemon:
    """A running mirror; see `running`.

    Attributes:
        config: what is in force.
        standing: what became of the configuration file since.
        sinks: what hands the changes on, None where nothing does.
        failure: why it had to stop by itself, None while it need not.
        stopped: set with `failure`.
    """

    def __init__(
        self, config: Config, database: Database, lease: Lease, timing: Timing, metrics: Metrics
    ) -> None:
        self.config = config
        self.metrics = metrics
        self.timing = timing
        self.clock = DatabaseClock(lease.now)
        self.mirror = database.store(lease)
        self.database = database
        self.lease = lease
        self.standing = Standing()
        self.sinks: Sinks | None = None
        self.failure: SyncdError | None = None
        self.stopped = asyncio.Event()
        self._log = get("app")
        self._branches: dict[str, _Branch] = {}
        self._keeping: asyncio.Task[None] | None = None
        self._announcing: asyncio.Task[None] | None = None

    @property
    def supervisors(self) -> list[Supervisor]:
        return [branch.supervisor for branch in self._branches.values()]

    @property
    def reflectors(self) -> list[Reflector]:
        return [reflector for supervisor in self.supervisors for reflector in supervisor.reflectors]

    @property
    def planned(self) -> bool:
        """Whether every cluster that answers has its streams."""
        return all(supervisor.planned.is_set() or supervisor.error for supervisor in self.supervisors)

    def fail(self, failure: SyncdError) -> None:
        """Stops the whole process: what it is for cannot be done."""
        if self.failure is None:
            self.failure = failure
            self._log.error("stopping", why=str(failure))
        self.stopped.set()

    def start(self, clients: Mapping[str, KubeClient]) -> None:
        """Begins to mirror: the lease is kept, every cluster is supervised."""
        for cluster in self.config.clusters:
            self.add(cluster, clients[cluster.name])
        self._keeping = asyncio.create_task(self._keep(), name="lease")
        announce = announcing(self.database, self.mirror.recorded)
        self._announcing = asyncio.create_task(announce, name="announcing")

    async def stop(self) -> None:
        """Lets the commits in flight finish, closes the watches. The lease is kept to the end."""
        ending = (self._end(branch) for branch in self._branches.values())
        await asyncio.gather(*ending, return_exceptions=True)
        for task in filter(None, (self._announcing, self._keeping)):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # --- clusters that come, change and go --------------------------------------------------------

    def connection(self, name: str) -> Connection | None:
        """How a cluster is reached at present, None where it is not mirrored."""
        branch = self._branches.get(name)
        return branch.client.connection if branch is not None else None

    def add(self, cluster: Cluster, client: KubeClient, *, patient: bool = False) -> None:
        """Begins to mirror a cluster of the configuration in force. The client is open; it is closed when
        the cluster is removed, or with the daemon.

        Args:
            patient: as for `Supervisor`.
        """
        shared = Shared(
            clock=self.clock,
            metrics=self.metrics,
            log=get("sync"),
            lease_lost=lambda: self.fail(FenceLost("another daemon has taken over this database")),
            timing=self.timing,
        )
        settings = cluster_settings(self.config, cluster)
        supervisor = Supervisor(settings, KubeCluster(client), self.mirror, shared, patient=patient)
        task = asyncio.create_task(self._supervise(supervisor), name=cluster.name)
        self._branches[cluster.name] = _Branch(client, supervisor, task)

    def owns(self, client: KubeClient) -> bool:
        """Whether the client is one that the daemon closes."""
        return any(branch.client is client for branch in self._branches.values())

    async def remove(self, name: str) -> None:
        """Ends the mirroring of a cluster. Its rows stay as they are."""
        branch = self._branches[name]
        await self._end(branch)
        for reflector in branch.supervisor.reflectors:
            self.metrics.forget(reflector.stream)
        self.metrics.forget_cluster(name)
        del self._branches[name]

    def reconfigure(self, cluster: Cluster) -> bool:
        """Gives a cluster that is mirrored what the configuration in force says of it; whether that is
        something new.
        """
        supervisor, settings = self._branches[cluster.name].supervisor, cluster_settings(self.config, cluster)
        if supervisor.settings == settings:
            return False
        supervisor.reconfigure(settings)
        return True

    async def _end(self, branch: _Branch) -> None:
        branch.task.cancel()
        await asyncio.gather(branch.task, return_exceptions=True)
        await branch.client.__aexit__(None, None, None)

    async def _supervise(self, supervisor: Supervisor) -> None:
        try:
            await supervisor.run()
        except SyncdError as error:
            self.fail(error)

    async def _keep(self) -> None:
        """Renews the lease, and with it what is known of every stream's lag."""
        while True:
            lags = {
                reflector.row.stream_id: reflector.lag()
                for reflector in self.reflectors
                if reflector.row is not None
            }
            for reflector in self.reflectors:
                self.metrics.lag(reflector.stream, reflector.lag())
                self.metrics.queue(reflector.stream, reflector.inbox.size)
            try:
                await self.lease.heartbeat(lags)
                self.metrics.heartbeat(self.clock.now().timestamp())
            except FenceLost as error:
                self.fail(FenceLost(f"another daemon has taken over this database ({error})"))
                return
            except StoreError as error:
                self.metrics.database_error("heartbeat")
                self._log.warning("the lease could not be renewed", error=str(error))
            except Exception as error:  # a fault of our own: silent, it would make every row count as stale
                self._log.error("the heartbeat failed", error=repr(error))
            await asyncio.sleep(self.timing.heartbeat)


@asynccontextmanager
async def running(
    config: Config,
    *,
    migrate: bool = True,
    timing: Timing | None = None,
) -> AsyncIterator[Daemon]:
    """A mirror that runs inside the block.

    Raises:
        ConfigError: the configuration or a kubeconfig cannot be used.
        LeaseHeld: another daemon owns the database.
        SchemaMismatch: with `migrate` False, or where the schema is newer than this version.
        StoreUnavailable: the database does not answer.
    """
    timing = timing or scaled_timing()
    async with AsyncExitStack() as stack:
        metrics = Metrics()
        clients = {
            cluster.name: await stack.enter_async_context(client(config, cluster, metrics))
            for cluster in config.clusters
        }
        database = configured(config)
        stack.push_async_callback(database.close)
        if migrate:
            await database.migrate()
        else:
            await database.check()
        lease = database.lease(socket.gethostname(), os.getpid(), __version__, timeout=timing.lease)
        await lease.acquire()
        stack.push_async_callback(lease.release)
        if await database.reorder_changes(lease):
            get("app").warning("changes came from another server: numbered anew, in their order")
        daemon = Daemon(config, database, lease, timing, metrics)
        if migrate:
            await stack.enter_async_context(shown(database, daemon.mirror.retyped))
            names = steampipe_names(database, lambda: daemon.config.views.steampipe, every=timing.heartbeat)
            await stack.enter_async_context(names)
        daemon.start(clients)
        try:
            yield daemon
        finally:
            await daemon.stop()


def scaled_timing() -> Timing:
    """The engine's durations, multiplied by $SYNCD_TIME_SCALE where tests set it."""
    return Timing().scaled(float(os.environ.get("SYNCD_TIME_SCALE", "1")))


def cluster_settings(config: Config, cluster: Cluster) -> ClusterSettings:
    """What a configuration says of one of its clusters, as a supervisor takes it."""
    limits = config.limits
    return ClusterSettings(
        name=cluster.name,
        entries=config.selections(cluster),
        exclude=config.excluded(cluster),
        labels=cluster.labels,
        snapshots=limits.concurrent_snapshots,
        knobs=Knobs(
            deletion_share=limits.deletion_share,
            queue_bytes=limits.queue_bytes,
            history=config.history.setting,
        ),
    )
