"""`kill -9` in the middle of each thing that syncd does: the next process makes the table the cluster.

Meanwhile a reader never sees a version that is ahead of its rows. Each process that recovers from one kill
is the victim of the next.
"""

from __future__ import annotations

import asyncio
import os
import random

import pytest

from tests.conformance.site import Site
from tests.e2e.world import CONFIGMAPS, PODS, Reader, until

KILLS = int(os.environ.get("SYNCD_TEST_KILLS", "2"))
"""In each scenario, on each database. Each costs the start of a process: `make test-kills` takes ten."""


def configmaps(site: Site, namespace: str, count: int) -> None:
    for number in range(count):
        metadata = {"namespace": namespace, "name": f"c-{number:04d}"}
        site.simulator.create(*CONFIGMAPS, {"metadata": metadata, "data": {"n": str(number)}})


@pytest.mark.simulated("a reader that knows every state the cluster was in")
async def test_08_killed_in_the_middle_of_a_first_sync(site: Site) -> None:
    """Killed in the middle of a first list, the version is not set; the next life lists again and loses
    nothing.

    Each run has one namespace more, whose first list is slow; the one before was killed in its own.
    """
    rand = random.Random(4)
    faults, requests = site.simulator.faults, site.simulator.requests
    namespaces: list[str] = []
    async with Reader(site, CONFIGMAPS):
        for number in range(KILLS + 1):
            last = number == KILLS
            if not last:
                namespaces.append(f"n-{number}")
                configmaps(site, namespaces[-1], 120)
                pause = faults.pause_page(1, "configmaps", namespace=namespaces[-1])
                faults.delay(0.01, verb="list", resource="configmaps", namespace=namespaces[-1], times=None)
            site.write_config({"name": "configmaps", "namespaces": namespaces, "page_size": 10})
            process = await site.spawn()
            if number:
                wanted = len(namespaces) * 120 - (0 if last else 120)
                count = "SELECT count(*) FROM syncd_objects"
                await until(lambda: site.table.one(count) >= wanted, "the one before is complete")  # noqa: B023
                states = site.table.states
                ready = [("configmaps", name) for name in (namespaces if last else namespaces[:-1])]
                await until(lambda: all(states()[key] == "live" for key in ready), "they are live")  # noqa: B023
                # Where the list was complete before the kill, the watch brings what changed since.
                for _ in range(1_000):
                    wrong = [line for line in await site.differences(*CONFIGMAPS) if ready[-1][1] in line]
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
                site.simulator.patch(*CONFIGMAPS, scope, name, {"data": {"changed": f"{number} {change}"}})
            site.simulator.delete(*CONFIGMAPS, scope, "c-0007")
            configmaps_after = {"namespace": scope, "name": "c-9999"}
            site.simulator.create(*CONFIGMAPS, {"metadata": configmaps_after})
        await site.level(CONFIGMAPS)


@pytest.mark.simulated("a reader that knows every state the cluster was in")
async def test_66_killed_in_the_middle_of_a_relist(site: Site) -> None:
    """Killed in the middle of a new list over rows that are there, no row is lost, and none stays wrong."""
    rand = random.Random(5)
    simulator, faults = site.simulator, site.simulator.faults
    configmaps(site, "load", 200)
    present = simulator.collection(*CONFIGMAPS).current.records
    site.write_config({"name": "configmaps", "page_size": 10})
    process = await site.spawn()
    await process.ready()
    faults.delay(0.005, verb="list", resource="configmaps", times=None)
    async with Reader(site, CONFIGMAPS):
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
            process = await site.spawn()
            await process.ready()
            await site.level(CONFIGMAPS)


@pytest.mark.simulated("a reader that knows every state the cluster was in")
async def test_06_killed_in_the_middle_of_changes(site: Site) -> None:
    """Wherever it is killed, rows and version agree: whoever reads never sees a version ahead of its rows."""
    rand = random.Random(6)
    site.workload.pods(150)
    site.workload.configmaps(30)
    site.write_config("pods", "configmaps")
    process = await site.spawn()
    await process.ready()
    async with Reader(site, PODS):
        for _ in range(KILLS):
            async with site.churn(300):
                await asyncio.sleep(0.1 + rand.random() * 0.6)
                await process.kill()
                process = await site.spawn()
                await asyncio.sleep(rand.random() * 0.3)
            await process.ready()
            await site.level(PODS, CONFIGMAPS)
