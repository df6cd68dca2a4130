"""The history and the feed from end to end: replayed, followed, shown; through churn, kills and relists."""

from __future__ import annotations

import asyncio
import json
import random
import signal
from pathlib import Path
from typing import Any

from tests.e2e.world import CONFIGMAPS, DEPLOYMENTS, PODS, World, until

COLUMNS = "object_key, change_type, uid, resource_version, object, resource"
ORDERED = f"SELECT {COLUMNS} FROM syncd_changes ORDER BY sequence"
STORED = "SELECT resource, object_key, uid, resource_version, object FROM syncd_objects"


def loaded(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


def replayed(world: World) -> dict[tuple[str, str], tuple[str, str, Any]]:
    """What the records alone say that there is."""
    table: dict[tuple[str, str], tuple[str, str, Any]] = {}
    for key, change, uid, version, document, resource in world.table.ask(ORDERED):
        at = (resource, key)
        if change == "created":
            assert at not in table, f"{at} was created twice"
        else:
            assert table[at][0] == uid, f"{at} is another object"
        if change == "deleted":
            del table[at]
        else:
            table[at] = (uid, version, loaded(document))
    return table


def stored(world: World) -> dict[tuple[str, str], tuple[str, str, Any]]:
    rows = world.table.ask(STORED)
    return {(resource, key): (uid, version, loaded(value)) for resource, key, uid, version, value in rows}


async def test_replaying_the_versions_gives_the_table(world: World) -> None:
    rand = random.Random(11)
    world.workload.pods(120)
    world.workload.configmaps(20)
    world.write_config("pods", "configmaps", history="versions")
    process = await world.spawn()
    await process.ready()
    for _ in range(3):
        async with world.churn(300):
            await asyncio.sleep(0.2 + rand.random() * 0.4)
            await process.kill()
            process = await world.spawn()
            await asyncio.sleep(rand.random() * 0.3)
        await process.ready()
        await world.level(PODS, CONFIGMAPS)
        assert replayed(world) == stored(world)
    world.simulator.faults.stall_watches("pods")
    keys = list(world.simulator.collection(*PODS).current.keys)
    for key in keys[:40]:
        namespace, _, name = key.partition("/")
        world.simulator.delete(*PODS, namespace, name)
    world.simulator.compact()
    world.simulator.faults.cut_watches("pods")
    await world.level(PODS, CONFIGMAPS)
    assert replayed(world) == stored(world)
    sources = dict(world.table.ask("SELECT source, count(*) FROM syncd_changes GROUP BY source"))
    assert sources.keys() >= {"watch", "snapshot"}


async def test_a_restart_with_nothing_changed_records_nothing(world: World) -> None:
    world.workload.pods(30)
    async with world.running("pods"):
        await world.level(PODS)
    before = world.table.one("SELECT max(sequence) FROM syncd_changes")
    assert before == 30
    async with world.running("pods"):
        await world.level(PODS)
    assert world.table.one("SELECT max(sequence) FROM syncd_changes") == before


async def test_following_until_it_is_stopped(world: World) -> None:
    world.workload.pods(5)
    world.write_config("pods")
    process = await world.spawn()
    await process.ready()
    follower = await world.spawn("changes", "--follow", "--cursor", "audit", "-o", "json")
    await until(lambda: follower.text.count("\n") == 5, "what was there is told")
    key = next(iter(world.simulator.collection(*PODS).current.keys))
    namespace, _, name = key.partition("/")
    world.simulator.patch(*PODS, namespace, name, {"metadata": {"labels": {"told": "yes"}}})
    await until(lambda: "told" in follower.text, "what comes is told")
    assert follower.code is None
    follower.send(signal.SIGINT)
    assert await follower.wait() == 0
    lines = [json.loads(line) for line in follower.text.splitlines()]
    assert (lines[-1]["change_type"], lines[-1]["changed_paths"]) == ("updated", ["metadata.labels.told"])
    world.simulator.delete(*PODS, namespace, name)
    await until(
        lambda: world.table.one("SELECT count(*) FROM syncd_changes") == len(lines) + 1, "it is recorded"
    )
    code, output = await world.syncd("changes", "--cursor", "audit", "--kind", "Pod")
    assert code == 0
    [line] = output.splitlines()
    assert "deleted" in line
    assert name in line
    assert await world.syncd("changes", "--cursor", "audit") == (0, "")


async def test_what_changed_field_by_field(world: World) -> None:
    world.workload.deployments(1)
    world.write_config({"name": "deployments.apps", "history": "versions"}, "pods")
    process = await world.spawn()
    await process.ready()
    key = next(iter(world.simulator.collection(*DEPLOYMENTS).current.keys))
    namespace, _, name = key.partition("/")
    world.simulator.patch(*DEPLOYMENTS, namespace, name, {"spec": {"replicas": 17}})
    world.simulator.patch(*DEPLOYMENTS, namespace, name, {"metadata": {"labels": {"a.b/c": "x"}}})
    await world.level(DEPLOYMENTS)
    code, output = await world.syncd("diff", f"deployment/{name}", "-n", namespace)
    assert code == 0, output
    assert "-> 17" in output
    assert 'metadata.labels."a.b/c": (none) -> "x"' in output
    code, output = await world.syncd("diff", f"deployments.apps/{name}", "-o", "json")
    last = json.loads(output.splitlines()[-1])
    assert {"path": 'metadata.labels."a.b/c"', "new": "x"} in last["fields"]
    code, output = await world.syncd("diff", "deployment/nothing")
    assert (code, output.count("\n")) == (0, 1)
    for wrong in ("deployment", "deployment/", f"deployment/{namespace}/{name}"):
        assert (await world.syncd("diff", wrong))[0] == 2
    code, output = await world.syncd("changes", "--kind", "deploymnts")
    assert (code, output) == (0, "syncd: no such change is recorded\n")


async def test_history_follows_the_configuration(world: World) -> None:
    world.workload.pods(10)
    path: Path = world.write_config("pods", history="none")
    process = await world.spawn(scale=0.1)
    await process.ready()
    await world.level(PODS)
    assert world.table.one("SELECT count(*) FROM syncd_changes") == 0
    world.write_config("pods", history="versions", name=path.name)
    process.send(signal.SIGHUP)
    count = "SELECT count(*) FROM syncd_changes WHERE initial AND object IS NOT NULL"
    await until(lambda: world.table.one(count) == 10, "what is there is the beginning")
    assert replayed(world) == stored(world)


async def test_other_scopes_are_no_changes(world: World) -> None:
    """A stream that takes over another's rows takes over its record; what leaves the selection is deleted."""
    world.workload.pods(30)
    keys = list(world.simulator.collection(*PODS).current.keys)
    namespaces = sorted({key.partition("/")[0] for key in keys})
    async with world.running("pods", history="versions"):
        await world.level(PODS)
    before = world.table.one("SELECT max(sequence) FROM syncd_changes")
    kept = namespaces[:2]
    async with world.running({"name": "pods", "namespaces": kept}, history="versions"):
        left = sum(key.partition("/")[0] in kept for key in keys)
        await until(lambda: world.table.one("SELECT count(*) FROM syncd_objects") == left, "the rest leaves")
        assert replayed(world) == stored(world)
    fresh = world.table.ask("SELECT change_type, cause FROM syncd_changes WHERE sequence > ?", before)
    assert fresh == [("deleted", "deselected")] * (30 - left)
    async with world.running("pods", history="versions"):
        await world.level(PODS)
        assert replayed(world) == stored(world)
