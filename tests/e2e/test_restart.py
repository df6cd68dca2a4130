"""A restart of the process costs a probe and a watch for each stream, and asks for little else."""

from __future__ import annotations

import time

from tests.e2e.world import CONFIGMAPS, DEPLOYMENTS, PODS, SECRETS, WIDGETS, World, names

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
    assert first_event < 60.0  # a machine may be slow; `make bench` has the ratio
    live = [event for event in process.events if event["event"] == "snapshot begins"]
    assert live == []
