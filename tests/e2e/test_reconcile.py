"""What was spoiled by hand is found exactly, repaired once, and never invented under churn."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.e2e.world import PODS, World, until


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
    keys = sorted(world.table.rows(*PODS))
    missing, stale = keys[3], keys[7]
    world.table.spoil("pods", (missing, stale), "load-1/invented")
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


REFUSED = "syncd_requests_refused"


def refuse_answers(world: World) -> None:
    """From now on no request can be answered, as in a database that has just become full."""
    trigger = f"CREATE TRIGGER {REFUSED} BEFORE UPDATE OF answered_at ON syncd_requests"
    if world.table.sqlite:
        world.table.write(f"{trigger} BEGIN SELECT RAISE(ABORT, 'full'); END")
        return
    world.table.write(
        f"CREATE FUNCTION {REFUSED}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'full'; END $$",
        f"{trigger} FOR EACH ROW EXECUTE FUNCTION {REFUSED}()",
    )


async def test_an_answer_that_cannot_be_written_is_given_later(world: World) -> None:
    world.workload.pods(3)
    world.write_config("pods")
    daemon = await world.spawn()
    await daemon.ready()
    refuse_answers(world)
    asking = await world.spawn("reconcile")
    await until(lambda: "a job failed" in daemon.text, "it has been refused")
    world.table.write(f"DROP TRIGGER {REFUSED}" + ("" if world.table.sqlite else " ON syncd_requests"))
    assert await asking.wait() == 0, asking.text
    assert "no drift" in asking.text
    assert await daemon.stop() == 0, daemon.text
