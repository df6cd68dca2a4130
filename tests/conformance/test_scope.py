"""What is selected, and how: scopes that change, redaction that is turned on, probes, polls, freshness."""

from __future__ import annotations

import asyncio
import base64
import gc
from dataclasses import replace
from typing import Any

import pytest

from syncd.core.ports import ListRequest, WatchRequest
from syncd.core.recovery import Timing
from tests.conformance.pace import SPEED, hurried
from tests.conformance.site import CONFIGMAPS, SECRETS, Site, changed, within
from tests.conformance.writer import Json
from tests.e2e.world import parts

SIMULATED = ("", "configmaps")
PLANTED = "pLaNtEd-0123456789-vAlUe"
ENCODED = base64.b64encode(PLANTED.encode()).decode()
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@pytest.mark.cluster
async def test_33_another_scope(site: Site) -> None:
    """When the configuration selects another scope, other namespaces or another selector, the new streams
    take over the rows in theirs; what is selected no more leaves, and the tombstone says why.
    """
    spaces = [await site.namespace(suffix) for suffix in ("a", "b", "c")]
    a, b, c = spaces
    for namespace in spaces:
        await site.fill(CONFIGMAPS, namespace, 6)
    await site.cluster.patch(CONFIGMAPS, f"{a}/c-0000", {"metadata": {"labels": {"made": "elsewhere"}}})
    gadgets = await site.type()
    for namespace in spaces:
        await site.fill(gadgets, namespace, 4)

    async def follow(entry: Json, *, selector: str = "", outside: tuple[str, ...] = ()) -> None:
        resource = gadgets if entry["name"] == gadgets.qualified else CONFIGMAPS
        scope = entry.get("namespaces", [])
        async with site.mirror(entry):
            await site.mirrored(resource, *scope, selector=selector)
            await site.cluster.patch(resource, f"{c}/c-0001", changed(resource, f"{entry}"))
            await site.cluster.patch(resource, f"{a}/c-0001", changed(resource, f"{entry}"))
            await site.mirrored(resource, *scope, selector=selector)
        stones = site.table.tombstones(resource.name)
        left = {key for key in stones if parts(key)[0] in outside}
        assert {stones[key][0] for key in left} <= {"deselected"}
        assert bool(left) == bool(outside)

    await follow(within(CONFIGMAPS, a, b))
    await follow(within(CONFIGMAPS, b, c), outside=(a,))
    await follow(within(CONFIGMAPS, a, b, c, label_selector="made=here"), selector="made=here")
    await follow(within(CONFIGMAPS, a, b, c))
    await follow({"name": gadgets.qualified})
    await site.watch_writes()
    await follow(within(gadgets, a, c), outside=(b,))
    assert {key for what, key, _ in site.table.writes() if what == "delete objects"} == {
        f"{b}/c-{number:04}" for number in range(4)
    }
    await follow({"name": gadgets.qualified})


async def plant(site: Site, namespace: str, name: str) -> None:
    metadata = {
        "name": name,
        "annotations": {LAST_APPLIED: f'{{"data":{{"key":"{ENCODED}"}}}}', "kept": "yes"},
    }
    data = {"key": ENCODED, "other": base64.b64encode(f"{PLANTED}{name}".encode()).decode()}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data, "type": "Opaque"}
    await site.cluster.create(SECRETS, namespace, secret)


@pytest.mark.cluster
async def test_73_redaction_is_turned_on(site: Site) -> None:
    """When the values of Secrets are no longer to be stored, those that were are nowhere afterwards:
    neither in rows nor in tombstones nor in the bytes of the files.
    """
    namespace = await site.namespace()
    for number in range(40):
        await plant(site, namespace, f"s-{number:02}")
    opened = within(SECRETS, namespace, redact="none")
    async with site.mirror(opened):
        assert site.table.holding(PLANTED, ENCODED)
        await site.cluster.delete(SECRETS, f"{namespace}/s-00")
        await site.cluster.patch(SECRETS, f"{namespace}/s-01", {"data": {"key": ENCODED + "c2Vjb25k"}})
        await site.until(lambda: site.table.tombstones("secrets"), "the deletion is committed")
    stored: Any = site.rows(SECRETS)[f"{namespace}/s-02"].document
    assert stored["data"]["key"] == ENCODED
    await site.cluster.delete(SECRETS, f"{namespace}/s-03")  # nobody sees it go
    async with site.mirror(within(SECRETS, namespace)):
        await site.mirrored(SECRETS, namespace)
        await site.until(lambda: not site.table.holding(PLANTED, ENCODED), "they are nowhere")
    gc.collect()
    assert site.table.holding(PLANTED, ENCODED) == []
    planted = [row for row in site.rows(SECRETS).values() if row.name.startswith("s-")]
    assert len(planted) == 38
    for row in planted:
        assert set(row.document["data"].values()) == {"redacted"}
        assert row.document["metadata"]["annotations"] == {"kept": "yes"}


