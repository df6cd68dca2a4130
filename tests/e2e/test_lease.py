"""One daemon a database: a stopped one that comes back writes nothing, a dead one is followed at once."""

from __future__ import annotations

import asyncio
import os
import signal
import time

from tests.e2e.world import CONFIGMAPS, PODS, World, until

SCALE = 0.2  # the lease lasts 3 s


async def test_a_daemon_that_was_stopped_past_its_lease_writes_nothing(world: World) -> None:
    world.workload.pods(100)
    world.workload.configmaps(20)
    world.write_config("pods", "configmaps")
    first = await world.spawn(scale=SCALE)
    await first.ready()
    async with world.churn(100):
        await asyncio.sleep(0.3)
        if not world.table.sqlite:
            first.send(signal.SIGSTOP)
    if world.table.sqlite:  # its transactions are locks of the process: in one of them it would be waited for
        await world.level(PODS, CONFIGMAPS)
        await asyncio.sleep(0.3)
        first.send(signal.SIGSTOP)
    async with world.churn(100):
        await asyncio.sleep(15.0 * SCALE + 0.5)
        second = await world.spawn(scale=SCALE)
        await second.ready()
        await asyncio.sleep(0.5)
    await world.level(PODS, CONFIGMAPS)
    world.table.watch_writes()
    streams = world.table.ask("SELECT stream_id, resource_version, holder FROM syncd_streams ORDER BY 1")
    first.send(signal.SIGCONT)
    assert await first.wait() == 1, first.text[-2000:]
    assert "taken over" in first.text
    assert world.table.writes() == []
    after = world.table.ask("SELECT stream_id, resource_version, holder FROM syncd_streams ORDER BY 1")
    assert [(each[0], each[2]) for each in after] == [(each[0], each[2]) for each in streams]
    assert world.table.one("SELECT pid FROM syncd_leases") == second.pid
    async with world.churn(100):
        await asyncio.sleep(0.3)
    await world.level(PODS, CONFIGMAPS)
    assert await second.stop() == 0


async def test_a_second_daemon_is_refused(world: World) -> None:
    world.workload.pods(20)
    world.write_config("pods")
    first = await world.spawn()
    await first.ready()
    for command in ("run", "sync"):
        code, output = await world.syncd(command)
        assert code == 1, output
        assert str(first.pid) in output
        assert os.uname().nodename in output
        assert "Traceback" not in output
    assert await first.stop() == 0
    assert world.table.ask("SELECT pid FROM syncd_leases") == []


async def test_a_killed_daemon_is_followed_at_once(world: World) -> None:
    world.workload.pods(50)
    world.write_config("pods")
    for _ in range(3):
        process = await world.spawn()
        await process.ready()
        await process.kill()
    started_at = time.monotonic()
    last = await world.spawn()
    await until(lambda: held_by(world) == last.pid, "the lease is taken over")
    # the lease would have lasted 15 s; the rest is the interpreter's start on a busy machine
    assert time.monotonic() - started_at < 8.0
    await last.ready()
    await world.level(PODS)
    assert await last.stop() == 0


def held_by(world: World) -> int:
    [(pid,)] = world.table.ask("SELECT pid FROM syncd_leases") or [(0,)]
    return int(pid)
