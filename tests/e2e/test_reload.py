"""The configuration changes under a running daemon: only what it touches moves, which its requests tell."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from syncd.app.daemon import Daemon, running
from syncd.app.reload import Origin
from syncd.app.service import Service
from syncd.core.recovery import Timing
from syncd.simulator.server import write_kubeconfig
from syncd.sync.reflector import Reflector
from tests.e2e.world import CONFIGMAPS, DEPLOYMENTS, PODS, QUICK, SECRETS, World, until

Touched = set[tuple[str, str, str]]
"""(cluster, resource, namespace) of the streams that asked for something."""

BASE = ["pods", "configmaps", {"name": "secrets"}]


def at_rest(reflector: Reflector) -> bool:
    """Live, and nothing is asked of it."""
    row = reflector.row
    settled = row is not None and row.projection == reflector.settings.projection
    return reflector.live and settled and reflector.inbox.empty


class Followed:
    """A daemon that follows its file."""

    def __init__(self, world: World, daemon: Daemon, origin: Origin) -> None:
        self.world = world
        self.daemon = daemon
        self.origin = origin

    def reloads(self) -> dict[str, float]:
        """How many there were, by result."""
        text = self.daemon.metrics.render()[0].decode()
        return {
            sample.labels["result"]: sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == "syncd_config_reloads_total"
        }

    def valid(self) -> bool:
        return "syncd_config_valid 1.0" in self.daemon.metrics.render()[0].decode()

    def asked(self) -> list[tuple[str, str, str, str]]:
        """(verb or `probe`, cluster, resource, namespace) of every request of a stream; the token tells the
        cluster.
        """
        return [
            ("probe" if request.probes else request.verb, request.token, request.resource, request.namespace)
            for request in self.world.simulator.requests
            if request.verb in ("list", "watch")
            and request.token != "test"
            and request.resource != "customresourcedefinitions"
        ]

    async def quiet(self) -> None:
        """Until every cluster is as configured and every stream watches."""
        daemon = self.daemon

        def done() -> bool:
            assert daemon.failure is None, daemon.failure
            last = {(cluster, resource, place): verb for verb, cluster, resource, place in self.asked()}
            streams = [reflector.stream for reflector in daemon.reflectors]
            keys = [(stream.cluster, stream.resource.name, stream.namespace) for stream in streams]
            return (
                all(one._applied and one._applied[2] == one.settings for one in daemon.supervisors)
                and all(map(at_rest, daemon.reflectors))
                and all(last.get(key) == "watch" for key in keys)
            )

        await until(done, "every stream watches")

    async def change(self, *resources: Any, **more: Any) -> Touched:
        """Writes another file and asks for a reload; which streams asked for anything because of it."""
        self.world.write_config(*resources, **more)
        return await self.reload()

    async def reload(self) -> Touched:
        before, asked = sum(self.reloads().values()), len(self.asked())
        self.origin.hangup.set()
        await until(lambda: sum(self.reloads().values()) == before + 1, "it is reloaded")
        await self.quiet()
        return {(cluster, resource, place) for _, cluster, resource, place in self.asked()[asked:]}


@asynccontextmanager
async def followed(
    world: World, path: Path, *, timing: Timing = QUICK, live: bool = True
) -> AsyncIterator[Followed]:
    """A daemon of this file, in this process; it stops without a complaint."""
    origin = Origin(path, {"HOME": str(world.directory)})
    async with running(origin.load(), timing=timing) as daemon:
        stop = asyncio.Event()
        service = asyncio.create_task(Service(daemon, origin).run(stop))
        made = Followed(world, daemon, origin)
        try:
            if live:
                await made.quiet()
            yield made
            assert daemon.failure is None
        finally:
            stop.set()
            await service


def populate(world: World) -> None:
    world.workload.pods(40)
    world.workload.configmaps(20)
    world.workload.secrets(10)
    world.workload.deployments(10)
    write_kubeconfig(world.kubeconfig, world.url, token="c")


def cluster(world: World, name: str = "c", **more: Any) -> dict[str, Any]:
    """A cluster's entry: the same simulated cluster, with a token that tells who asks."""
    path = world.directory / f"kubeconfig-{name}"
    if not path.exists():
        write_kubeconfig(path, world.url, token=name)
    return {"name": name, "kubeconfig": str(path), **more}


async def get(url: str, path: str) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False) as client:
        return await client.get(url + path)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