@pytest.mark.simulated("watches that are silent to their end, and others that are not")
async def test_78_probes(site: Site) -> None:
    """After a watch that brought nothing, or that broke, the cluster is asked for its version first, by a
    list of one object; after one that brought something to its end it is not.
    """
    site.workload.configmaps(10)
    site.simulator.second = 1 / SPEED
    timing = replace(Timing(), watch_min=60.0, watch_max=60.0, start_jitter=0.0)
    key = sorted(site.simulator.objects(*SIMULATED))[0]
    with hurried():
        async with site.mirror("configmaps", timing=timing):
            await site.level(SIMULATED)
            assert site.asked.probes(CONFIGMAPS) == 0  # a list was just taken
            for probes, brings, breaks in (
                (1, False, False),
                (1, True, False),
                (2, True, True),
            ):
                if brings:
                    site.simulator.patch(*SIMULATED, *parts(key), {"data": {"text": f"{probes} {breaks}"}})
                watches = len(site.asked.watches(CONFIGMAPS))
                if breaks:
                    await site.until(lambda: site.simulator.faults.cut_watches("configmaps"), "it is open")
                await site.until(lambda: len(site.asked.watches(CONFIGMAPS)) > watches, "another watch")  # noqa: B023
                assert site.asked.probes(CONFIGMAPS) == probes
            await site.level(SIMULATED)


@pytest.mark.cluster
async def test_79_polls(site: Site) -> None:
    """A resource may be polled instead of watched: each poll brings the table level, and no watch is asked
    for.
    """
    namespace = await site.namespace()
    keys = await site.fill(CONFIGMAPS, namespace, 20)
    async with site.mirror(within(CONFIGMAPS, namespace, mode="poll", every="1s")):
        await site.mirrored(CONFIGMAPS, namespace)
        await site.watch_writes()
        await site.cluster.delete(CONFIGMAPS, keys[0])
        await site.cluster.patch(CONFIGMAPS, keys[1], changed(CONFIGMAPS, "polled"))
        await site.fill(CONFIGMAPS, namespace, 2, "new")
        await site.mirrored(CONFIGMAPS, namespace)
        await asyncio.sleep(1.2)
        assert site.asked.watches(CONFIGMAPS) == []
    assert site.table.tombstones("configmaps")[keys[0]][0] == "snapshot"
    written = {key for _, key, _ in site.table.writes()}
    assert written == {keys[0], keys[1], f"{namespace}/new-0000", f"{namespace}/new-0001"}


@pytest.mark.simulated("a history that is shorter than a list takes")
async def test_80_a_history_shorter_than_a_list(site: Site) -> None:
    """Where the server forgets a list's version before the list is written, the next list has its watch
    opened right after its first page, so that it comes to an end.
    """
    site.workload.configmaps(60)
    entry = {"name": "configmaps", "page_size": 20}
    async with site.mirror(entry):
        await site.level(SIMULATED)
    key = sorted(site.simulator.objects(*SIMULATED))[0]
    site.simulator.patch(*SIMULATED, *parts(key), {"data": {"text": "missed"}})
    site.simulator.compact()
    # from the stored version, and from that of the list that follows
    site.simulator.faults.answer(410, verb="watch", resource="configmaps", times=2)
    site.asked.clear()
    async with site.mirror(entry):
        await site.level(SIMULATED)
        site.simulator.patch(*SIMULATED, *parts(key), {"data": {"text": "after"}})
        await site.level(SIMULATED)
        kinds = ["watch" if isinstance(one, WatchRequest) else "page" for one in _requests(site)]
    assert kinds[:6] == ["page", "watch", "page", "page", "page", "watch"]
    assert sorted(kinds[6:]) == ["page", "page", "page", "watch"]
    assert kinds[6] == kinds[9] == "page"  # one page may be fetched ahead


def _requests(site: Site) -> list[ListRequest | WatchRequest]:
    return [ask.request for ask in site.asked if ask.stream.resource.name == "configmaps"]


@pytest.mark.cluster
async def test_81_fresh_or_stale(site: Site) -> None:
    """A quiet resource is fresh as long as its watch lasts; without a daemon that beats nothing is,
    whatever the rows say.
    """
    namespace = await site.namespace()
    await site.fill(CONFIGMAPS, namespace, 5)
    async with site.mirror(within(CONFIGMAPS, namespace)):
        await asyncio.sleep(2.0)
        code, output = await site.syncd("status")
        assert code == 0, output
    await site.write("UPDATE syncd_leases SET heartbeat_at = '2020-01-01 00:00:00.000000'")
    code, output = await site.syncd("status")
    assert code == 3, output
