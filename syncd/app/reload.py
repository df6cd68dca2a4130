"""The configuration while the daemon runs: it is read again at SIGHUP and when a file of it changes, and what
it changes is changed. One reload at a time; what is asked meanwhile is one more after it.

A reload has two halves. Everything that can be refused is refused in the first, which leaves all as it was:
the file, the database, entries that contradict each other, kubeconfigs, the address. The second cannot fail.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from syncd.app.client import client
from syncd.app.daemon import Daemon, Standing, cluster_settings
from syncd.app.departure import Departures
from syncd.app.front import Front
from syncd.app.watching import Watching
from syncd.config import Cluster, Config, inputs, load
from syncd.core.errors import ConfigError
from syncd.kube.client import KubeClient
from syncd.kube.kubeconfig import kubeconfig_files
from syncd.logs import configure, get
from syncd.scheduler import check_cron

RETRY = 10
"""Heartbeats between two tries at a file that is refused: what is wrong may lie beside it, like an address
that is in use or a certificate that is not there yet."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the configuration comes from.

    Attributes:
        hangup: set when somebody asks for a reload.
    """

    path: Path
    environ: Mapping[str, str]
    hangup: asyncio.Event = field(default_factory=asyncio.Event)

    def load(self) -> Config:
        """What the file says now. Raises ConfigError where it cannot be used."""
        return load(self.path, self.environ)

    def reloaded(self, before: Config) -> Config:
        """What the file says now, or what it said before where that cannot be used, which is logged."""
        self.hangup.clear()
        try:
            return self.load()
        except ConfigError as error:
            log = get("app")
            log.error("configuration refused: the one before stays", file=str(self.path), error=str(error))
            return before

    def kubeconfigs(self, config: Config) -> set[Path]:
        """The kubeconfig files of all clusters, whether they are there or not."""
        home = Path(self.environ.get("HOME") or Path.home())
        return {
            file
            for cluster in config.clusters
            for file in kubeconfig_files(
                str(cluster.kubeconfig) if cluster.kubeconfig else None, self.environ, home
            )
        }


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a daemon has beside its supervisors that follows the configuration.

    Attributes:
        reschedule: makes the schedule that of the second configuration, given the first.
    """

    front: Front
    departures: Departures
    reschedule: Callable[[Config, Config], None]