async def test_ten_kinds_of_change(world: World) -> None:
    populate(world)
    c = cluster(world)
    path = world.write_config(*BASE, clusters=[c])
    async with followed(world, path) as it:
        daemon = it.daemon
        # 1. a resource more
        assert await it.change(*BASE, "deployments", clusters=[c]) == {("c", "deployments", "")}
        await world.level(PODS, CONFIGMAPS, SECRETS, DEPLOYMENTS)
        # 2. an exclusion
        assert await it.change(*BASE, "deployments", clusters=[c], exclude=["deployments"]) == set()
        await until(lambda: not world.table.rows(*DEPLOYMENTS), "its rows leave")
        assert {cause for cause, _, _ in world.table.tombstones("deployments").values()} == {"deselected"}
        # 3. namespaces: its own rows are adopted, the others leave
        first_seen = "SELECT object_key, first_seen_at FROM syncd_objects WHERE namespace = 'load-1'"
        before = world.table.ask(f"{first_seen} AND resource = 'pods' ORDER BY 1")
        pods: list[Any] = [{"name": "pods", "namespaces": ["load-1"]}, *BASE[1:]]
        assert await it.change(*pods, clusters=[c]) == {("c", "pods", "load-1")}
        assert world.table.ask(f"{first_seen} AND resource = 'pods' ORDER BY 1") == before
        assert len(world.table.rows(*PODS)) == len(before) > 0
        # 4. a selector
        chosen = {"name": "configmaps", "field_selector": "metadata.namespace=load-1"}
        assert await it.change(pods[0], chosen, pods[2], clusters=[c]) == {("c", "configmaps", "")}
        await until(
            lambda: {row.namespace for row in world.table.rows(*CONFIGMAPS).values()} == {"load-1"},
            "what is not selected leaves",
        )
        # 5. sizes and bounds: taken over where the streams stand
        smaller = [{**pods[0], "page_size": 7}, chosen, pods[2]]
        limits = {"concurrent_snapshots": 1, "deletion_share": 0.9, "queue_bytes": "2MiB"}
        assert await it.change(*smaller, clusters=[c], limits=limits) == set()
        assert {one.settings.queue_bytes for one in daemon.reflectors} == {2 * 2**20}
        # 6. redaction: that stream compares content
        stored = [*smaller[:2], {"name": "secrets", "redact": "none"}]
        assert await it.change(*stored, clusters=[c], limits=limits) == {("c", "secrets", "")}
        assert all("redacted" not in str(row.document) for row in world.table.rows(*SECRETS).values())
        # 7. labels
        labelled = {**c, "labels": {"env": "prod"}}
        assert await it.change(*stored, clusters=[labelled], limits=limits) == set()
        await until(
            lambda: "prod" in str(world.table.one("SELECT labels FROM syncd_clusters")), "they are kept"
        )
        # 8. schedule, retention, log
        same = {"clusters": [labelled], "limits": limits}
        quiet = {"reconcile": {"every": "7h"}, "deleted_objects": {"keep": "2h"}, "log": {"format": "json"}}
        assert await it.change(*stored, **same, **quiet) == set()
        assert daemon.config.deleted_objects.keep.total_seconds() == 7200
        # 9. the address
        port = free_port()
        assert await it.change(*stored, **same, **quiet, server={"listen": f"127.0.0.1:{port}"}) == set()
        assert (await get(f"http://127.0.0.1:{port}", "/readyz")).status_code == 200
        # 10. a cluster more
        same = {"clusters": [labelled, cluster(world, "d", resources=["pods"])], "limits": limits}
        assert await it.change(*stored, **same, **quiet) == {("d", "pods", "")}
        assert len(world.table.rows(*PODS, cluster="d")) == 40
        # 11. another login: that cluster goes on from its checkpoints, and lists nothing
        write_kubeconfig(world.directory / "kubeconfig-d", world.url, token="d", namespace="elsewhere")
        asked = len(it.asked())
        assert await it.reload() == {("d", "pods", "")}
        assert [verb for verb, *_ in it.asked()[asked:]] == ["probe", "watch"]
        # 12. a cluster less
        assert await it.change(*stored, clusters=[labelled], limits=limits, **quiet) == set()
        await until(lambda: not world.table.rows(*PODS, cluster="d"), "its rows leave")
        # 13. nothing
        assert await it.reload() == set()
        assert it.reloads() == {"applied": 12.0, "unchanged": 1.0}
        assert it.valid()
