"""Lists: in pages, with tokens that expire, cut short, out of order, or suspiciously empty."""

from __future__ import annotations

import pytest

from syncd.core.ports import ListRequest
from syncd.simulator.listing import encode_token
from tests.conformance.site import CONFIGMAPS, Site, changed, within
from tests.conformance.writer import Json
from tests.e2e.world import parts

SIMULATED = ("", "configmaps")


@pytest.mark.cluster
async def test_09_pages(site: Site) -> None:
    """A list comes in pages of the size that was asked for, each with nothing but the token of the one
    before; the version to watch from is that of all pages.
    """
    count, limit = (1201, 500) if site.simulated else (25, 10)
    namespace = await site.namespace()
    if site.simulated:
        for number in range(count):
            metadata = {"namespace": namespace, "name": f"c-{number:04}"}
            site.simulator.create(*SIMULATED, {"metadata": metadata})
    else:
        await site.fill(CONFIGMAPS, namespace, count)
    async with site.mirror(within(CONFIGMAPS, namespace, page_size=limit)):
        await site.mirrored(CONFIGMAPS, namespace)
        first, *others = site.asked.lists(CONFIGMAPS)
        assert first == ListRequest(limit=limit)
        assert [page.limit for page in others] == [limit, limit]
        assert all(page.continue_token for page in others)
        [watch] = site.asked.watches(CONFIGMAPS)
        assert watch.resource_version == site.checkpoint(CONFIGMAPS)
    if site.simulated:
        pages = [request.query for request in site.simulator.requests.matching("list", "configmaps")]
        assert not any("resourceVersion" in name for query in pages for name in query)


@pytest.mark.simulated("a server that gives a page without items")
async def test_10_a_page_without_items(site: Site) -> None:
    """A page may hold nothing and still be followed by others: nothing is deleted because of it."""
    site.workload.configmaps(30)
    entry = {"name": "configmaps", "page_size": 10}
    async with site.mirror(entry):
        await site.level(SIMULATED)
    gone = sorted(site.simulator.objects(*SIMULATED))[14]
    site.simulator.delete(*SIMULATED, *parts(gone))
    site.simulator.compact()
    emptied: set[str] = set()

    def page(answer: Json, token: str) -> Json:
        """Each page is empty first, and is asked for again by a token of its own."""
        if token in emptied:
            return answer
        again = token or encode_token(int(answer["metadata"]["resourceVersion"]), "/\0")
        emptied.update((token, again))
        return {**answer, "items": [], "metadata": {**answer["metadata"], "continue": again}}

    site.wire.page = page
    async with site.mirror(entry):
        await site.level(SIMULATED)
        assert len(site.asked.lists(CONFIGMAPS)) > 6
    assert site.table.tombstones("configmaps").keys() == {gone}


@pytest.mark.simulated("continue tokens that expire on command")
async def test_11_a_token_expires(site: Site) -> None:
    """When a list's token expires in the middle the list begins anew: pages of different versions never
    make one snapshot.
    """
    site.workload.configmaps(30)
    faults = site.simulator.faults
    paused = faults.pause_page(2, "configmaps")
    faults.expire_tokens(resource="configmaps")
    async with site.mirror({"name": "configmaps", "page_size": 10}, live=False) as daemon:
        await paused.reached.wait()
        key = sorted(site.simulator.objects(*SIMULATED))[2]  # of page one
        site.simulator.delete(*SIMULATED, *parts(key))
        paused.release()
        await site.live(daemon)
        await site.level(SIMULATED)
        asked = [bool(page.continue_token) for page in site.asked.lists(CONFIGMAPS)]
        assert asked == [False, True, False, True, True]
        [watch] = site.asked.watches(CONFIGMAPS)
        assert watch.resource_version == str(site.simulator.resource_version)


@pytest.mark.simulated("continue tokens that expire on command")
@pytest.mark.parametrize("watch_lists", [True, False])
async def test_12_tokens_expire_twice(site: Site, watch_lists: bool) -> None:
    """Where tokens expire twice in a row everything is asked for at once: by a WatchList, or by one list
    without pages.
    """
    site.workload.configmaps(30)
    site.simulator.faults.expire_tokens(times=None, resource="configmaps")
    if not watch_lists:
        site.simulator.faults.spoil_watch_lists("refuse", resource="configmaps")
    async with site.mirror({"name": "configmaps", "page_size": 10}):
        await site.level(SIMULATED)
        lists = site.asked.lists(CONFIGMAPS)
        assert [page.limit for page in lists] == [10] * 4 + ([] if watch_lists else [None])
        assert site.asked.watches(CONFIGMAPS)[0].initial_events


@pytest.mark.simulated("answers that are cut short")
async def test_13_a_list_cut_short(site: Site) -> None:
    """A list whose body ends too early is no list, though its status was 200: nothing is deleted for it,
    and it is asked for again.
    """
    site.workload.configmaps(60)
    entry = {"name": "configmaps", "page_size": 20}
    async with site.mirror(entry):
        await site.level(SIMULATED)
    gone = sorted(site.simulator.objects(*SIMULATED))[30]
    site.simulator.delete(*SIMULATED, *parts(gone))
    site.simulator.compact()
    for after in (0, 1, 500, 1500):
        site.simulator.faults.truncate(after, resource="configmaps", continued=after > 1)
    async with site.mirror(entry):
        await site.level(SIMULATED)
        assert len(site.asked.lists(CONFIGMAPS)) > 5
    assert site.table.tombstones("configmaps").keys() == {gone}


