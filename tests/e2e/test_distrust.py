"""A cluster that goes back in time, or is another one: each time the table ends as the cluster."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e.world import CONFIGMAPS, PODS, World, parts, until


def changed_after_a_backup(world: World, masked: int | None, writes: int) -> Callable[[], None]:
    """After the backup some were changed, made, deleted and made anew. Calling the result undoes all that.

    Args:
        masked: how far other writes carry the version past the one that was lost, None for none.
        writes: after the rollback, to the very objects that the table knows.
    """
    simulator = world.simulator
    backup = simulator.resource_version
    keys = sorted(simulator.objects(*CONFIGMAPS))
    for number, key in enumerate(keys[:12]):
        namespace, name = key.split("/")
        if number % 3 == 0:
            simulator.delete(*CONFIGMAPS, namespace, name)
        elif number % 3 == 1:
            simulator.patch(*CONFIGMAPS, namespace, name, {"data": {"lost": "yes"}})
        else:
            simulator.delete(*CONFIGMAPS, namespace, name)
            simulator.create(*CONFIGMAPS, {"metadata": {"namespace": namespace, "name": name}})
    for number in range(5):
        metadata = {"namespace": "load-1", "name": f"lost-{number}"}
        simulator.create(*CONFIGMAPS, {"metadata": metadata, "data": {"lost": "yes"}})
    lost = simulator.resource_version

    def roll_back() -> None:
        simulator.rollback(backup)
        # the name of one that was lost comes back under another uid, at a version below the row's
        simulator.create(*CONFIGMAPS, {"metadata": {"namespace": "load-1", "name": "lost-3"}})
        if masked is not None:
            simulator.advance(lost + masked)
            simulator.create("", "namespaces", {"metadata": {"name": "after"}})
        keys = sorted(simulator.objects(*CONFIGMAPS))
        for number in range(writes):
            simulator.patch(*CONFIGMAPS, *parts(keys[number % len(keys)]), {"data": {"new": str(number)}})

    return roll_back


CASES = pytest.mark.parametrize(
    ("masked", "writes"),
    [(None, 0), (None, 3), (0, 0), (1, 2), (5, 300)],
    ids=["plain", "plain-few", "masked", "masked-few", "masked-many"],
)


@CASES
async def test_rolled_back_while_it_is_down(world: World, masked: int | None, writes: int) -> None:
    world.workload.configmaps(60)
    world.workload.pods(20)
    async with world.running("configmaps", "pods"):
        roll_back = changed_after_a_backup(world, masked, writes)
        await world.level(CONFIGMAPS)
        await until(lambda: caught_up(world), "the newest row is there")
    roll_back()
    async with world.running("configmaps", "pods"):
        await world.level(CONFIGMAPS, PODS)


@CASES
async def test_rolled_back_while_it_runs(world: World, masked: int | None, writes: int) -> None:
    world.workload.configmaps(60)
    world.workload.pods(20)
    async with world.running("configmaps", "pods") as daemon:
        roll_back = changed_after_a_backup(world, masked, writes)
        await world.level(CONFIGMAPS)
        roll_back()
        await world.level(CONFIGMAPS, PODS)
        async with world.churn(100):
            await until(lambda: daemon.reflectors and all(r.live for r in daemon.reflectors), "live again")
        world.simulator.delete(*CONFIGMAPS, *parts(sorted(world.simulator.objects(*CONFIGMAPS))[0]))
        await world.level(CONFIGMAPS, PODS)


def caught_up(world: World) -> bool:
    [(newest,)] = world.table.ask(
        "SELECT max(resource_version_number) FROM syncd_objects WHERE resource = 'configmaps'"
    )
    return bool(
        newest
        == max(record.version for record in world.simulator.collection(*CONFIGMAPS).current.records.values())
    )


@pytest.mark.parametrize("while_it_runs", [False, True], ids=["down", "running"])
async def test_another_cluster_behind_the_url(world: World, while_it_runs: bool) -> None:
    world.workload.configmaps(40)
    simulator = world.simulator

    def swap() -> None:
        keys = sorted(simulator.objects(*CONFIGMAPS))
        for key in keys[:10]:
            simulator.delete(*CONFIGMAPS, *parts(key))
        simulator.set_cluster_uid(simulator.uid())
        simulator.compact()
        for key in keys[:5]:
            namespace, name = key.split("/")
            simulator.create(*CONFIGMAPS, {"metadata": {"namespace": namespace, "name": name}})

    async with world.running("configmaps"):
        epoch = world.table.one("SELECT epoch FROM syncd_clusters")
        await world.level(CONFIGMAPS)
        if while_it_runs:
            swap()
            simulator.faults.cut_watches()
            await world.level(CONFIGMAPS)
            await until(lambda: world.table.one("SELECT epoch FROM syncd_clusters") == epoch + 1, "an epoch")
    if not while_it_runs:
        swap()
    async with world.running("configmaps"):
        await world.level(CONFIGMAPS)
        assert world.table.one("SELECT epoch FROM syncd_clusters") == epoch + 1
        kube_system = simulator.objects("", "namespaces")["kube-system"]
        assert world.table.one("SELECT uid FROM syncd_clusters") == kube_system["metadata"]["uid"]
