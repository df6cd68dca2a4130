"""Servers and networks that fail: whatever it is, it waits as long as it should, goes on from where it was,
and asks for no list that is not needed.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest

from syncd.core.recovery import Timing
from syncd.simulator import refusal
from syncd.simulator.faults import Rule
from syncd.simulator.server import SimulatorServer, write_kubeconfig
from tests.conformance.pace import SPEED, hurried
from tests.conformance.site import CONFIGMAPS, Site
from tests.e2e.world import parts

SIMULATED = ("", "configmaps")
REAL = replace(Timing(), start_jitter=0.0)
"""The durations as they are: the clock is hurried instead."""


def change(site: Site, text: str) -> None:
    key = sorted(site.simulator.objects(*SIMULATED))[0]
    site.simulator.patch(*SIMULATED, *parts(key), {"data": {"text": text}})


async def resumed(site: Site, rule: Rule, *, least: float) -> list[float]:
    """The next watch is answered so; what is missed meanwhile comes by a watch from the same version, after a
    wait of at least so long, and without a list. The waits.
    """
    site.workload.configmaps(20)
    site.simulator.second = 1 / SPEED
    with hurried() as slept:
        async with site.mirror("configmaps", timing=REAL):
            await site.level(SIMULATED)
            slept.clear()
            site.asked.clear()
            version = site.checkpoint(CONFIGMAPS)
            site.simulator.faults.rules.append(rule)
            site.simulator.faults.cut_watches("configmaps")
            await site.until(
                lambda: site.simulator.requests.matching("watch", status=rule_status(rule)), "refused"
            )
            change(site, "missed")
            await site.level(SIMULATED)
            assert site.asked.lists(CONFIGMAPS) == []
            refused, again, *_ = [watch.resource_version for watch in site.asked.watches(CONFIGMAPS)]
            assert refused == again == version
            assert [seconds for seconds in slept if least <= seconds < 60.0], slept
    return slept


def rule_status(rule: Rule) -> int:
    assert rule.answer is not None
    return rule.answer.status


def refusing(answer: refusal.Refusal) -> Rule:
    return Rule(verb="watch", resource="configmaps", answer=answer)


@pytest.mark.simulated("a connection that dies without a word")
async def test_25_half_open(site: Site) -> None:
    """A connection that is dead and says nothing is given up at its watch's own deadline, and nothing is
    lost.
    """
    site.workload.configmaps(20)
    timing = replace(site.timing, watch_min=1.0, watch_max=1.0, watch_margin=0.1)
    async with site.mirror("configmaps", timing=timing):
        change(site, "heard")
        await site.level(SIMULATED)
        site.simulator.faults.stall_watches("configmaps")
        change(site, "unheard")
        await site.level(SIMULATED)
        assert len(site.asked.watches(CONFIGMAPS)) > 1
        assert len(site.asked.lists(CONFIGMAPS)) == 1


@pytest.mark.simulated("a replica that lags")
async def test_34_a_replica_that_lags(site: Site) -> None:
    """A server that does not know the version yet is given time: no list, no distrust."""
    body = refusal.encoded(refusal.too_large(99, 98))
    await resumed(site, refusing(refusal.Refusal(504, body, headers={"Retry-After": "1"})), least=1.0)
    assert site.epoch() == 1


@pytest.mark.simulated("a server that throttles")
async def test_35_throttled(site: Site) -> None:
    """A server that says when to come back is not asked before, and then from the same version."""
    message = "storage is (re)initializing"
    answer = refusal.refusal(
        429, "TooManyRequests", message, details={"retryAfterSeconds": 7}, headers={"Retry-After": "7"}
    )
    await resumed(site, refusing(answer), least=7.0)


@pytest.mark.simulated("a server that throttles, or shuts down")
@pytest.mark.parametrize(("status", "seconds"), [(429, 1), (503, 1), (503, 5)])
async def test_36_refused_in_plain_text(site: Site, status: int, seconds: int) -> None:
    """It is the same for refusals in plain text, and for a server that shuts down and closes the
    connection.
    """
    headers = {"Retry-After": str(seconds)} | ({"Connection": "close"} if status == 503 else {})
    await resumed(
        site, refusing(refusal.Refusal(status, b"no\n", plain=True, headers=headers)), least=float(seconds)
    )


@pytest.mark.simulated("a server that goes away and comes back")
async def test_37_away_for_five_minutes(site: Site) -> None:
    """While the server is away the waits grow to half a minute or a whole one; when it is back, the watch
    goes on from its version without a list.
    """
    site.workload.configmaps(20)
    with hurried() as slept:
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(SimulatorServer(site.simulator))
            write_kubeconfig(site.kubeconfig, server.url)
            mirror = AsyncExitStack()
            daemon = await mirror.enter_async_context(site.mirror("configmaps", timing=REAL))
            async with mirror:
                await site.level(SIMULATED)
                slept.clear()
                site.asked.clear()
                await stack.aclose()
                await site.until(lambda: sum(1 for s in slept if 30.0 <= s < 60.0) >= 3, "long waits")
                change(site, "missed")
                async with SimulatorServer(site.simulator, port=server.port):
                    await site.live(daemon)
                    await site.level(SIMULATED)
                    assert site.asked.lists(CONFIGMAPS) == []
                    waits = [s for s in slept if s >= 0.8 and s != REAL.discovery]
                    assert waits[0] <= 3.2
                    assert max(waits) < 60.0
                    await mirror.aclose()


@pytest.mark.simulated("a server that ends every watch at once")
async def test_38_watches_that_end(site: Site) -> None:
    """Watches that end as soon as they have begun are asked for less and less often; one that ends on time,
    as all do, is followed by the next at once.
    """
    site.workload.configmaps(20)
    site.simulator.second = 1 / SPEED
    timing = replace(REAL, watch_min=60.0, watch_max=60.0, short_watch=50.0)  # 0.5 s of a busy machine
    with hurried() as slept:
        async with site.mirror("configmaps", timing=timing):
            await site.level(SIMULATED)
            site.wire.mute = True
            site.simulator.faults.cut_watches("configmaps")
            begun = len(slept)
            await site.until(lambda: sum(1 for s in slept[begun:] if 12.8 <= s < 60.0) >= 2, "long waits")
            assert len(site.asked.watches(CONFIGMAPS)) < 15
            site.wire.mute = False
            change(site, "missed")
            await site.level(SIMULATED)
            assert len(site.asked.lists(CONFIGMAPS)) == 1
            begun, watches = len(slept), len(site.asked.watches(CONFIGMAPS))
            for number in range(3):
                change(site, f"{number}")
                opened = len(site.asked.watches(CONFIGMAPS))
                await site.until(lambda: len(site.asked.watches(CONFIGMAPS)) > opened, "the next")  # noqa: B023
            assert len(site.asked.watches(CONFIGMAPS)) >= watches + 3
            # discovery has its own pace
            assert [s for s in slept[begun:] if s >= 0.3 and s != timing.discovery] == []
            await site.level(SIMULATED)


@pytest.mark.simulated("connections that break")
@pytest.mark.parametrize("how", ["at once", "after some bytes", "with many changes waiting"])
async def test_39_a_connection_breaks(site: Site, how: str) -> None:
    """A connection that breaks in the middle is followed by another from the same version."""
    site.workload.configmaps(20)
    faults = site.simulator.faults
    async with site.mirror("configmaps"):
        await site.level(SIMULATED)
        if how == "at once":
            faults.cut_watches("configmaps")
        elif how == "after some bytes":
            faults.cut_watches("configmaps", after_bytes=700)
        else:
            faults.stall_watches("configmaps")
        for number in range(10):
            change(site, f"{number}")
        if how == "with many changes waiting":
            faults.release_watches()
            faults.cut_watches("configmaps")
        await site.level(SIMULATED)
        assert len(site.asked.lists(CONFIGMAPS)) == 1
        assert len(site.asked.watches(CONFIGMAPS)) == 2


@pytest.mark.simulated("a webhook that cannot convert objects")
async def test_49_a_webhook_is_down(site: Site) -> None:
    """While the server cannot read its objects, because a webhook is down, rows stay, the stream says so,
    and it recovers by itself.
    """
    site.workload.configmaps(20)
    faults = site.simulator.faults
    async with site.mirror("configmaps") as daemon:
        await site.level(SIMULATED)
        await site.watch_writes()
        faults.answer(500, resource="configmaps", times=None, message="conversion webhook failed")
        faults.fail_watches(500, "configmaps")
        said = "SELECT state, last_error FROM syncd_streams WHERE resource = 'configmaps'"

        def told() -> Any:
            [(state, error)] = site.table.ask(said)
            return state == "backoff" and "webhook" in error

        await site.until(told, "the stream says so")
        change(site, "unheard")
        await asyncio.sleep(0.3)
        assert site.table.writes() == []
        faults.clear()
        await site.live(daemon)
        await site.level(SIMULATED)
        assert site.table.ask(said) == [("live", "")]


@pytest.mark.simulated("events that expire, and a history of five minutes")
async def test_53_events(site: Site) -> None:
    """Events, which send no bookmarks and whose history is short, survive idle times: a list brings them
    level. Those that expired meanwhile leave.
    """
    events = ("", "events")

    def event(number: int) -> None:
        involved = {"kind": "Pod", "name": "p", "namespace": "default"}
        metadata = {"name": f"e{number}", "namespace": "default"}
        site.simulator.create(*events, {"metadata": metadata, "involvedObject": involved, "reason": "R"})

    for number in range(6):
        event(number)
    site.simulator.second = 1 / 1000
    with hurried(1000):
        async with site.mirror("events", timing=REAL):
            await site.level(events)
            for _ in range(2):  # each is more than ten minutes
                site.workload.configmaps(3)
                site.simulator.compact()
                await asyncio.sleep(0.65)
            site.simulator.delete_many(*events, ["default/e1", "default/e2"])
            event(7)
            await site.level(events)
        site.simulator.delete_many(*events, ["default/e3", "default/e4"])
        site.simulator.compact()
        async with site.mirror("events", timing=REAL):
            await site.level(events)
    assert {key: stone[0] for key, stone in site.table.tombstones("events").items()} == {
        "default/e1": "deleted",
        "default/e2": "deleted",
        "default/e3": "snapshot",
        "default/e4": "snapshot",
    }