class Reloading:
    """Keeps a daemon at what its configuration file says."""

    def __init__(self, daemon: Daemon, origin: Origin, surroundings: Surroundings) -> None:
        self._daemon = daemon
        self._origin = origin
        self._around = surroundings
        self._watching = Watching(daemon.timing.heartbeat * 2 / 3)
        self._log = get("app")
        daemon.standing = Standing(str(origin.path))

    async def run(self) -> None:
        """Until cancelled. Begins with a look at whether the file is still the one that was loaded."""
        await self._reload(asked=False)
        while True:
            asked = await self._wait()
            self._origin.hangup.clear()
            await self._reload(asked=asked)

    async def _wait(self) -> bool:
        """Until there is a reason to read the file again; whether it is more than another try."""
        reasons = [
            asyncio.create_task(self._origin.hangup.wait()),
            asyncio.create_task(self._watching.changed()),
        ]
        patience = self._daemon.timing.heartbeat * RETRY if self._daemon.standing.error else None
        try:
            done, _ = await asyncio.wait(reasons, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            return bool(done)
        finally:
            for each in reasons:
                each.cancel()
            await asyncio.gather(*reasons, return_exceptions=True)

    async def _reload(self, *, asked: bool) -> None:
        """One reload, and what is said of it: of a mere look only what is new."""
        daemon = self._daemon
        file, before = str(self._origin.path), daemon.standing.error
        try:
            changes = await self._follow()
        except ConfigError as error:
            if asked or str(error) != before:
                self._log.error("configuration refused: the one before stays", file=file, error=str(error))
                daemon.metrics.config_reloaded("refused")
            daemon.standing = Standing(file, str(error))
            return
        except Exception as error:  # a fault of our own must not end what runs
            self._log.error("reload failed", file=file, error=repr(error))
            daemon.metrics.config_reloaded("refused")
            daemon.standing = Standing(file, f"reload failed: {error!r}")
            return
        daemon.standing = Standing(file)
        if changes:
            self._log.info("configuration applied", file=file, **changes)
            daemon.metrics.config_reloaded("applied")
        elif asked or before:
            self._log.info("configuration unchanged", file=file)
            daemon.metrics.config_reloaded("unchanged")

    # --- the first half: may it be? ---------------------------------------------------------------

    async def _follow(self) -> dict[str, list[str]]:
        """Reads the file and follows it; what changed, by kind of change.

        Raises:
            ConfigError: nothing has changed.
        """
        daemon, origin = self._daemon, self._origin
        old = daemon.config
        files = inputs(origin.path, origin.environ) | origin.kubeconfigs(old)
        await self._watching.note(files)
        self._watching.only(files)
        new = origin.load()
        await self._watching.note(origin.kubeconfigs(new) - files)
        self._check(old, new)
        opened: dict[str, KubeClient] = {}
        try:
            await self._open(new, opened)
            await self._around.front.move(new.server.address)
            return await self._apply(old, new, opened)
        finally:
            for each in opened.values():
                if not daemon.owns(each):
                    await each.__aexit__(None, None, None)

    def _check(self, old: Config, new: Config) -> None:
        if new.database != old.database:
            key = "schema" if new.database.url == old.database.url else "url"
            raise ConfigError(
                f"{self._origin.path}: database.{key} needs a restart: another database is another mirror"
            )
        for cluster in new.clusters:
            cron = new.schedule(cluster).cron
            if cron is not None:
                check_cron(cron)
        clusters = {cluster.name: cluster for cluster in new.clusters}
        for supervisor in self._daemon.supervisors:
            name = supervisor.settings.name
            if name in clusters:
                supervisor.check(cluster_settings(new, clusters[name]))

    async def _open(self, new: Config, opened: dict[str, KubeClient]) -> None:
        """A client for each cluster that is new or reached in another way."""
        for cluster in new.clusters:
            fresh = client(new, cluster, self._daemon.metrics)
            if fresh.connection != self._daemon.connection(cluster.name):
                opened[cluster.name] = fresh
                await fresh.__aenter__()

    # --- the second half: so be it ----------------------------------------------------------------

    async def _apply(
        self, old: Config, new: Config, opened: Mapping[str, KubeClient]
    ) -> dict[str, list[str]]:
        daemon = self._daemon
        daemon.config = new
        if new.log != old.log:
            configure(new.log.format, new.log.level)
        self._around.reschedule(old, new)
        names = {cluster.name for cluster in new.clusters}
        changes: dict[str, list[str]] = {"removed": [], "added": [], "reconnected": [], "changed": []}
        for supervisor in daemon.supervisors:
            name = supervisor.settings.name
            if name not in names:
                await daemon.remove(name)
                changes["removed"].append(name)
        for cluster in new.clusters:
            kind = await self._apply_to(cluster, opened.get(cluster.name))
            if kind:
                changes[kind].append(cluster.name)
        self._around.departures.look()
        changes["keys"] = [key for key in type(new).model_fields if getattr(new, key) != getattr(old, key)]
        return {kind: what for kind, what in changes.items() if what}

    async def _apply_to(self, cluster: Cluster, fresh: KubeClient | None) -> str:
        """Brings one cluster to what the configuration in force says; the kind of change, '' for none."""
        daemon = self._daemon
        if fresh is None:
            return "changed" if daemon.reconfigure(cluster) else ""
        known = daemon.connection(cluster.name) is not None
        if known:
            await daemon.remove(cluster.name)
        else:
            await self._around.departures.quiet()
        daemon.add(cluster, fresh, patient=True)
        return "reconnected" if known else "added"
