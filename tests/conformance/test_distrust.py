"""Versions that must not be trusted: a cluster that went back in time, another one, the future's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.site import CONFIGMAPS, Site, changed, within
from tests.e2e.world import PODS, parts

SIMULATED = ("", "configmaps")


def changed_after_a_backup(site: Site, masked: int | None, writes: int) -> Callable[[], None]:
    """After the backup some were changed, made, deleted and made anew. Calling the result undoes all that.

    Args:
        masked: how far other writes carry the version past the one that was lost, None for none.
        writes: after the rollback, to the very objects that the table knows.
    """
    simulator = site.simulator
    backup = simulator.resource_version
    keys = sorted(simulator.objects(*SIMULATED))
    for number, key in enumerate(keys[:12]):
        namespace, name = key.split("/")
        if number % 3 == 0:
            simulator.delete(*SIMULATED, namespace, name)
        elif number % 3 == 1:
            simulator.patch(*SIMULATED, namespace, name, {"data": {"lost": "yes"}})
        else:
            simulator.delete(*SIMULATED, namespace, name)
            simulator.create(*SIMULATED, {"metadata": {"namespace": namespace, "name": name}})
    for number in range(5):
        metadata = {"namespace": "load-1", "name": f"lost-{number}"}
        simulator.create(*SIMULATED, {"metadata": metadata, "data": {"lost": "yes"}})
    lost = simulator.resource_version

    def roll_back() -> None:
        simulator.rollback(backup)
        # the name of one that was lost comes back under another uid, at a version below the row's
        simulator.create(*SIMULATED, {"metadata": {"namespace": "load-1", "name": "lost-3"}})
        if masked is not None:
            simulator.advance(lost + masked)
            simulator.create("", "namespaces", {"metadata": {"name": "after"}})
        keys = sorted(simulator.objects(*SIMULATED))
        for number in range(writes):
            simulator.patch(*SIMULATED, *parts(keys[number % len(keys)]), {"data": {"new": str(number)}})

    return roll_back


async def rolled_back_while_it_is_down(site: Site, masked: int | None, writes: int) -> None:
    site.workload.configmaps(60)
    site.workload.pods(20)
    async with site.mirror("configmaps", "pods"):
        epoch = site.epoch()
        roll_back = changed_after_a_backup(site, masked, writes)
        await site.level(SIMULATED)
        await site.until(lambda: caught_up(site), "the newest row is there")
    roll_back()
    async with site.mirror("configmaps", "pods"):
        await site.level(SIMULATED, PODS)
    assert site.epoch() >= epoch


async def rolled_back_while_it_runs(site: Site, masked: int | None, writes: int) -> None:
    site.workload.configmaps(60)
    site.workload.pods(20)
    async with site.mirror("configmaps", "pods") as daemon:
        roll_back = changed_after_a_backup(site, masked, writes)
        await site.level(SIMULATED)
        roll_back()
        await site.level(SIMULATED, PODS)
        async with site.churn(100):
            await site.until(
                lambda: daemon.reflectors and all(r.live for r in daemon.reflectors), "live again"
            )
        site.simulator.delete(*SIMULATED, *parts(sorted(site.simulator.objects(*SIMULATED))[0]))
        await site.level(SIMULATED, PODS)


def caught_up(site: Site) -> bool:
    records = site.simulator.collection(*SIMULATED).current.records.values()
    query = "SELECT max(resource_version_number) FROM syncd_objects WHERE resource = 'configmaps'"
    return bool(site.table.one(query) == max(record.version for record in records))


@pytest.mark.simulated("a cluster whose store is restored from a backup")
@pytest.mark.parametrize("writes", [0, 3])
@pytest.mark.parametrize("play", [rolled_back_while_it_is_down, rolled_back_while_it_runs])
async def test_30_rolled_back(site: Site, play: Callable[..., Any], writes: int) -> None:
    """After a cluster's store was restored from a backup the table is the cluster again, lower versions
    included: a version of the future is noticed before it is watched.
    """
    await play(site, None, writes)
    assert site.epoch() > 1


@pytest.mark.simulated("a cluster whose store is restored from a backup")
@pytest.mark.parametrize(("masked", "writes"), [(0, 0), (1, 2), (5, 300)], ids=["plain", "few", "many"])
@pytest.mark.parametrize("play", [rolled_back_while_it_is_down, rolled_back_while_it_runs])
async def test_61_rolled_back_and_past_the_version(
    site: Site, play: Callable[..., Any], masked: int, writes: int
) -> None:
    """A rollback is noticed also where other writes have carried the cluster past the version since: no row
    and no object that was made anew stays wrong.
    """
    await play(site, masked, writes)


@pytest.mark.cluster
async def test_32_another_cluster_behind_the_address(site: Site) -> None:
    """Where another cluster answers than the one that was mirrored, the stored version is not used: what it
    has is listed, in a new epoch.
    """
    namespace = await site.namespace()
    keys = await site.fill(CONFIGMAPS, namespace, 20)
    entry = within(CONFIGMAPS, namespace)
    async with site.mirror(entry):
        await site.mirrored(CONFIGMAPS, namespace)
    epoch, version = site.epoch(), site.checkpoint(CONFIGMAPS)
    await site.write("UPDATE syncd_clusters SET uid = 'another'")  # as if it had been another until now
    await site.cluster.delete(CONFIGMAPS, keys[0])
    site.asked.clear()
    async with site.mirror(entry):
        await site.mirrored(CONFIGMAPS, namespace)
        assert site.epoch() == epoch + 1
        assert site.asked.lists(CONFIGMAPS)
        assert version not in [watch.resource_version for watch in site.asked.watches(CONFIGMAPS)]


@pytest.mark.simulated("another cluster that appears behind the same address")
async def test_65_another_cluster_while_it_runs(site: Site) -> None:
    """That another cluster answers now is noticed when a watch ends, without a restart."""
    site.workload.configmaps(40)
    simulator = site.simulator
    async with site.mirror("configmaps"):
        epoch = site.epoch()
        keys = sorted(simulator.objects(*SIMULATED))
        for key in keys[:10]:
            simulator.delete(*SIMULATED, *parts(key))
        simulator.set_cluster_uid(simulator.uid())
        simulator.compact()
        for key in keys[:5]:
            namespace, name = key.split("/")
            simulator.create(*SIMULATED, {"metadata": {"namespace": namespace, "name": name}})
        simulator.faults.cut_watches()
        await site.level(SIMULATED)
        await site.until(lambda: site.epoch() == epoch + 1, "an epoch")
        kube_system = simulator.objects("", "namespaces")["kube-system"]
        assert site.table.one("SELECT uid FROM syncd_clusters") == kube_system["metadata"]["uid"]


@pytest.mark.simulated("a cluster whose store is restored from a backup")
async def test_57_every_stream_begins_the_new_epoch(site: Site) -> None:
    """What one stream notices, that the cluster went back or is another, is true of all of its streams: each
    begins anew, also where it was killed between the notice and its first page.
    """
    site.workload.configmaps(40)
    site.workload.pods(30)
    simulator, faults = site.simulator, site.simulator.faults
    backup = simulator.resource_version
    entries = ("configmaps", "pods")
    async with site.mirror(*entries):
        epoch = site.epoch()
        site.workload.configmaps(5)
        keys = sorted(simulator.objects(*PODS))
        simulator.delete(*PODS, *parts(keys[0]))
        await site.level(SIMULATED, PODS)
        simulator.rollback(backup, cut=False)  # the pods' stream is not told
        pauses = [faults.pause_page(1, resource) for resource in entries]
        faults.cut_watches("configmaps")
        await site.until(lambda: site.epoch() == epoch + 1, "it is noticed")
        versions = "SELECT resource_version FROM syncd_streams"
        assert site.table.ask(versions) == [(None,), (None,)]
    for pause in pauses:
        pause.release()
    faults.clear()
    simulator.advance(simulator.resource_version + 1000)  # and by now the version says nothing
    site.asked.clear()
    async with site.mirror(*entries):
        await site.level(SIMULATED, PODS)
        assert site.epoch() == epoch + 1
        assert len(site.asked.lists(CONFIGMAPS)) == 1


@pytest.mark.cluster
async def test_63_a_version_of_the_future(site: Site) -> None:
    """A stored version that is ahead of the cluster is never watched from: the server would accept it and
    stay silent.
    """
    namespace = await site.namespace()
    keys = await site.fill(CONFIGMAPS, namespace, 10)
    entry = within(CONFIGMAPS, namespace)
    async with site.mirror(entry):
        await site.mirrored(CONFIGMAPS, namespace)
    epoch = site.epoch()
    future = "9" * 18
    await site.write(f"UPDATE syncd_streams SET resource_version = '{future}' WHERE resource = 'configmaps'")
    await site.write(
        f"UPDATE syncd_objects SET resource_version = '{future}', resource_version_number = {future}"
    )
    await site.cluster.patch(CONFIGMAPS, keys[0], changed(CONFIGMAPS, "since"))
    site.asked.clear()
    async with site.mirror(entry):
        await site.mirrored(CONFIGMAPS, namespace)
        assert future not in [watch.resource_version for watch in site.asked.watches(CONFIGMAPS)]
    assert site.epoch() == epoch + 1
