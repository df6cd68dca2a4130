"""`kill -9` in the middle of each thing that syncd does: the next process makes the table the cluster.

Meanwhile a reader never sees a version that is ahead of its rows. Each process that recovers from one kill
is the victim of the next.
"""

from __future__ import annotations

import asyncio
import os
import random

from tests.e2e.world import CONFIGMAPS, PODS, Reader, World, until

KILLS = int(os.environ.get("SYNCD_TEST_KILLS", "4"))
"""In each scenario, on each database. Each costs the start of a process: `make test-kills` takes ten."""


def configmaps(world: World, namespace: str, count: int) -> None:
    for number in range(count):
        metadata = {"namespace": namespace, "name": f"c-{number:04d}"}
        world.simulator.create(*CONFIGMAPS, {"metadata": metadata, "data": {"n": str(number)}})


async def test_in_the_middle_of_a_first_sync(world: World) -> None:
    """Each run has one namespace more, whose first list is slow; the one before was killed in its own."""
    rand = random.Random(4)
    faults, requests = world.simulator.faults, world.simulator.requests
    namespaces: list[str] = []
    async with Reader(world, CONFIGMAPS):
        for number in range(KILLS + 1):
            last = number == KILLS
            if not last:
                namespaces.append(f"n-{number}")
                configmaps(world, namespaces[-1], 120)
                pause = faults.pause_page(1, "configmaps", namespace=namespaces[-1])
                faults.delay(0.01, verb="list", resource="configmaps", namespace=namespaces[-1], times=None)
            world.write_config({"name": "configmaps", "namespaces": namespaces, "page_size": 10})
            process = await world.spawn()
            if number:
                wanted = len(namespaces) * 120 - (0 if last else 120)
                count = "SELECT count(*) FROM syncd_objects"
                await until(lambda: world.table.one(count) >= wanted, "the one before is complete")  # noqa: B023
                states = world.table.states
                ready = [("configmaps", name) for name in (namespaces if last else namespaces[:-1])]
                await until(lambda: all(states()[key] == "live" for key in ready), "they are live")  # noqa: B023
                # Where the list was complete before the kill, the watch brings what changed since.
                for _ in range(1_000):
                    wrong = [line for line in await world.differences(*CONFIGMAPS) if ready[-1][1] in line]
                    if not wrong:
                        break
                    await asyncio.sleep(0.02)
                assert not wrong
            if last:
                break
            await pause.reached.wait()
            pause.release()
            pages, scope = rand.randrange(1, 13), namespaces[-1]
            await until(
                lambda: sum(r.namespace == scope for r in requests.matching("list")) >= pages,  # noqa: B023
                "so many pages were asked for",
            )
            await asyncio.sleep(rand.random() * 0.02)
            await process.kill()
            for change in range(5):
                name = f"c-{rand.randrange(120):04d}"
                world.simulator.patch(*CONFIGMAPS, scope, name, {"data": {"changed": f"{number} {change}"}})
            world.simulator.delete(*CONFIGMAPS, scope, "c-0007")
            configmaps_after = {"namespace": scope, "name": "c-9999"}
            world.simulator.create(*CONFIGMAPS, {"metadata": configmaps_after})
        await world.level(CONFIGMAPS)


async def test_in_the_middle_of_a_relist(world: World) -> None:
    rand = random.Random(5)
    simulator, faults = world.simulator, world.simulator.faults
    configmaps(world, "load", 200)
    present = simulator.collection(*CONFIGMAPS).current.records
    world.write_config({"name": "configmaps", "page_size": 10})
    process = await world.spawn()
    await process.ready()
    faults.delay(0.005, verb="list", resource="configmaps", times=None)
    async with Reader(world, CONFIGMAPS):
        for number in range(KILLS):
            faults.stall_watches("configmaps")
            for _ in range(60):
                name = f"c-{rand.randrange(200):04d}"
                if f"load/{name}" in present and rand.random() < 0.3:
                    simulator.delete(*CONFIGMAPS, "load", name)
                elif f"load/{name}" not in present:
                    simulator.create(*CONFIGMAPS, {"metadata": {"namespace": "load", "name": name}})
                else:
                    simulator.patch(*CONFIGMAPS, "load", name, {"data": {"at": f"{number} {rand.random()}"}})
            simulator.compact()
            simulator.requests.clear()
            faults.cut_watches("configmaps")
            pages = rand.randrange(1, 19)
            await until(lambda: simulator.requests.lists("configmaps") >= pages, "a relist")  # noqa: B023
            await asyncio.sleep(rand.random() * 0.02)
            await process.kill()
            simulator.patch(*CONFIGMAPS, "load", next(iter(present))[5:], {"data": {"k": ""}})
            process = await world.spawn()
            await process.ready()
            await world.level(CONFIGMAPS)


async def test_in_the_middle_of_churn(world: World) -> None:
    rand = random.Random(6)
    world.workload.pods(150)
    world.workload.configmaps(30)
    world.write_config("pods", "configmaps")
    process = await world.spawn()
    await process.ready()
    async with Reader(world, PODS):
        for _ in range(KILLS):
            async with world.churn(300):
                await asyncio.sleep(0.1 + rand.random() * 0.6)
                await process.kill()
                process = await world.spawn()
                await asyncio.sleep(rand.random() * 0.3)
            await process.ready()
            await world.level(PODS, CONFIGMAPS)
