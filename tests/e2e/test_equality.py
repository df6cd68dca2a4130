"""After a sync, and after a run under churn once it stops, the table is the cluster."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.e2e.world import (
    CONFIGMAPS,
    DEPLOYMENTS,
    NAMESPACES,
    PODS,
    SECRETS,
    WIDGETS,
    World,
    until,
)

EVENTS = ("", "events")
EVERYTHING = (PODS, DEPLOYMENTS, CONFIGMAPS, SECRETS, WIDGETS, NAMESPACES, EVENTS)
NAMED = ("pods", "deploy", "configmaps", "secrets", "widgets.example.com", "namespaces", "events")


def fill(world: World, pods: int = 300) -> None:
    """Every kind, odd names, odd texts and large objects among them."""
    simulator = world.simulator
    world.workload.fill(pods)
    world.workload.widgets(20)
    for namespace in ("ord", "ord-b"):
        simulator.create("", "namespaces", {"metadata": {"name": namespace}})
        for name in ("a", "a-b", "a.b", "b"):
            configmap(world, f"{namespace}/{name}", {"k": "v"})
    configmap(world, "ord/nul", {"nul": "a\0b", "escaped": "a\\u0000b", "slash\\": "\\\0"})
    configmap(world, "ord/planes", {f"p{plane}": chr(plane * 0x10000 + 0x1F00) for plane in range(17)})
    configmap(world, "ord/escapes", {"k": '"\\\n\r\t\x01\x1f\x7f\u2028\ufeff😀'})
    configmap(world, "ord/large", {"k": "x" * 1_000_000})
    configmap(world, "ord/empty", {})
    for number in range(3):
        involved = {"kind": "Pod", "name": f"p{number}", "namespace": "ord"}
        event = {"metadata": {"name": f"e{number}", "namespace": "ord"}, "involvedObject": involved}
        simulator.create(*EVENTS, {**event, "type": "Normal" if number else "Warning", "reason": "R"})


def configmap(world: World, key: str, data: dict[str, str]) -> None:
    namespace, _, name = key.partition("/")
    world.simulator.create(*CONFIGMAPS, {"metadata": {"name": name, "namespace": namespace}, "data": data})


async def test_after_sync_the_table_is_the_cluster(world: World) -> None:
    fill(world)
    world.write_config(*NAMED)
    code, output = await world.syncd("sync")
    assert code == 0, output
    for type_ in EVERYTHING:
        assert await world.differences(*type_) == []
        assert world.table.rows(*type_), type_
    keys = [key for (key,) in world.table.ask("SELECT object_key FROM syncd_objects WHERE name = 'a'")]
    assert sorted(keys, key=str.encode) == ["ord-b/a", "ord/a"]
    assert set(world.table.states().values()) == {"live"}


async def test_a_second_sync_brings_what_happened_meanwhile(world: World) -> None:
    fill(world)
    world.write_config(*NAMED)
    assert (await world.syncd("sync"))[0] == 0
    for _ in range(100):
        world.workload.change()
    world.simulator.delete(*CONFIGMAPS, "ord", "a")
    code, output = await world.syncd("sync")
    assert code == 0, output
    assert [line for type_ in EVERYTHING for line in await world.differences(*type_)] == []


async def test_after_churn_the_table_is_the_cluster(world: World) -> None:
    fill(world, 200)
    async with world.running(*NAMED) as daemon:
        async with world.churn(400):
            await asyncio.sleep(1.5)
            events = list(world.simulator.objects(*EVENTS))
            world.simulator.delete_many(*EVENTS, events)
        await world.level(*EVERYTHING)
        assert daemon.metrics.render()[0]
    assert world.table.one("SELECT count(*) FROM syncd_quarantine") == 0


async def test_a_wildcard_takes_everything_once(world: World) -> None:
    fill(world, 20)
    async with world.running("*", exclude=["leases.coordination.k8s.io"]):
        await world.level(PODS, DEPLOYMENTS, CONFIGMAPS, SECRETS, WIDGETS, NAMESPACES)
        types = world.table.ask("SELECT api_group, resource FROM syncd_streams")
        assert len(types) == len(set(types))
        assert sorted(group for group, resource in types if resource == "events") in ([""], ["events.k8s.io"])
        assert ("apiextensions.k8s.io", "customresourcedefinitions") in types
        assert ("coordination.k8s.io", "leases") not in types


async def test_streams_with_selectors_hold_what_matches(world: World) -> None:
    fill(world, 100)
    chosen: list[Any] = [
        {"name": "pods", "label_selector": "tier in (web, db)", "namespaces": ["load-1", "load-2"]},
        {"name": "widgets.example.com", "field_selector": "spec.color=red"},
        {"name": "configmaps", "field_selector": "metadata.name!=large"},
    ]
    simulator = world.simulator

    async def equal() -> bool:
        pods = await world.api(*PODS, labelSelector="tier in (web, db)")
        wanted = {key for key in pods if key.split("/")[0] in ("load-1", "load-2")}
        return wanted == set(world.table.rows(*PODS)) and not (
            await world.differences(*WIDGETS, fieldSelector="spec.color=red")
            + await world.differences(*CONFIGMAPS, fieldSelector="metadata.name!=large")
        )

    async with world.running(*chosen):
        assert await equal()
        widget = next(o for o in simulator.objects(*WIDGETS).values() if o["spec"]["color"] == "red")
        where = (widget["metadata"]["namespace"], widget["metadata"]["name"])
        simulator.patch(*WIDGETS, *where, {"spec": {"color": "blue"}})
        await until(lambda: "/".join(where) in world.table.tombstones("widgets"), "it left the selection")
        assert world.table.tombstones("widgets")["/".join(where)][0] == "left_selection"
        simulator.patch(*WIDGETS, *where, {"spec": {"color": "red"}})
        await until(lambda: "/".join(where) in world.table.rows(*WIDGETS), "it came back")
        async with world.churn(300):
            await asyncio.sleep(0.5)
        for _ in range(200):
            if await equal():
                break
            await asyncio.sleep(0.05)
        assert await equal()
