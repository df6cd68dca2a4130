"""Sick clusters, forbidden namespaces, and being asked to stop."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from syncd.simulator.server import write_kubeconfig
from tests.conftest import DatabasePlace
from tests.e2e.world import CONFIGMAPS, PODS, World, until

THREE = [{"name": "configmaps", "namespaces": ["a", "b", "d"]}, "pods"]


@pytest.fixture
def place(sqlite_place: DatabasePlace) -> DatabasePlace:
    """What is shown here is the same on every database."""
    return sqlite_place


def configmaps(world: World, namespace: str, count: int, prefix: str = "c") -> None:
    for number in range(count):
        metadata = {"namespace": namespace, "name": f"{prefix}-{number}"}
        world.simulator.create(*CONFIGMAPS, {"metadata": metadata, "data": {}})


async def test_one_of_three_namespaces_is_forbidden(world: World) -> None:
    access = world.simulator.access
    for namespace in ("a", "b", "d"):
        configmaps(world, namespace, 5)
    world.workload.pods(20)
    access.grant_all("test")
    access.grant("anyone", groups=("",), resources=("pods", "namespaces"))
    access.grant("anyone", resources=("customresourcedefinitions", "apiservices"))
    access.grant("anyone", resources=("configmaps",), namespaces=("a", "d"))
    async with world.running(*THREE, live=False):
        await until(
            lambda: sorted(world.table.states().values()) == ["live", "live", "live", "parked"],
            "one is parked",
        )
        assert world.table.states()[("configmaps", "b")] == "parked"
        configmaps(world, "a", 3, "more")
        await until(lambda: len(world.table.rows(*CONFIGMAPS)) == 13, "the others live on")
        assert "forbidden" in world.table.one("SELECT last_error FROM syncd_streams WHERE namespace = 'b'")
        access.grant("anyone", resources=("configmaps",), namespaces=("b",))
        await world.level(CONFIGMAPS, PODS)
        await until(lambda: set(world.table.states().values()) == {"live"}, "it recovers")
        access.revoke("anyone")
        access.grant("anyone", resources=("pods", "namespaces"))
        world.simulator.faults.cut_watches()
        await until(lambda: list(world.table.states().values()).count("parked") == 3, "all three are parked")
        assert len(world.table.rows(*CONFIGMAPS)) == 18


async def test_a_path_that_is_not_found_parks_and_comes_back(world: World) -> None:
    configmaps(world, "a", 5)
    faults = world.simulator.faults
    async with world.running("configmaps", "pods") as daemon:
        faults.answer(404, plain=True, resource="configmaps", times=None)
        faults.cut_watches("configmaps")
        await until(lambda: world.table.states()[("configmaps", "")] == "parked", "it is parked")
        assert len(world.table.rows(*CONFIGMAPS)) == 5
        faults.clear()
        configmaps(world, "a", 5, "more")
        await world.live(daemon)
        await world.level(CONFIGMAPS)


async def test_bad_answers_of_every_kind_lose_nothing(world: World) -> None:
    world.workload.pods(120)
    configmaps(world, "a", 60)
    faults = world.simulator.faults
    for status in (429, 500, 503, 504):
        faults.answer(status, verb="list", resource="pods", retry_after=0 if status == 429 else None)
    faults.truncate(5000, resource="configmaps", times=2)
    faults.expire_tokens(times=1)
    async with world.running({"name": "pods", "page_size": 30}, {"name": "configmaps", "page_size": 20}):
        async with world.churn(150):
            for number in range(12):
                what: Any = (
                    lambda: faults.cut_watches("pods"),
                    lambda: faults.cut_watches("pods", mid_line=True),
                    lambda: faults.end_watches("configmaps"),
                    lambda: faults.fail_watches(410, "pods"),
                    lambda: faults.fail_watches(500, "configmaps"),
                    lambda: faults.answer(401, verb="watch", times=2),
                )[number % 6]
                what()
                await asyncio.sleep(0.15)
        await world.level(PODS, CONFIGMAPS)
    assert world.table.one("SELECT count(*) FROM syncd_deleted_objects WHERE cause = 'type_removed'") == 0


async def test_a_cluster_that_is_down_stops_no_other(world: World) -> None:
    configmaps(world, "a", 5)
    down = world.directory / "down"
    write_kubeconfig(down, "http://127.0.0.1:9")
    clusters = [
        {"name": "down", "kubeconfig": str(down)},
        {"name": "c", "kubeconfig": str(world.kubeconfig)},
    ]
    world.write_config("configmaps", clusters=clusters)
    process = await world.spawn()
    await world.level(CONFIGMAPS)
    configmaps(world, "a", 5, "more")
    await world.level(CONFIGMAPS)
    await until(lambda: "out of reach" in process.text, "it says so")
    strict, plain = await process.get("/readyz?strict"), await process.get("/readyz")
    assert (strict.status_code, plain.status_code) == (503, 200)
    assert "down" in strict.text
    assert (await process.get("/livez")).status_code == 200
    assert await process.stop() == 0
    code, output = await world.syncd("sync", "--patience", "1")
    assert code == 1
    assert "down" in output
    write_kubeconfig(down, world.url)
    code, output = await world.syncd("sync")
    assert code == 0, output
    assert len(world.table.rows(*CONFIGMAPS, cluster="down")) == 10


async def test_sigterm_while_commits_are_in_flight(world: World) -> None:
    world.workload.pods(300)
    configmaps(world, "a", 1500)
    world.write_config("pods", {"name": "configmaps", "page_size": 50})
    process = await world.spawn()
    url = await process.url()
    assert url
    await asyncio.sleep(0.1)
    assert await process.stop() == 0, process.text  # in the middle of the first sync
    again = await world.spawn()
    await again.ready()
    async with world.churn(500):
        await asyncio.sleep(0.5)
        stopped_at = time.monotonic()
        assert await again.stop() == 0, again.text
        assert time.monotonic() - stopped_at < 5.0
    last = await world.spawn()
    await last.ready()
    await world.level(PODS, CONFIGMAPS)
    assert "Traceback" not in process.text + again.text
    assert await last.stop() == 0


async def test_sigterm_while_the_cluster_does_not_answer(world: World) -> None:
    configmaps(world, "a", 5)
    world.write_config("configmaps")
    world.simulator.faults.delay(60.0, verb="list", times=None)
    process = await world.spawn()
    await until(lambda: world.simulator.requests.matching("list", "configmaps"), "it lists")
    assert await process.stop() == 0, process.text
