"""One daemon a database: a stopped one that comes back writes nothing, a dead one is followed at once."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace

import pytest

from tests.conformance.site import CONFIGMAPS, Site, within

SCALE = 0.2  # the lease lasts 3 s


@pytest.mark.cluster
async def test_52_a_second_daemon(site: Site) -> None:
    """Of two daemons on one database the second is refused, and told who holds it; nothing is left of the
    hold when the first has ended.
    """
    namespace = await site.namespace()
    await site.fill(CONFIGMAPS, namespace, 5)
    async with site.mirror(within(CONFIGMAPS, namespace)):
        for command in ("run", "sync"):
            code, output = await site.syncd(command)
            assert code == 1, output
            assert str(os.getpid()) in output
            assert os.uname().nodename in output
            assert "Traceback" not in output
    assert site.table.ask("SELECT pid FROM syncd_leases") == []


@pytest.mark.cluster
async def test_60_paused_past_its_lease(site: Site) -> None:
    """A daemon that was paused for longer than its lease, while another took over, wakes, writes nothing and
    leaves.
    """
    namespace = await site.namespace()
    keys = await site.fill(CONFIGMAPS, namespace, 30)
    site.write_config(within(CONFIGMAPS, namespace))
    first = await site.spawn(scale=SCALE)
    await first.ready(deadline=site.deadline)
    async with site.stirred(CONFIGMAPS, keys):
        await asyncio.sleep(0.3)
        if not site.table.sqlite:
            first.send(signal.SIGSTOP)
    if site.table.sqlite:  # its transactions are locks of the process: in one of them it would be waited for
        await site.mirrored(CONFIGMAPS, namespace)
        await asyncio.sleep(0.3)
        first.send(signal.SIGSTOP)
    async with site.stirred(CONFIGMAPS, keys):
        await asyncio.sleep(15.0 * SCALE + 0.5)
    timing = replace(site.timing, lease=15.0 * SCALE, heartbeat=3.0 * SCALE)
    async with site.mirror(within(CONFIGMAPS, namespace), timing=timing):  # the second
        await site.mirrored(CONFIGMAPS, namespace)
        await site.watch_writes()
        holders = site.table.ask("SELECT stream_id, holder FROM syncd_streams ORDER BY 1")
        first.send(signal.SIGCONT)
        assert await first.wait() == 1, first.text[-2000:]
        assert "taken over" in first.text
        assert site.table.writes() == []
        assert site.table.ask("SELECT stream_id, holder FROM syncd_streams ORDER BY 1") == holders
        assert site.table.one("SELECT pid FROM syncd_leases") == os.getpid()
        await site.cluster.patch(CONFIGMAPS, f"{namespace}/c-0000", {"data": {"text": "after"}})
        await site.mirrored(CONFIGMAPS, namespace)


@pytest.mark.cluster
async def test_67_a_killed_daemon_is_followed_at_once(site: Site) -> None:
    """A daemon that was killed holds nobody up: on its machine the next takes over at once, without waiting
    for the lease to lapse.
    """
    namespace = await site.namespace()
    await site.fill(CONFIGMAPS, namespace, 5)
    site.write_config(within(CONFIGMAPS, namespace))
    process = await site.spawn()
    await process.ready(deadline=site.deadline)
    await process.kill()
    # held for 15 s from its last beat, if it had to lapse
    async with site.mirror(within(CONFIGMAPS, namespace)):
        assert site.table.one("SELECT pid FROM syncd_leases") == os.getpid()
        await site.mirrored(CONFIGMAPS, namespace)
