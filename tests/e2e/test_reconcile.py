"""What was spoiled by hand is found exactly, repaired once, and never invented under churn."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from syncd.app.reconciling import Run, Wanted, reconcile
from syncd.core.recovery import Timing
from syncd.sync.reconcile import Order
from tests.e2e.world import CONFIGMAPS, PODS, WIDGETS, World, parts


@contextlib.asynccontextmanager
async def mirrored(world: World, daemon: bool) -> AsyncIterator[None]:
    """Pods are mirrored, by a process that runs on or by one that was stopped."""
    world.simulator.second = 0.2
    world.simulator.bookmark_interval = 1.0
    world.workload.pods(60)
    world.write_config("pods")
    process = await world.spawn()
    await process.ready()
    if not daemon:
        assert await process.stop() == 0
    yield
    if daemon:
        assert await process.stop() == 0, process.text


def spoil(world: World) -> set[str]:
    """One row deleted, one given a lower version, one invented; the keys."""
    rows = sorted(world.table.rows(*PODS).items())
    (missing, _), (stale, _) = rows[3], rows[7]
    columns = [
        "cluster", "api_group", "resource", "stream_id", "namespace", "api_version", "kind", "name",
        "resource_version", "resource_version_number", "first_seen_at", "committed_at", "object",
    ]  # fmt: skip
    world.table.write(
        f"DELETE FROM syncd_objects WHERE object_key = '{missing}'",
        "UPDATE syncd_objects SET resource_version = '7', resource_version_number = 7"
        f" WHERE object_key = '{stale}'",
        f"INSERT INTO syncd_objects ({', '.join(columns)}, object_key, uid) SELECT {', '.join(columns)},"
        f" 'load-1/invented', 'no-such-uid' FROM syncd_objects WHERE object_key = '{stale}'",
    )
    return {missing, stale, "load-1/invented"}


async def report(world: World, *arguments: str) -> tuple[int, dict[str, Any]]:
    """`syncd reconcile`: the exit code, and its only stream's report."""
    code, output = await world.syncd("reconcile", "-o", "json", *arguments)
    text = output[output.index("{\n") if "{\n" in output else output.index("{") :]
    document, _ = json.JSONDecoder().raw_decode(text)
    [each] = document["reports"]
    return code, each


KINDS = ("missing", "stale", "ghost", "altered")


@pytest.mark.parametrize("daemon", [True, False], ids=["daemon", "alone"])
async def test_three_rows_spoiled_by_hand(world: World, daemon: bool) -> None:
    async with mirrored(world, daemon):
        keys = spoil(world)
        spoiled = world.table.rows(*PODS)
        code, found = await report(world, "pods", "--dry-run")
        assert ([found[kind] for kind in KINDS], found["repaired"], found["error"]) == ([1, 1, 1, 0], 0, "")
        assert code == 3
        assert world.table.rows(*PODS) == spoiled
        drift = world.table.ask("SELECT object_key, finding, repaired FROM syncd_drift")
        assert {key for key, _, _ in drift} == keys
        assert not any(repaired for _, _, repaired in drift)

        code, found = await report(world)
        assert ([found[kind] for kind in KINDS], found["repaired"]) == ([1, 1, 1, 0], 3)
        assert code == 0
        assert await world.differences(*PODS) == []

        code, found = await report(world)
        assert ([found[kind] for kind in KINDS], code) == ([0, 0, 0, 0], 0)
        runs = world.table.ask(
            "SELECT missing + stale + ghost + altered, checked, dry_run, error"
            " FROM syncd_reconciliations ORDER BY reconciliation_id"
        )
        assert [(int(drift), bool(dry), error) for drift, _, dry, error in runs] == [
            (3, True, ""),
            (3, False, ""),
            (0, False, ""),
        ]
        assert world.table.tombstones("pods")["load-1/invented"][0] == "reconcile"

        key = sorted(world.table.rows(*PODS))[0]
        document = world.table.rows(*PODS)[key].document
        document["spec"]["nodeName"] = "edited-by-hand"
        text = json.dumps(document).replace("'", "''")
        world.table.write(f"UPDATE syncd_objects SET object = '{text}' WHERE object_key = '{key}'")
        code, found = await report(world)
        assert [found[kind] for kind in KINDS] == [0, 0, 0, 0]
        code, found = await report(world, "--deep")
        assert ([found[kind] for kind in KINDS], found["repaired"], code) == ([0, 0, 0, 1], 1, 0)
        assert await world.differences(*PODS) == []


async def test_ten_reconciles_under_churn_find_nothing(world: World) -> None:
    world.workload.pods(300)
    world.workload.configmaps(100)
    world.workload.widgets(50)
    world.simulator.bookmark_interval = 0.5
    timing = Timing(side_watch=1.0, catch_up=10.0, backoff_first=0.1)
    async with world.running("pods", "configmaps", "widgets.example.com", timing=timing) as daemon:
        async with world.churn(200):
            for number in range(10):
                order = Order(deep=number % 2 == 1, dry_run=number % 3 == 2)
                run: Run = await reconcile(daemon, Wanted(order=order), lambda run: None)
                assert run.failed == []
                assert run.drift == 0, run.reports
                assert run.streams == run.done == 3
                await asyncio.sleep(0.05)
        await world.level(PODS, CONFIGMAPS, WIDGETS)
    assert world.table.one("SELECT count(*) FROM syncd_drift") == 0


async def test_an_event_that_never_came_is_drift(world: World) -> None:
    """The server kept three changes to itself; lists show them."""
    world.workload.configmaps(50)
    world.simulator.bookmark_interval = 0.3
    async with world.running("configmaps") as daemon:
        keys = sorted(world.simulator.objects(*CONFIGMAPS))
        world.simulator.faults.drop_events(3, resource="configmaps")
        world.simulator.delete(*CONFIGMAPS, *parts(keys[0]))
        world.simulator.patch(*CONFIGMAPS, *parts(keys[1]), {"data": {"unseen": "yes"}})
        world.simulator.create(*CONFIGMAPS, {"metadata": {"namespace": "load-1", "name": "unseen"}})
        run = await reconcile(daemon, Wanted(), lambda run: None)
        [found] = run.reports
        assert ([found[kind] for kind in KINDS], found["error"]) == ([1, 1, 1, 0], "")
        assert await world.differences(*CONFIGMAPS) == []
