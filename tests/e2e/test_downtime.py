"""Down for longer than the server remembers: a relist that nobody who reads can tell from a quiet moment."""

from __future__ import annotations

from tests.e2e.world import CONFIGMAPS, Reader, World, parts


async def test_a_relist_writes_the_difference_and_nothing_vanishes(world: World) -> None:
    simulator = world.simulator
    for number in range(400):
        metadata = {"namespace": f"n-{number % 3}", "name": f"c-{number:04d}"}
        simulator.create(*CONFIGMAPS, {"metadata": metadata, "data": {"n": str(number)}})
    world.write_config({"name": "configmaps", "page_size": 25})
    process = await world.spawn()
    await process.ready()
    assert await process.stop() == 0
    before = world.table.rows(*CONFIGMAPS)
    keys = list(before)
    gone, changed, replaced = keys[::40], keys[1::40], keys[2::80]
    for key in gone:
        simulator.delete(*CONFIGMAPS, *parts(key))
    for key in changed:
        simulator.patch(*CONFIGMAPS, *parts(key), {"data": {"changed": "yes"}})
    for key in replaced:
        namespace, name = key.split("/")
        simulator.delete(*CONFIGMAPS, namespace, name)
        simulator.create(*CONFIGMAPS, {"metadata": {"namespace": namespace, "name": name}})
    new = [f"n-0/a-{number}" for number in range(10)]
    for key in new:
        simulator.create(*CONFIGMAPS, {"metadata": {"namespace": "n-0", "name": key[4:]}})
    simulator.compact()
    world.table.watch_writes()
    simulator.faults.delay(0.01, verb="list", resource="configmaps", times=None)
    async with Reader(world, CONFIGMAPS) as reader:
        process = await world.spawn()
        await process.ready()
        await world.level(CONFIGMAPS)
    assert simulator.requests.matching("watch", "configmaps")
    assert min(reader.counts) >= len(before.keys() - set(gone))
    after = world.table.rows(*CONFIGMAPS)
    same = before.keys() - {*gone, *changed, *replaced}
    assert all(after[key].committed_at == before[key].committed_at for key in same)
    written = {key for _, key, _ in world.table.writes()}
    assert written == {*gone, *changed, *replaced, *new}
    stones = world.table.tombstones("configmaps")
    assert stones.keys() == {*gone, *replaced}
    assert {cause for cause, _, _ in stones.values()} == {"snapshot"}
    assert all(stones[key][1] == before[key].uid for key in stones)


async def test_a_410_while_it_runs(world: World) -> None:
    """The same in a running daemon, by the event and by the status, and after expired continue tokens."""
    simulator, faults = world.simulator, world.simulator.faults
    for number in range(200):
        simulator.create(*CONFIGMAPS, {"metadata": {"namespace": "n", "name": f"c-{number:04d}"}})
    async with world.running({"name": "configmaps", "page_size": 20}):
        for number in range(3):
            faults.stall_watches("configmaps")
            simulator.delete(*CONFIGMAPS, "n", f"c-{number:04d}")
            simulator.patch(*CONFIGMAPS, "n", f"c-{number + 50:04d}", {"data": {"changed": "yes"}})
            if number == 1:
                faults.answer(410, verb="watch", resource="configmaps")
            if number == 2:
                faults.expire_tokens(times=2)
            simulator.compact()
            faults.cut_watches("configmaps")
            await world.level(CONFIGMAPS)
        assert simulator.requests.lists("configmaps") >= 20  # the first list is ten pages, each relist more
    assert len(world.table.tombstones("configmaps")) == 3
