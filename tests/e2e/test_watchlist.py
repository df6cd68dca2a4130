"""Streams that begin with a WatchList, and streams that are polled, against a server on a port."""

from __future__ import annotations

import asyncio

import pytest

from syncd.simulator.requests import Request
from tests.conftest import DatabasePlace
from tests.e2e.world import CONFIGMAPS, NAMESPACES, PODS, WIDGETS, World

POLLED = {"name": "configmaps", "mode": "poll", "every": "1s"}
MANY = {"name": "pods", "initial": "watchlist", "page_size": 250}


@pytest.fixture
def place(sqlite_place: DatabasePlace) -> DatabasePlace:
    """What is shown here is the same on every database."""
    return sqlite_place


def listed(world: World, resource: str) -> int:
    return world.simulator.requests.lists(resource)


def watched(world: World, resource: str) -> list[bool]:
    """Of each watch of the resource, whether it was a WatchList."""

    def initial(request: Request) -> bool:
        return request.query.get("sendInitialEvents") == "true"

    return [initial(request) for request in world.simulator.requests.matching("watch", resource)]


def change_some(world: World) -> None:
    """Of the first pods: some gone, some changed, some made anew; and one that is new."""
    simulator = world.simulator
    keys = sorted(simulator.objects(*PODS))
    for number, key in enumerate([*keys[:12], *keys[-12:]]):
        namespace, _, name = key.partition("/")
        if number % 3 == 0:
            simulator.delete(*PODS, namespace, name)
        elif number % 3 == 1:
            simulator.patch(*PODS, namespace, name, {"metadata": {"labels": {"changed": "yes"}}})
        else:
            again = simulator.delete(*PODS, namespace, name)
            simulator.create(
                *PODS, {"metadata": {"namespace": namespace, "name": name}, "spec": again["spec"]}
            )


async def test_five_thousand_pods_over_one_connection(world: World) -> None:
    """Equal to the list, in ranges; the same watch then brings what follows."""
    world.workload.pods(5000)
    async with world.running(MANY) as daemon:
        await world.level(PODS)
        [reflector] = daemon.reflectors
        assert reflector.progress.listed == 5000
        async with world.churn(200):
            await asyncio.sleep(0.5)
        await world.level(PODS)
        assert reflector.progress.events > 0
    assert (listed(world, "pods"), watched(world, "pods")) == (0, [True])
    async with world.running(MANY):
        assert (listed(world, "pods"), watched(world, "pods")) == (0, [True, False])


async def test_auto_is_for_what_the_server_and_known_definitions_serve(world: World) -> None:
    world.workload.configmaps(30)
    world.workload.widgets(10)
    async with world.running("configmaps", "widgets.example.com", initial="auto"):
        await world.level(CONFIGMAPS, WIDGETS)
    for resource in ("configmaps", "widgets"):
        assert (listed(world, resource), watched(world, resource)) == (0, [True])


async def test_rolled_back_while_it_is_down(world: World) -> None:
    world.workload.pods(60)
    simulator = world.simulator
    backup = simulator.resource_version
    async with world.running(MANY):
        change_some(world)
        await world.level(PODS)
    simulator.rollback(backup)
    async with world.running(MANY):
        await world.level(PODS)


async def test_a_polled_resource_follows_without_a_watch(world: World) -> None:
    world.workload.configmaps(40)
    async with world.running(POLLED) as daemon:
        await world.level(CONFIGMAPS)
        keys = sorted(world.simulator.objects(*CONFIGMAPS))
        for key in keys[:5]:
            world.simulator.delete(*CONFIGMAPS, *key.split("/"))
        world.workload.configmaps(3)
        await world.level(CONFIGMAPS)
        assert {world.table.tombstones("configmaps")[key][0] for key in keys[:5]} == {"snapshot"}
        [reflector] = daemon.reflectors
        assert reflector.live
    assert watched(world, "configmaps") == []
    world.simulator.delete(*CONFIGMAPS, *keys[7].split("/"))
    lists = listed(world, "configmaps")
    async with world.running(POLLED):
        await world.level(CONFIGMAPS)
    assert watched(world, "configmaps") == []
    assert world.simulator.requests.probes("configmaps") == 0
    assert listed(world, "configmaps") > lists


async def test_an_account_without_watch_is_enough_to_poll(world: World) -> None:
    access = world.simulator.access
    access.grant_all("test")
    access.grant("anyone", verbs=("get", "list"), resources=("configmaps", "namespaces"))
    world.workload.configmaps(10)
    async with world.running(POLLED):
        await world.level(CONFIGMAPS)


async def test_from_a_watch_to_polls_and_back(world: World) -> None:
    world.workload.configmaps(30)
    for entry in ("configmaps", POLLED, "configmaps", POLLED):
        async with world.running(entry):
            await world.level(CONFIGMAPS)
            world.simulator.delete(*CONFIGMAPS, *sorted(world.simulator.objects(*CONFIGMAPS))[0].split("/"))
            world.workload.configmaps(2)
            await world.level(CONFIGMAPS)


async def test_what_cannot_be_watched_is_polled_by_itself(world: World) -> None:
    async with world.running("componentstatuses", "namespaces") as daemon:
        await world.level(("", "componentstatuses"), NAMESPACES)
        polls = {r.stream.resource.name: r.settings.poll for r in daemon.reflectors}
    assert polls == {"componentstatuses": 300.0, "namespaces": None}
    assert watched(world, "componentstatuses") == []


async def test_a_polled_stream_is_reconciled_and_judged_fresh_by_commands(world: World) -> None:
    world.workload.configmaps(20)
    world.write_config(POLLED)
    process = await world.spawn()
    await process.ready()
    world.table.write("DELETE FROM syncd_objects WHERE resource = 'configmaps'")
    code, output = await world.syncd("reconcile", "configmaps")
    assert code == 0, output
    await world.level(CONFIGMAPS)
    code, output = await world.syncd("status")
    assert code == 0, output
    assert await process.stop() == 0, process.text
