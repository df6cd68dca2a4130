"""Streams that begin with a WatchList: the state and what follows over one connection."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from syncd.core.ports import WatchRequest
from tests.conformance.site import CONFIGMAPS, Site, changed, within
from tests.e2e.world import PODS, parts

MANY = {"name": "pods", "initial": "watchlist", "page_size": 20}


def initial(requests: Iterable[WatchRequest]) -> list[bool]:
    """Of each watch, whether it was a WatchList."""
    return [request.initial_events for request in requests]


def change_some(site: Site) -> None:
    """Of the first and last pods: some gone, some changed, some made anew."""
    simulator = site.simulator
    keys = sorted(simulator.objects(*PODS))
    for number, key in enumerate([*keys[:12], *keys[-12:]]):
        namespace, name = parts(key)
        if number % 3 == 1:
            simulator.patch(*PODS, namespace, name, {"metadata": {"labels": {"changed": "yes"}}})
            continue
        again = simulator.delete(*PODS, namespace, name)
        if number % 3 == 2:
            metadata = {"namespace": namespace, "name": name}
            simulator.create(*PODS, {"metadata": metadata, "spec": again["spec"]})


@pytest.mark.cluster
async def test_16_a_watch_list(site: Site) -> None:
    """A stream may begin with a WatchList: no list at all, the version with the bookmark that ends the
    state, and what follows over the same connection.
    """
    namespace = await site.namespace()
    keys = await site.fill(CONFIGMAPS, namespace, 60)
    async with site.mirror(within(CONFIGMAPS, namespace, initial="watchlist", page_size=20)):
        await site.mirrored(CONFIGMAPS, namespace)
        if initial(site.asked.watches(CONFIGMAPS)) != [True] or site.asked.lists(CONFIGMAPS):
            assert not site.simulated
            pytest.skip("this server has WatchLists off")
        await site.cluster.patch(CONFIGMAPS, keys[0], changed(CONFIGMAPS, "after"))
        await site.cluster.delete(CONFIGMAPS, keys[1])
        await site.mirrored(CONFIGMAPS, namespace)
        assert initial(site.asked.watches(CONFIGMAPS)) == [True]
        assert site.checkpoint(CONFIGMAPS)


async def listed_instead(site: Site, how: str, asked: int) -> None:
    """The server cannot: after so many WatchLists a list is taken, and it is not asked again."""
    site.workload.pods(60)
    site.simulator.faults.spoil_watch_lists(how, resource="pods")
    timing = replace(site.timing, initial_events=0.5, initial_silence=0.3)
    requests = site.simulator.requests

    def watches() -> list[bool]:
        return [one.query.get("sendInitialEvents") == "true" for one in requests.matching("watch", "pods")]

    async with site.mirror({**MANY, "page_size": 100}, timing=timing) as daemon:
        await site.level(PODS)
        assert (requests.lists("pods"), watches()) == (1, [True] * asked + [False])
        [reflector] = daemon.reflectors
        reflector.relist("asked")
        await site.until(lambda: requests.lists("pods") == 2 and reflector.live, "it lists again")
        change_some(site)
        await site.level(PODS)
        await site.until(lambda: watches() == [True] * asked + [False, False], "a plain watch")


@pytest.mark.simulated("a server that ends the watch half-way")
async def test_17_a_watch_list_that_ends_too_early(site: Site) -> None:
    """A WatchList that ends before its bookmark counts for nothing: a list is taken at once."""
    await listed_instead(site, "end", 1)


@pytest.mark.simulated("a server that refuses WatchLists")
@pytest.mark.parametrize("how", ["refuse", "fail"])
async def test_18_a_server_without_watch_lists(site: Site, how: str) -> None:
    """A server that refuses WatchLists is listed, and that is remembered."""
    await listed_instead(site, how, 1)


@pytest.mark.simulated("a server that takes the parameter and ignores it")
@pytest.mark.parametrize("how", ["ignore", "unmarked"])
async def test_19_a_watch_list_that_never_ends(site: Site, how: str) -> None:
    """A server that never says where the state ends is not waited for: a list is taken in time."""
    await listed_instead(site, how, 1)


@pytest.mark.simulated("a server that never says where the state ends")
async def test_20_nothing_is_kept_of_half_a_watch_list(site: Site) -> None:
    """Until a WatchList has ended its version is unknown: none is stored, whatever versions its objects
    have, and nothing that was there leaves.
    """
    site.workload.pods(100)
    faults = site.simulator.faults
    faults.spoil_watch_lists("unmarked", resource="pods")
    checkpoint = "SELECT resource_version FROM syncd_streams WHERE resource = 'pods'"
    patient = replace(site.timing, initial_events=60.0)
    async with site.mirror(MANY, timing=patient, live=False):
        await site.until(lambda: len(site.table.rows(*PODS)) == 100, "all are told")
        assert site.table.one(checkpoint) is None
        assert site.table.states() == {("pods", ""): "syncing"}
    faults.clear()
    async with site.mirror(MANY):
        await site.level(PODS)
    before, rows = site.table.one(checkpoint), site.table.rows(*PODS)
    change_some(site)
    site.simulator.compact()
    faults.spoil_watch_lists("unmarked", resource="pods")
    kept = rows.keys() - site.simulator.objects(*PODS).keys()
    async with site.mirror(MANY, timing=patient, live=False):
        await site.until(
            lambda: sum(row.version != rows[key].version for key, row in site.table.rows(*PODS).items()) >= 8,
            "what changed is written",
        )
        assert kept <= site.table.rows(*PODS).keys()
        assert site.table.one(checkpoint) == before
    faults.clear()
    async with site.mirror(MANY):
        await site.level(PODS)
    assert {site.table.tombstones("pods")[key][0] for key in kept} == {"snapshot"}


@pytest.mark.simulated("a server that gives the state out of order, or changes between it")
@pytest.mark.parametrize("how", ["reverse", "mingle"])
@pytest.mark.parametrize("rows", [False, True], ids=["first", "relist"])
async def test_72_a_watch_list_out_of_order(site: Site, how: str, rows: bool) -> None:
    """A WatchList whose keys come out of order, or with changes between them, is as good: deletions wait
    for its end.
    """
    site.workload.pods(120)
    faults = site.simulator.faults
    if rows:
        async with site.mirror("pods"):
            await site.level(PODS)
        change_some(site)
        site.simulator.compact()
    faults.spoil_watch_lists(how, resource="pods")
    faults.midway = lambda: change_some(site)
    async with site.mirror({**MANY, "page_size": 7}):
        await site.level(PODS)
        faults.midway = lambda: None
        change_some(site)
        await site.level(PODS)
    assert site.simulator.requests.lists("pods") == (1 if rows else 0)
