"""A first sync, and every way to begin again: quietly, with what was missed, or from a new list."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from syncd.core.recovery import Timing
from tests.conformance.site import CONFIGMAPS, Site, changed, made, within
from tests.e2e.world import NO_TABLES, Reader, parts

SIMULATED = ("", "configmaps")


@pytest.mark.cluster
async def test_01_first_sync(site: Site) -> None:
    """After the first sync the rows are the cluster; the version, and that it is live, appear with the last
    of them and not before.
    """
    namespace = await site.namespace()
    keys = await site.fill(CONFIGMAPS, namespace, 60)
    before, listed = await site.cluster.listed(CONFIGMAPS, namespace)
    seen: set[tuple[Any, ...]] = set()

    async def look() -> None:
        query = (
            "SELECT s.state, s.resource_version, count(o.object_key) FROM syncd_streams s"
            " LEFT JOIN syncd_objects o ON o.stream_id = s.stream_id GROUP BY 1, 2"
        )
        while True:
            try:
                seen.update(await asyncio.to_thread(site.table.ask, query))
            except NO_TABLES:
                await asyncio.sleep(0.01)

    looking = asyncio.create_task(look())
    try:
        async with site.mirror(within(CONFIGMAPS, namespace, page_size=7)):
            await site.mirrored(CONFIGMAPS, namespace)
            after = site.checkpoint(CONFIGMAPS)
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
    assert set(keys) <= set(site.rows(CONFIGMAPS))
    assert after is not None
    assert int(after) >= int(before)
    for state, version, count in seen:
        assert (state == "live") <= (version is not None)
        assert version is None or count >= len(listed)


@pytest.mark.cluster
async def test_02_restart_with_nothing_changed(site: Site) -> None:
    """A restart where nothing changed costs one probe and one watch for each stream, no list, and writes no
    row.
    """
    namespace = await site.namespace()
    gadgets = await site.type()
    await site.fill(CONFIGMAPS, namespace, 20)
    await site.fill(gadgets, namespace, 5)
    entries = [within(CONFIGMAPS, namespace), gadgets.qualified]
    async with site.mirror(*entries):
        await site.mirrored(CONFIGMAPS, namespace)
        await site.mirrored(gadgets)
    await site.watch_writes()
    versions = [site.checkpoint(resource) for resource in (CONFIGMAPS, gadgets)]
    site.asked.clear()
    async with site.mirror(*entries):
        await site.mirrored(CONFIGMAPS, namespace)
        for resource, version in zip((CONFIGMAPS, gadgets), versions, strict=True):
            assert site.asked.lists(resource) == []
            assert site.asked.probes(resource) == 1
            [watch] = site.asked.watches(resource)
            assert watch.resource_version == version
    assert site.table.writes() == []


@pytest.mark.cluster
async def test_03_changes_while_it_was_down(site: Site) -> None:
    """What changed while it was down, and is still in the server's history, is applied exactly once and in
    order; nothing else is written.
    """
    namespace = await site.namespace()
    keys = await site.fill(CONFIGMAPS, namespace, 12)
    entry = within(CONFIGMAPS, namespace)
    async with site.mirror(entry):
        await site.mirrored(CONFIGMAPS, namespace)
    await site.watch_writes()
    site.asked.clear()
    cluster = site.cluster
    expected = []
    for key in keys[:3]:
        version = (await cluster.patch(CONFIGMAPS, key, changed(CONFIGMAPS, "x")))["metadata"][
            "resourceVersion"
        ]
        expected.append(("update objects", key, version))
    for key in keys[3:6]:
        await cluster.delete(CONFIGMAPS, key)
    new = (await cluster.create(CONFIGMAPS, namespace, made(CONFIGMAPS, "new")))["metadata"][
        "resourceVersion"
    ]
    expected.append(("insert objects", f"{namespace}/new", new))
    async with site.mirror(entry):
        await site.mirrored(CONFIGMAPS, namespace)
        assert site.asked.lists(CONFIGMAPS) == []
        writes = site.table.writes()
        assert sorted(
            write for write in writes if write[0] in ("update objects", "insert objects")
        ) == sorted(expected)
        for what in ("delete objects", "insert deleted_objects"):
            assert sorted(key for done, key, _ in writes if done == what) == keys[3:6]
        for number in range(5):  # and now, while it runs
            await cluster.patch(CONFIGMAPS, keys[0], changed(CONFIGMAPS, f"again {number}"))
        await site.mirrored(CONFIGMAPS, namespace)
        versions = [int(version) for _, key, version in site.table.writes() if key == keys[0]]
        assert versions == sorted(set(versions))


def populate(site: Site, count: int) -> list[str]:
    for number in range(count):
        metadata = {"namespace": f"n-{number % 3}", "name": f"c-{number:04d}"}
        site.simulator.create(*SIMULATED, {"metadata": metadata, "data": {"n": str(number)}})
    return sorted(site.simulator.objects(*SIMULATED))


@pytest.mark.simulated("a server that forgets its history on command")
async def test_04_down_for_longer_than_the_history(site: Site) -> None:
    """After being down for longer than the server remembers, a list brings the table level: only what differs
    is written, what was deleted meanwhile leaves, and nothing vanishes in between.
    """
    simulator = site.simulator
    populate(site, 400)
    entry = {"name": "configmaps", "page_size": 25}
    async with site.mirror(entry):
        await site.level(SIMULATED)
    before = site.table.rows(*SIMULATED)
    keys = list(before)
    gone, changes, replaced = keys[::40], keys[1::40], keys[2::80]
    for key in (*gone, *replaced):
        simulator.delete(*SIMULATED, *parts(key))
    for key in changes:
        simulator.patch(*SIMULATED, *parts(key), {"data": {"changed": "yes"}})
    new = [f"n-0/a-{number}" for number in range(10)]
    for key in (*replaced, *new):
        namespace, name = key.split("/")
        simulator.create(*SIMULATED, {"metadata": {"namespace": namespace, "name": name}})
    simulator.compact()
    await site.watch_writes()
    simulator.faults.delay(0.01, verb="list", resource="configmaps", times=None)
    async with Reader(site, SIMULATED) as reader, site.mirror(entry):
        await site.level(SIMULATED)
    assert min(reader.counts) >= len(before.keys() - set(gone))
    after = site.table.rows(*SIMULATED)
    same = before.keys() - {*gone, *changes, *replaced}
    assert all(after[key].committed_at == before[key].committed_at for key in same)
    assert {key for _, key, _ in site.table.writes()} == {*gone, *changes, *replaced, *new}
    stones = site.table.tombstones("configmaps")
    assert stones.keys() == {*gone, *replaced}
    assert {cause for cause, _, _ in stones.values()} == {"snapshot"}
    assert all(stones[key][1] == before[key].uid for key in stones)


@pytest.mark.simulated("a server that forgets its history on command")
@pytest.mark.parametrize("reason", ["event", "Expired", "Gone"])
async def test_05_expired_by_status(site: Site, reason: str) -> None:
    """It is the same whether the server says so inside the stream or by its status, under either name, and in
    the middle of its work.
    """
    simulator, faults = site.simulator, site.simulator.faults
    keys = populate(site, 60)
    async with site.mirror({"name": "configmaps", "page_size": 20}):
        faults.stall_watches("configmaps")
        simulator.delete(*SIMULATED, *parts(keys[1]))
        simulator.patch(*SIMULATED, *parts(keys[50]), {"data": {"changed": "yes"}})
        simulator.compact()
        if reason != "event":
            faults.answer(410, verb="watch", resource="configmaps", reason=reason)
        faults.cut_watches("configmaps")
        await site.level(SIMULATED)
        assert len(site.asked.lists(CONFIGMAPS)) == 6
    assert site.table.tombstones("configmaps").keys() == {keys[1]}


@pytest.mark.cluster
async def test_07_killed_after_a_commit(site: Site) -> None:
    """Killed right after a commit, it is told some of it again, and that changes nothing."""
    namespace = await site.namespace()
    keys = await site.fill(CONFIGMAPS, namespace, 10)
    site.write_config(within(CONFIGMAPS, namespace))
    process = await site.spawn()
    await process.ready(deadline=site.deadline)
    for number in range(10):
        await site.cluster.patch(CONFIGMAPS, keys[number], changed(CONFIGMAPS, "x"))
    await site.cluster.delete(CONFIGMAPS, keys[0])
    await site.mirrored(CONFIGMAPS, namespace)
    await site.until(lambda: keys[0] in site.table.tombstones("configmaps"), "the deletion is committed")
    await process.kill()
    await site.watch_writes()
    async with site.mirror(within(CONFIGMAPS, namespace)):
        await site.mirrored(CONFIGMAPS, namespace)
        assert site.asked.lists(CONFIGMAPS) == []
    assert site.table.writes() == []


@pytest.mark.cluster
async def test_14_bookmarks(site: Site) -> None:
    """A bookmark moves the version of a quiet resource and touches no row; after a restart it resumes from
    there.
    """
    namespace = await site.namespace()
    await site.fill(CONFIGMAPS, namespace, 5)
    if site.simulated:
        site.simulator.bookmark_interval = 0.1
    entry = within(CONFIGMAPS, namespace)
    timing = _short_watches(site)
    async with site.mirror(entry, timing=timing):
        await site.mirrored(CONFIGMAPS, namespace)
        await site.watch_writes()
        begun = int(site.checkpoint(CONFIGMAPS) or 0)
        other = await site.namespace("b")
        await site.fill(CONFIGMAPS, other, 5)  # not in this stream, but in its server's cache
        moved = int((await site.cluster.listed(CONFIGMAPS, other))[0])
        assert moved > begun
        await site.until(lambda: int(site.checkpoint(CONFIGMAPS) or 0) >= moved, "a bookmark")
    version = site.checkpoint(CONFIGMAPS)
    site.asked.clear()
    async with site.mirror(entry, timing=timing):
        assert site.asked.watches(CONFIGMAPS)[0].resource_version == version
        assert site.asked.lists(CONFIGMAPS) == []
    assert site.table.writes() == []


def _short_watches(site: Site) -> Timing:
    """A server sends a bookmark about two seconds before the end of a watch; periodic ones take a minute."""
    return site.timing if site.simulated else replace(site.timing, watch_min=8.0, watch_max=8.0)