@pytest.mark.cluster
async def test_59_one_namespace_s_list(site: Site) -> None:
    """A list of one namespace speaks for that namespace: it deletes nothing of others, before it or behind
    it.
    """
    spaces = [await site.namespace(suffix) for suffix in ("a", "b", "c")]
    for namespace in spaces:
        await site.fill(CONFIGMAPS, namespace, 6)
    entry = within(CONFIGMAPS, *spaces, page_size=4)
    async with site.mirror(entry):
        await site.mirrored(CONFIGMAPS, *spaces)
    gone = f"{spaces[1]}/c-0005"
    await site.cluster.delete(CONFIGMAPS, gone)
    await site.write(f"UPDATE syncd_streams SET resource_version = NULL WHERE namespace = '{spaces[1]}'")
    await site.watch_writes()
    async with site.mirror(entry):
        await site.mirrored(CONFIGMAPS, *spaces)
    assert {key for _, key, _ in site.table.writes()} == {gone}


@pytest.mark.cluster
async def test_62_a_list_that_would_delete_most(site: Site) -> None:
    """A list in which most of a hundred rows or more are missing deletes none of them until a second list
    says the same.
    """
    namespace = await site.namespace()
    keys = await site.fill(CONFIGMAPS, namespace, 120)
    entry = within(CONFIGMAPS, namespace)
    async with site.mirror(entry):
        await site.mirrored(CONFIGMAPS, namespace)
    for key in keys[:80]:
        await site.cluster.delete(CONFIGMAPS, key)
    await site.write("UPDATE syncd_streams SET resource_version = NULL WHERE resource = 'configmaps'")
    site.asked.clear()
    async with site.mirror(entry):
        await site.mirrored(CONFIGMAPS, namespace)
        assert len(site.asked.lists(CONFIGMAPS)) == 2
    assert site.table.tombstones("configmaps").keys() == set(keys[:80])


@pytest.mark.simulated("a server that is mistaken")
async def test_68_a_list_that_is_empty_by_mistake(site: Site) -> None:
    """One list that is empty by mistake, of more than a hundred objects, empties no table."""
    site.workload.configmaps(120)
    async with site.mirror("configmaps"):
        await site.level(SIMULATED)
    site.workload.configmaps(1)
    site.simulator.compact()
    answers: list[Json] = []

    def page(answer: Json, token: str) -> Json:
        answers.append(answer)
        return {**answer, "items": []} if len(answers) == 1 else answer

    site.wire.page = page
    async with site.mirror("configmaps"):
        await site.level(SIMULATED)
    assert len(answers) == 2
    assert site.table.tombstones("configmaps") == {}


@pytest.mark.cluster
async def test_69_a_list_of_what_is_known(site: Site) -> None:
    """A list of a cluster that did not change writes nothing but the stream's own row."""
    namespace = await site.namespace()
    await site.fill(CONFIGMAPS, namespace, 30)
    entry = within(CONFIGMAPS, namespace, page_size=7)
    async with site.mirror(entry):
        await site.mirrored(CONFIGMAPS, namespace)
    await site.write("UPDATE syncd_streams SET resource_version = NULL WHERE resource = 'configmaps'")
    await site.watch_writes()
    site.asked.clear()
    async with site.mirror(entry):
        assert len(site.asked.lists(CONFIGMAPS)) >= 5
        assert site.checkpoint(CONFIGMAPS)
    assert site.table.writes() == []


@pytest.mark.cluster
async def test_70_keys_that_sort_oddly(site: Site) -> None:
    """Pages end where the API's own order ends them, in which `a-b/x` comes before `a/x`: whatever a page's
    borders, it deletes what is missing between them and nothing else.
    """
    gadgets = await site.type()
    keys = []
    for suffix in ("o", "o-b", "o-b-c"):
        namespace = await site.namespace(suffix)
        keys += await site.fill(gadgets, namespace, 3, "a")
        keys += await site.fill(gadgets, namespace, 2, "a.b")
        keys += await site.fill(gadgets, namespace, 2, "a-b")
    entry = {"name": gadgets.qualified}
    async with site.mirror(entry):
        await site.mirrored(gadgets)
    gone = keys[::4]
    for key in gone:
        await site.cluster.delete(gadgets, key)
    for size in (1, 2, 3, 5):
        await site.write("UPDATE syncd_streams SET resource_version = NULL WHERE resource = 'gadgets'")
        await site.cluster.patch(gadgets, keys[1], changed(gadgets, f"{size}"))
        async with site.mirror({**entry, "page_size": size}):
            await site.mirrored(gadgets)
    assert site.table.tombstones("gadgets").keys() == set(gone)


@pytest.mark.simulated("a server whose lists are out of order, as an aggregated one's may be")
async def test_71_lists_out_of_order(site: Site) -> None:
    """Where keys do not come in order a page speaks for no range: deletions wait for the end of the list, and
    that is remembered.
    """
    site.workload.configmaps(30)
    entry = {"name": "configmaps", "page_size": 7}
    async with site.mirror(entry):
        await site.level(SIMULATED)
    gone = sorted(site.simulator.objects(*SIMULATED))[10]
    site.simulator.delete(*SIMULATED, *parts(gone))
    site.simulator.compact()
    site.simulator.faults.reverse(resource="configmaps", times=None)
    async with site.mirror(entry):
        await site.level(SIMULATED)
    assert site.table.tombstones("configmaps").keys() == {gone}
    assert site.table.one("SELECT unordered FROM syncd_streams WHERE resource = 'configmaps'")
