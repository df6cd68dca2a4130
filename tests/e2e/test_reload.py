"""The configuration changes under a running daemon: only what it touches moves, which its requests tell."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from syncd.app.daemon import Daemon, running
from syncd.app.departure import Departures
from syncd.app.reload import Origin, Reloading
from syncd.app.service import Service
from syncd.core.recovery import Timing
from syncd.simulator.server import write_kubeconfig
from syncd.sync.reflector import Reflector
from tests.conftest import DatabasePlace
from tests.e2e.world import CONFIGMAPS, DEPLOYMENTS, PODS, QUICK, SECRETS, World, until

Touched = set[tuple[str, str, str]]
"""(cluster, resource, namespace) of the streams that asked for something."""

BASE = ["pods", "configmaps", {"name": "secrets"}]


@pytest.fixture
def place(sqlite_place: DatabasePlace) -> DatabasePlace:
    """What is shown here is the same on every database."""
    return sqlite_place


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
        # A probe is asked where the newest object is; the watch after it tells whose it was.
        return {
            (cluster, resource, place)
            for verb, cluster, resource, place in self.asked()[asked:]
            if verb != "probe"
        }


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


async def test_a_file_that_is_invalid_is_refused_and_the_next_good_one_is_not(world: World) -> None:
    populate(world)
    port = free_port()
    common: dict[str, Any] = {"clusters": [cluster(world)], "server": {"listen": f"127.0.0.1:{port}"}}
    path = world.write_config("pods", **common)
    async with followed(world, path) as it:

        async def configuration() -> dict[str, Any]:
            found: dict[str, Any] = (await get(f"http://127.0.0.1:{port}", "/status")).json()["configuration"]
            return found

        assert await configuration() == {"file": str(path), "valid": True, "error": ""}
        refused: list[tuple[list[Any], dict[str, Any], tuple[str, ...]]] = [
            (["pods"], {"serverr": {}, "limits": {"deletion_share": 7}}, ("2 problems", "`server`", "100%")),
            (["pods"], {"database": {"url": "sqlite:////elsewhere.db"}}, ("database.url needs a restart",)),
            (["pods"], {"clusters": [cluster(world, "c", context="gone")]}, ("no context 'gone'",)),
            (["pods"], {"reconcile": {"cron": "0 0 31 2 *"}}, ("never comes",)),
            (["pods", {"name": "po", "label_selector": "a=b"}], {}, ('"pods"', '"po"', "both select")),
            (
                ["pods"],
                {"server": {"listen": f"127.0.0.1:{world.url.rpartition(':')[2]}"}},
                ("cannot listen",),
            ),
        ]
        for number, (resources, more, words) in enumerate(refused, 1):
            assert await it.change(*resources, **{**common, **more}) == set()
            assert it.reloads() == {"refused": number}
            assert not it.valid()
            shown = await configuration()
            assert not shown["valid"]
            assert all(word in shown["error"] for word in words), shown
        world.workload.pods(50)  # the one before is in force
        await world.level(PODS)
        assert await it.change("pods", "secrets", **common) == {("c", "secrets", "")}
        assert it.valid()
        assert await configuration() == {"file": str(path), "valid": True, "error": ""}
        assert it.reloads() == {"refused": len(refused), "applied": 1.0}


async def test_what_is_wrong_beside_the_file_is_tried_again(world: World) -> None:
    """An address that somebody else has: nothing changes in the file when it becomes free."""
    populate(world)
    path = world.write_config("pods", clusters=[cluster(world)])
    async with followed(world, path) as it:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            await it.change("pods", clusters=[cluster(world)], server={"listen": f"127.0.0.1:{port}"})
            assert it.reloads() == {"refused": 1}
        await until(it.valid, "it is tried again")
        assert (await get(f"http://127.0.0.1:{port}", "/livez")).status_code == 200
        # The same port on every interface: its own socket is in the way, and makes room.
        await it.change("pods", clusters=[cluster(world)], server={"listen": f":{port}"})
        assert (await get(f"http://127.0.0.1:{port}", "/livez")).status_code == 200
        assert it.valid()


async def test_a_mounted_configmap_is_swapped(world: World) -> None:
    """The kubelet writes a new directory and renames one link; nobody sends a signal."""
    populate(world)
    mount = world.directory / "mount"
    mount.mkdir()
    (mount / "syncd.yaml").symlink_to("..data/syncd.yaml")

    def publish(number: int, *resources: Any, **more: Any) -> None:
        version = mount / f"..version-{number}"
        version.mkdir()
        written = world.write_config(*resources, clusters=[cluster(world)], **more)
        (version / "syncd.yaml").write_bytes(written.read_bytes())
        (mount / "..data_tmp").symlink_to(version.name)
        os.replace(mount / "..data_tmp", mount / "..data")

    publish(1, "pods")
    async with followed(world, mount / "syncd.yaml") as it:
        publish(2, "pods", "secrets")
        await until(lambda: world.table.rows(*SECRETS), "the new file is followed")
        assert it.reloads() == {"applied": 1}
        publish(3, "pods", "secrets")  # the same again
        publish(4, "pods", serverr={})
        await until(lambda: it.reloads().get("refused") == 1, "the invalid file is refused")
        publish(5, "pods", "secrets")
        await until(it.valid, "the good one is taken")
        assert it.reloads() == {"applied": 1, "refused": 1, "unchanged": 1}


async def test_files_that_the_configuration_names_are_followed(world: World) -> None:
    """A `${file:…}` and a kubeconfig, which is away for a moment."""
    populate(world)
    selector = world.directory / "selector"
    selector.write_text("metadata.namespace=load-1\n")
    entry = {"name": "configmaps", "field_selector": "${file:selector}"}
    path = world.write_config(entry, "pods", clusters=[cluster(world)])
    async with followed(world, path) as it:
        asked = len(it.asked())
        selector.write_text("metadata.namespace=load-2\n")
        await until(
            lambda: {row.namespace for row in world.table.rows(*CONFIGMAPS).values()} == {"load-2"},
            "the selector's file is followed",
        )
        await it.quiet()
        assert {resource for _, _, resource, _ in it.asked()[asked:]} == {"configmaps"}
        kubeconfig = world.directory / "kubeconfig-c"
        kubeconfig.unlink()
        await until(lambda: not it.valid(), "it is said that the kubeconfig is gone")
        assert all(reflector.live for reflector in it.daemon.reflectors)
        asked = len(it.asked())
        write_kubeconfig(kubeconfig, world.url, token="c", namespace="other")
        await until(it.valid, "it is back")
        await it.quiet()
        assert {verb for verb, *_ in it.asked()[asked:]} == {"probe", "watch"}
        await world.level(PODS)


async def test_a_cluster_is_removed_and_comes_back(world: World) -> None:
    populate(world)
    world.workload.widgets(1)
    c, d = cluster(world), cluster(world, "d")
    path = world.write_config("pods", "secrets", clusters=[c, d])
    async with followed(world, path) as it:
        metrics = it.daemon.metrics
        assert await it.change("pods", "secrets", clusters=[c]) == set()
        clusters = "SELECT DISTINCT cluster FROM syncd_streams"
        await until(lambda: world.table.ask(clusters) == [("c",)], "its streams leave")
        assert not world.table.rows(*PODS, cluster="d")
        causes = "SELECT DISTINCT cluster, cause FROM syncd_deleted_objects"
        assert world.table.ask(causes) == [("d", "deselected")]
        assert world.table.ask("SELECT DISTINCT cluster FROM syncd_definitions") == [("c",)]
        assert b'cluster="d"' not in metrics.render()[0]
        assert await it.change("pods", "secrets", clusters=[c, d]) == {
            ("d", "pods", ""),
            ("d", "secrets", ""),
        }
        assert len(world.table.rows(*PODS, cluster="d")) == 40
        assert world.table.ask("SELECT name, epoch FROM syncd_clusters ORDER BY 1") == [("c", 1), ("d", 1)]


async def test_a_cluster_that_is_no_longer_named_at_the_start_is_let_go_of(world: World) -> None:
    populate(world)
    c, d = cluster(world), cluster(world, "d")
    async with followed(world, world.write_config("pods", clusters=[c, d])):
        pass
    async with world.running("pods", clusters=[c]):  # a command, and not the daemon
        assert len(world.table.rows(*PODS, cluster="d")) == 40
    world.write_config("podz", clusters=[d], limits={"queue_bytes": "1B"})
    code, output = await world.syncd("run")
    assert code == 2, output
    assert len(world.table.rows(*PODS, cluster="d")) == 40  # what could not be loaded decides nothing
    async with followed(world, world.write_config("pods", clusters=[c])):
        await until(lambda: not world.table.rows(*PODS, cluster="d"), "its rows leave")
        assert len(world.table.rows(*PODS)) == 40


async def test_a_cluster_that_answers_later_may_contradict_the_entries_and_ends_nothing(world: World) -> None:
    populate(world)
    away = cluster(world, "d")
    write_kubeconfig(Path(away["kubeconfig"]), f"http://127.0.0.1:{free_port()}", token="d")
    path = world.write_config("pods", clusters=[cluster(world), away])
    async with followed(world, path, live=False) as it:
        await until(lambda: all(one.planned.is_set() or one.error for one in it.daemon.supervisors), "one is")
        entries = ["pods", {"name": "po", "label_selector": "a=b"}]
        away["resources"] = entries
        world.write_config("pods", clusters=[cluster(world), away])
        it.origin.hangup.set()
        await until(lambda: it.reloads() == {"applied": 1}, "it is not known to be wrong")
        write_kubeconfig(Path(away["kubeconfig"]), world.url, token="d")
        await until(
            lambda: any("both select" in "".join(one.problems) for one in it.daemon.supervisors), "it is told"
        )
        assert it.daemon.failure is None
        away["resources"] = ["pods"]
        assert await it.change("pods", clusters=[cluster(world), away]) == {("d", "pods", "")}


async def test_quick_changes_are_one_reload_and_none_runs_beside_another(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    populate(world)
    path = world.write_config("pods", clusters=[cluster(world)])
    gate, inside, most = asyncio.Event(), 0, 0
    follow = Reloading._follow

    async def slow(self: Reloading) -> dict[str, list[str]]:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        try:
            await gate.wait()
            return await follow(self)
        finally:
            inside -= 1

    async with followed(world, path) as it:
        monkeypatch.setattr(Reloading, "_follow", slow)
        it.origin.hangup.set()
        await until(lambda: inside == 1, "a reload has begun")
        for resources in (["pods", "secrets"], ["pods", "configmaps"], ["pods", "deployments"]):
            world.write_config(*resources, clusters=[cluster(world)])
            it.origin.hangup.set()
            await asyncio.sleep(0)
        gate.set()
        await until(lambda: world.table.rows(*DEPLOYMENTS), "the last file is followed")
        await until(lambda: sum(it.reloads().values()) == 2, "what came meanwhile was one more")
        assert most == 1
        assert it.reloads().get("refused") is None
        assert not world.table.rows(*SECRETS)


async def test_it_stops_in_the_middle_of_a_reload(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the old client's end and the new one's beginning, and before anything is owned."""
    populate(world)
    c = cluster(world)
    path = world.write_config("pods", clusters=[c])
    for place in ("quiet", "remove"):
        reached = asyncio.Event()

        async def hang(*arguments: Any, reached: asyncio.Event = reached) -> None:
            reached.set()
            await asyncio.Event().wait()

        world.write_config("pods", clusters=[c])
        async with followed(world, path) as it:
            with monkeypatch.context() as patched:
                patched.setattr(Departures if place == "quiet" else Daemon, place, hang)
                clusters = [c, cluster(world, "d")] if place == "quiet" else [cluster(world, "d")]
                world.write_config("pods", clusters=clusters)
                it.origin.hangup.set()
                async with asyncio.timeout(30):
                    await reached.wait()
        assert not [task for task in asyncio.all_tasks() if task.get_name() in ("c", "d", "lease")]


