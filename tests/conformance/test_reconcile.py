"""Reconciles: what differs is found exactly, repaired once, and never invented while the cluster moves."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from syncd.app.daemon import Daemon
from syncd.app.reconciling import Run, Wanted, reconcile
from syncd.sync.reconcile import Order
from tests.conformance.site import CONFIGMAPS, Site, within
from tests.e2e.world import parts

SIMULATED = ("", "configmaps")
KINDS = ("missing", "stale", "ghost", "altered")


async def reconciled(daemon: Daemon, **order: Any) -> tuple[list[int], int]:
    """What the run found of each kind, and how many it repaired."""
    run: Run = await reconcile(daemon, Wanted(order=Order(**order)), lambda run: None)
    assert run.failed == []
    return [sum(report[kind] for report in run.reports) for kind in KINDS], run.drift - run.left


@pytest.mark.simulated("changes that the server keeps to itself")
@pytest.mark.parametrize("how", ["events dropped", "rolled back"])
async def test_31_what_was_never_told(site: Site, how: str) -> None:
    """What a server never told its watchers, a rollback behind a version that has moved on among it, the next
    reconcile finds, counts and repairs.
    """
    site.workload.configmaps(50)
    simulator = site.simulator
    simulator.bookmark_interval = 0.3
    timing = replace(site.timing, side_watch=1.0, catch_up=10.0)
    async with site.mirror("configmaps", timing=timing) as daemon:
        keys = sorted(simulator.objects(*SIMULATED))
        if how == "events dropped":
            simulator.faults.drop_events(3, resource="configmaps")
            simulator.delete(*SIMULATED, *parts(keys[0]))
            simulator.patch(*SIMULATED, *parts(keys[1]), {"data": {"unseen": "yes"}})
            simulator.create(*SIMULATED, {"metadata": {"namespace": "load-1", "name": "unseen"}})
            expected = [1, 1, 1, 0]
        else:
            backup = simulator.resource_version
            simulator.delete(*SIMULATED, *parts(keys[0]))
            simulator.patch(*SIMULATED, *parts(keys[1]), {"data": {"lost": "yes"}})
            simulator.create(*SIMULATED, {"metadata": {"namespace": "load-1", "name": "lost"}})
            await site.level(SIMULATED)
            simulator.rollback(backup, masked_past=simulator.resource_version + 50, cut=False)
            expected = [1, 1, 1, 0]
        found, repaired = await reconciled(daemon)
        assert (found, repaired) == (expected, 3)
        await site.level(SIMULATED)
        assert await reconciled(daemon) == ([0, 0, 0, 0], 0)


@pytest.mark.cluster
async def test_51_while_events_flow(site: Site) -> None:
    """A reconcile while the cluster changes all the time finds nothing: changes in flight are no drift,
    nothing deleted comes back, and no write is lost.
    """
    namespace = await site.namespace()
    keys = await site.fill(CONFIGMAPS, namespace, 60)
    timing = replace(site.timing, catch_up=20.0, side_watch=5.0)
    if site.simulated:
        site.simulator.bookmark_interval = 0.3
        timing = replace(timing, side_watch=1.0)
    async with site.mirror(within(CONFIGMAPS, namespace, page_size=10), timing=timing) as daemon:
        async with site.stirred(CONFIGMAPS, keys, rate=300.0):
            for number in range(8 if site.simulated else 3):
                order = {"deep": number % 2 == 1, "dry_run": number % 3 == 2}
                assert await reconciled(daemon, **order) == ([0, 0, 0, 0], 0)
                await asyncio.sleep(0.05)
        await site.mirrored(CONFIGMAPS, namespace)
    assert site.table.one("SELECT count(*) FROM syncd_drift") == 0
    assert site.table.tombstones("configmaps")


@pytest.mark.cluster
async def test_74_rows_spoiled_by_hand(site: Site) -> None:
    """Rows that were deleted, changed or invented behind its back are found exactly, by a dry run too, which
    repairs nothing; a content edited under its own version is found by a deep one.
    """
    namespace = await site.namespace()
    keys = await site.fill(CONFIGMAPS, namespace, 30)
    invented = f"{namespace}/invented"
    async with site.mirror(within(CONFIGMAPS, namespace)) as daemon:
        await site.mirrored(CONFIGMAPS, namespace)
        await asyncio.to_thread(site.table.spoil, "configmaps", (keys[3], keys[7]), invented)
        spoiled = site.rows(CONFIGMAPS)
        assert await reconciled(daemon, dry_run=True) == ([1, 1, 1, 0], 0)
        assert site.rows(CONFIGMAPS) == spoiled
        drift = site.table.ask("SELECT object_key, repaired FROM syncd_drift")
        assert {key for key, _ in drift} == {keys[3], keys[7], invented}
        assert not any(repaired for _, repaired in drift)
        assert await reconciled(daemon) == ([1, 1, 1, 0], 3)
        assert await site.wrong(CONFIGMAPS, namespace) == []
        assert site.table.tombstones("configmaps")[invented][0] == "reconcile"
        document = json.dumps({**site.rows(CONFIGMAPS)[keys[5]].document, "data": {"text": "by hand"}})
        await site.write(f"UPDATE syncd_objects SET object = '{document}' WHERE object_key = '{keys[5]}'")
        await site.watch_writes()
        assert await reconciled(daemon) == ([0, 0, 0, 0], 0)
        assert site.table.writes() == []
        assert await reconciled(daemon, deep=True) == ([0, 0, 0, 1], 1)
        assert await site.wrong(CONFIGMAPS, namespace) == []
