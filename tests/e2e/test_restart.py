"""A restart costs a probe and a watch for each stream, and brings exactly what changed meanwhile, once."""

from __future__ import annotations

import time

from tests.e2e.world import CONFIGMAPS, DEPLOYMENTS, PODS, SECRETS, WIDGETS, World, names, until

TYPES = (PODS, DEPLOYMENTS, CONFIGMAPS, SECRETS, WIDGETS)


async def synced(world: World) -> None:
    """A process has mirrored the cluster and was stopped; writes are noted from here on."""
    world.write_config(*names(TYPES))
    process = await world.spawn()
    await process.ready()
    assert await process.stop() == 0, process.text
    world.table.watch_writes()
    world.simulator.requests.clear()


async def test_nothing_changed(world: World) -> None:
    world.workload.fill(500)
    world.simulator.create("", "namespaces", {"metadata": {"name": "empty"}})
    await synced(world)
    before = world.table.ask("SELECT object_key, committed_at FROM syncd_objects ORDER BY 1, 2")
    process = await world.spawn()
    started_at = time.monotonic()
    await process.ready()
    first_event = time.monotonic() - started_at
    requests = world.simulator.requests
    for group, resource in TYPES:
        assert requests.probes(resource, group=group) == 1, resource
        assert requests.lists(resource, group=group) == 0, resource
        assert requests.watches(resource, group=group) == 1, resource
    assert requests.lists() == 0
    others = {request.path for request in requests if not request.verb}
    assert others <= {"/version", "/api", "/apis"}, others
    gets = {request.path for request in requests if request.verb == "get"}
    assert gets <= {"/api/v1/namespaces/kube-system"}, gets
    assert await process.stop() == 0
    assert world.table.writes() == []
    assert world.table.ask("SELECT object_key, committed_at FROM syncd_objects ORDER BY 1, 2") == before
    # The interpreter's own start is most of it: two seconds on a machine that has nothing else to do.
    assert first_event < 6.0
    live = [event for event in process.events if event["event"] == "snapshot begins"]
    assert live == []


async def test_what_changed_is_applied_in_order_and_once(world: World) -> None:
    world.workload.fill(200)
    await synced(world)
    simulator = world.simulator
    keys = sorted(simulator.objects(*PODS))
    expected: list[tuple[str, str, str]] = []
    for number, key in enumerate(keys[:60]):
        namespace, _, name = key.partition("/")
        if number % 3 == 0:
            gone = simulator.delete(*PODS, namespace, name)
            version = gone["metadata"]["resourceVersion"]
            expected += [("delete", key, version), ("bury", key, version)]
        else:
            changed = simulator.patch(*PODS, namespace, name, {"status": {"phase": f"changed {number}"}})
            expected.append(("update", key, changed["metadata"]["resourceVersion"]))
    for number in range(20):
        made = {"metadata": {"namespace": "load-1", "name": f"new-{number}"}}
        version = simulator.create(*PODS, made)["metadata"]["resourceVersion"]
        expected.append(("insert", f"load-1/new-{number}", version))
    process = await world.spawn()
    await process.ready()
    await world.level(*TYPES)
    assert await process.stop() == 0
    assert simulator.requests.lists() == 0
    writes = world.table.writes()
    upserts = [(what.split()[0], key, version) for what, key, version in writes if what != "delete objects"]
    buried = [("bury", key, version) for what, key, version in writes if what == "insert deleted_objects"]
    applied = [write for write in upserts if (write[0], write[1]) not in {("insert", b[1]) for b in buried}]
    assert sorted(applied) == sorted(each for each in expected if each[0] in ("insert", "update"))
    assert sorted(buried) == sorted(each for each in expected if each[0] == "bury")
    deleted = [key for what, key, _ in writes if what == "delete objects"]
    assert sorted(deleted) == sorted(key for what, key, _ in expected if what == "delete")
    stones = world.table.tombstones("pods")
    assert {stone[0] for stone in stones.values()} == {"deleted"}


async def test_changes_one_by_one_arrive_in_order(world: World) -> None:
    """Written slowly, each is a commit of its own: the order of the writes is the order of the cluster."""
    world.workload.pods(20)
    await synced(world)
    keys = sorted(world.simulator.objects(*PODS))
    process = await world.spawn()
    await process.ready()
    versions = []
    for number in range(15):
        namespace, _, name = keys[number % 5].partition("/")
        made = world.simulator.patch(*PODS, namespace, name, {"status": {"phase": f"p{number}"}})
        versions.append(made["metadata"]["resourceVersion"])
        await until(lambda: len(world.table.writes()) == len(versions), "the change is written")
    assert [version for _, _, version in world.table.writes()] == versions
    assert await process.stop() == 0


async def test_a_daemon_that_was_down_for_a_while_resumes_from_its_bookmarks(world: World) -> None:
    """A quiet resource keeps level by bookmarks: after a compaction of what it never saw, no relist."""
    world.workload.fill(100)
    world.simulator.bookmark_interval = 0.2
    world.write_config("deployments", "pods")
    process = await world.spawn()
    await process.ready()
    async with world.churn(200):
        checkpoint = "SELECT resource_version FROM syncd_streams WHERE resource = 'deployments'"
        begun = int(world.table.one(checkpoint))
        await until(lambda: int(world.table.one(checkpoint)) > begun + 20, "bookmarks are committed")
    assert await process.stop() == 0
    world.simulator.compact(int(world.table.one(checkpoint)) - 1)
    world.simulator.requests.clear()
    again = await world.spawn()
    await again.ready()
    assert world.simulator.requests.lists("deployments") == 0
    await world.level(DEPLOYMENTS, PODS)