# --- as a process ---------------------------------------------------------------------------------------


async def test_signals_of_a_real_process(world: World) -> None:
    """SIGHUP reloads; an invalid file is logged whole; SIGTERM right after SIGHUP stops it cleanly."""
    populate(world)
    c = cluster(world)
    world.write_config("pods", clusters=[c])
    process = await world.spawn()
    await process.ready()

    def said(event: str) -> list[dict[str, Any]]:
        return [each for each in process.events if each["event"] == event]

    world.write_config("pods", "secrets", clusters=[c], log={"format": "json", "level": "debug"})
    process.send(signal.SIGHUP)
    await until(lambda: world.table.rows(*SECRETS), "the new file is followed")
    [applied] = said("configuration applied")
    assert applied["changed"] == ["c"]
    assert applied["keys"] == ["resources", "log"]
    world.write_config("pods", clusters=[c], serverr={}, limitss={})
    process.send(signal.SIGHUP)
    await until(lambda: said("configuration refused: the one before stays"), "it is refused")
    [refused] = said("configuration refused: the one before stays")
    assert refused["level"] == "error"
    assert "serverr" in refused["error"] and "limitss" in refused["error"]
    status = (await process.get("/status")).json()
    assert status["configuration"]["error"] == refused["error"]
    assert {stream["resource"] for stream in status["clusters"][0]["streams"]} == {"pods", "secrets"}
    world.write_config("pods", "deployments", clusters=[cluster(world, "d")])
    process.send(signal.SIGHUP)
    assert await process.stop() == 0, process.text
    assert not [each for each in process.events if each["event"] in ("reload failed", "stopping")]


async def test_a_daemon_that_waits_for_its_database_reads_the_file_again(world: World) -> None:
    populate(world)
    away = {"url": f"postgresql://syncd@127.0.0.1:{free_port()}/nothing"}
    world.write_config("pods", clusters=[cluster(world)], database=away)
    process = await world.spawn()
    await until(lambda: any(each["event"] == "no database yet" for each in process.events), "it waits")
    world.write_config("pods", clusters=[cluster(world)])
    process.send(signal.SIGHUP)
    await process.ready()
    assert len(world.table.rows(*PODS)) == 40
    assert await process.stop() == 0
