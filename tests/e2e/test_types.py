"""Custom types that come, change and go, while it runs and while it is down."""

from __future__ import annotations

import asyncio
from typing import Any

from syncd.simulator.custom import CRDS
from tests.e2e.world import CONFIGMAPS, WIDGETS, World, until

NAME = "widgets.example.com"


def definition(world: World, default: str = "") -> dict[str, Any]:
    """The definition with a default for spec.mode, not yet applied."""
    crd: dict[str, Any] = world.simulator.objects(*CRDS)[NAME]
    [version] = crd["spec"]["versions"]
    properties = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    properties["mode"] = {"type": "string", "default": default}
    crd["metadata"].pop("resourceVersion")
    return crd


def populate(world: World, count: int = 40) -> None:
    world.workload.widgets(count)
    world.workload.configmaps(20)


async def test_a_default_that_changes_no_version_while_it_runs(world: World) -> None:
    populate(world)
    async with world.running(NAME, "configmaps"):
        before = {key: row.version for key, row in world.table.rows(*WIDGETS).items()}
        world.simulator.crd_warmup = 0.2
        world.simulator.update(*CRDS, definition(world, "quick"))
        await world.level(WIDGETS)
        rows = world.table.rows(*WIDGETS)
        assert {row.document["spec"]["mode"] for row in rows.values()} == {"quick"}
        assert {key: row.version for key, row in rows.items()} == before
        world.simulator.update(*CRDS, definition(world, "slow"))
        world.workload.widgets(10)
        await world.level(WIDGETS, CONFIGMAPS)


async def test_a_default_that_changes_no_version_while_it_is_down(world: World) -> None:
    populate(world)
    async with world.running(NAME):
        pass
    world.simulator.update(*CRDS, definition(world, "quick"))
    async with world.running(NAME):
        await world.level(WIDGETS)
        assert world.table.rows(*WIDGETS)


async def test_a_type_is_deleted_while_it_runs_and_comes_back(world: World) -> None:
    populate(world)
    async with world.running(NAME, "configmaps") as daemon:
        uids = {key: row.uid for key, row in world.table.rows(*WIDGETS).items()}
        crd = world.simulator.objects(*CRDS)[NAME]
        world.simulator.delete(*CRDS, "", NAME)
        await until(lambda: not world.table.rows(*WIDGETS), "the rows leave")
        await until(lambda: ("widgets", "") not in world.table.states(), "the stream leaves")
        stones = world.table.tombstones("widgets")
        assert {key: stone[1] for key, stone in stones.items()} == uids
        assert {stone[0] for stone in stones.values()} <= {"deleted", "type_removed"}
        again = {"metadata": {"name": NAME}, "spec": crd["spec"]}
        world.simulator.create_crd(again)
        world.workload.widgets(12)
        await until(lambda: len(world.table.rows(*WIDGETS)) == 12, "the new ones are there")
        await world.live(daemon)
        await world.level(WIDGETS, CONFIGMAPS)


async def test_a_type_is_deleted_while_it_is_down(world: World) -> None:
    populate(world)
    async with world.running(NAME, "configmaps"):
        uids = {key: row.uid for key, row in world.table.rows(*WIDGETS).items()}
    world.simulator.delete(*CRDS, "", NAME)
    async with world.running(NAME, "configmaps"):
        await until(lambda: not world.table.rows(*WIDGETS), "the rows leave")
        stones = world.table.tombstones("widgets")
        assert {key: stone[1] for key, stone in stones.items()} == uids
        assert {stone[0] for stone in stones.values()} == {"type_removed"}
        await world.level(CONFIGMAPS)


async def test_a_type_is_made_anew_while_it_is_down(world: World) -> None:
    populate(world)
    async with world.running(NAME):
        old = set(world.table.rows(*WIDGETS))
    crd = world.simulator.objects(*CRDS)[NAME]
    world.simulator.delete(*CRDS, "", NAME)
    world.simulator.create_crd({"metadata": {"name": NAME}, "spec": crd["spec"]})
    for number, key in enumerate(sorted(old)[:5]):
        namespace, _, name = key.partition("/")
        widget = {"metadata": {"namespace": namespace, "name": name}, "spec": {"size": number}}
        world.simulator.create(*WIDGETS, widget)
    async with world.running(NAME):
        await world.level(WIDGETS)
        assert world.table.tombstones("widgets").keys() == old


async def test_discovery_that_cannot_be_trusted_removes_nothing(world: World) -> None:
    populate(world)
    faults = world.simulator.faults
    async with world.running(NAME, "configmaps") as daemon:
        count = len(world.table.rows(*WIDGETS))
        for sick, well in (
            (faults.stale_group, faults.restore_group),
            (faults.missing_group, faults.restore_group),
        ):
            sick("example.com")
            faults.cut_watches("widgets")
            [supervisor] = daemon.supervisors
            supervisor._changed.set()
            await asyncio.sleep(1.0)
            assert len(world.table.rows(*WIDGETS)) == count
            well("example.com")
            supervisor._changed.set()
            world.workload.widgets(1)
            count += 1
            await until(lambda: len(world.table.rows(*WIDGETS)) == count, "it recovered")  # noqa: B023
        await world.level(WIDGETS, CONFIGMAPS)
    faults.missing_group("example.com")
    async with world.running(NAME, "configmaps", live=False):
        await until(lambda: world.table.states()[("widgets", "")] == "parked", "the stream is parked")
        assert len(world.table.rows(*WIDGETS)) == count
        await world.level(CONFIGMAPS)
        faults.restore_group("example.com")
        await until(lambda: world.table.states()[("widgets", "")] == "live", "the type is back")
    faults.answer(503, path="/apis", times=None)
    async with world.running(NAME, "configmaps", live=False) as daemon:
        [supervisor] = daemon.supervisors
        await until(lambda: supervisor.error or supervisor.planned.is_set(), "it was refused")
        assert len(world.table.rows(*WIDGETS)) == count
        faults.clear()
        await world.live(daemon)
        await world.level(WIDGETS, CONFIGMAPS)
