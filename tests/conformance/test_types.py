"""Custom types that come, change and go, while it runs and while it is down; discovery that cannot be had."""

from __future__ import annotations

from dataclasses import replace

import pytest

from syncd.core.resource import Resource
from tests.conformance.site import CONFIGMAPS, CRDS, Site, definition, within
from tests.conformance.writer import Json
from tests.e2e.world import WIDGETS

SIMULATED = ("", "configmaps")
WIDGET = "widgets.example.com"


async def reshape(
    site: Site, resource: Resource, *, default: str = "", versions: tuple[str, ...] = ("v1",)
) -> None:
    """Gives a type's definition another spec."""
    spec: Json = definition(resource.group, default=default, versions=versions)["spec"]
    await site.cluster.patch(CRDS, resource.qualified, {"spec": {"versions": spec["versions"]}})


async def remake(site: Site, resource: Resource) -> None:
    """Makes a type that was deleted anew, under its name."""
    await site.cluster.create(CRDS, "", definition(resource.group))
    await site.cluster.served(resource)


def modes(site: Site, resource: Resource) -> set[str]:
    return {row.document["spec"].get("mode", "") for row in site.rows(resource).values()}


@pytest.mark.cluster
async def test_44_a_type_is_deleted_and_made_anew(site: Site) -> None:
    """When a custom type is deleted its rows leave, each with a tombstone, and so does its stream; made
    anew, it is mirrored anew. Others do not notice.
    """
    namespace = await site.namespace()
    gadgets = await site.type()
    keys = await site.fill(gadgets, namespace, 10)
    await site.fill(CONFIGMAPS, namespace, 3)
    async with site.mirror(gadgets.qualified, within(CONFIGMAPS, namespace)) as daemon:
        await site.mirrored(gadgets)
        uids = {key: row.uid for key, row in site.rows(gadgets).items()}
        await site.cluster.delete(CRDS, gadgets.qualified)
        await site.until(lambda: not site.rows(gadgets), "the rows leave")
        await site.until(lambda: ("gadgets", "") not in site.table.states(), "the stream leaves")
        stones = site.table.tombstones("gadgets")
        assert {key: stone[1] for key, stone in stones.items()} == uids
        assert {stone[0] for stone in stones.values()} <= {"deleted", "type_removed"}
        await remake(site, gadgets)
        new = await site.fill(gadgets, namespace, 4, "new")
        await site.until(lambda: site.rows(gadgets).keys() == set(new), "the new ones are there")
        await site.live(daemon)
        await site.mirrored(gadgets)
        await site.fill(CONFIGMAPS, namespace, 1, "after")
        await site.mirrored(CONFIGMAPS, namespace)
    assert len(keys) == len(uids)


@pytest.mark.cluster
async def test_45_a_definition_is_edited(site: Site) -> None:
    """An edit of a type's definition ends its streams and their history: a list brings them level again, and
    where no object changed no row is written.
    """
    namespace = await site.namespace()
    gadgets = await site.type()
    keys = await site.fill(gadgets, namespace, 10)
    async with site.mirror(gadgets.qualified):
        await site.mirrored(gadgets)
        await site.watch_writes()
        site.asked.clear()
        description = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        version = {"name": "v1", "served": True, "storage": True, "schema": description}
        await site.cluster.patch(CRDS, gadgets.qualified, {"spec": {"versions": [version]}})
        await site.until(lambda: site.asked.lists(gadgets), "a list")
        await site.fill(gadgets, namespace, 2, "new")
        await site.mirrored(gadgets)
    assert {key for _, key, _ in site.table.writes()} == {f"{namespace}/new-0000", f"{namespace}/new-0001"}
    assert set(keys) < site.rows(gadgets).keys()


@pytest.mark.cluster
async def test_46_another_version_is_preferred(site: Site) -> None:
    """When another version of a type becomes the preferred one, its rows are rewritten in it, once, and
    none is there twice.
    """
    namespace = await site.namespace()
    old = await site.type(versions=("v1beta1",))
    await site.fill(old, namespace, 10)
    async with site.mirror(old.qualified):
        await site.mirrored(old)
        await site.watch_writes()
        await reshape(site, old, versions=("v1beta1", "v1"))
        new = replace(old, version="v1")
        await site.cluster.served(new)
        await site.mirrored(new)
        assert len(site.rows(new)) == 10
        assert sorted(what for what, _, _ in site.table.writes()) == ["update objects"] * 10
        await site.fill(new, namespace, 2, "new")
        await site.mirrored(new)
    assert site.table.ask("SELECT count(*) FROM syncd_streams WHERE resource = 'gadgets'") == [(1,)]


@pytest.mark.simulated("discovery that is stale, incomplete or fails, on command")
async def test_47_discovery_that_cannot_be_trusted(site: Site) -> None:
    """A group that discovery calls stale, leaves out or cannot answer for loses no row: its streams are
    parked at the most, others live on, and all recover.
    """
    site.workload.widgets(40)
    site.workload.deployments(10)
    site.workload.configmaps(20)
    faults = site.simulator.faults
    timing = replace(site.timing, discovery=0.3, park_min=0.2, park_max=0.3)

    def widgets() -> int:
        return len(site.table.rows(*WIDGETS))

    def deployments() -> int:
        return len(site.table.rows("apps", "deployments"))

    for sick, well in (
        (faults.stale_group, faults.restore_group),
        (faults.missing_group, faults.restore_group),
    ):
        async with site.mirror(WIDGET, "deployments", "configmaps", timing=timing) as daemon:
            count, [supervisor] = widgets(), daemon.supervisors
            sick("example.com")
            sick("apps")
            faults.cut_watches("widgets")
            site.workload.configmaps(3)
            for _ in range(2):
                supervisor.planned.clear()
                await site.until(supervisor.planned.is_set, "it has asked discovery")
            await site.level(SIMULATED)
            assert (widgets(), deployments()) == (count, 10)
        async with site.mirror(WIDGET, "deployments", "configmaps", timing=timing, live=False):
            await site.until(lambda: site.table.states()[("widgets", "")] != "pending", "it has tried")
            await site.level(SIMULATED)
            assert (widgets(), deployments()) == (count, 10)
            well("example.com")
            well("apps")
            site.workload.widgets(1)
            await site.level(WIDGETS, ("apps", "deployments"))
    faults.answer(503, path="/apis", times=None)
    async with site.mirror(WIDGET, "configmaps", timing=timing, live=False) as daemon:
        [supervisor] = daemon.supervisors
        await site.until(lambda: supervisor.error or supervisor.planned.is_set(), "it was refused")
        assert widgets() == 42
        faults.clear()
        await site.live(daemon)
        await site.level(WIDGETS, SIMULATED)


@pytest.mark.cluster
async def test_56_a_default_that_moves_no_version(site: Site) -> None:
    """A default that is added to a type's schema changes what the API shows and no version: the stored
    documents follow, while it runs and while it was down.
    """
    namespace = await site.namespace()
    gadgets = await site.type()
    await site.fill(gadgets, namespace, 10)
    async with site.mirror(gadgets.qualified):
        before = {key: row.version for key, row in site.rows(gadgets).items()}
        await reshape(site, gadgets, default="quick")
        await site.until(lambda: modes(site, gadgets) == {"quick"}, "the documents follow")
        await site.mirrored(gadgets)
        assert {key: row.version for key, row in site.rows(gadgets).items()} == before
    await reshape(site, gadgets, default="slow")
    await site.cluster.create(
        gadgets,
        namespace,
        {"apiVersion": gadgets.api_version, "kind": "Gadget", "metadata": {"name": "x"}, "spec": {}},
    )
    async with site.mirror(gadgets.qualified):
        await site.mirrored(gadgets)
        assert "slow" in modes(site, gadgets)


@pytest.mark.cluster
async def test_58_a_type_is_deleted_while_it_is_down(site: Site) -> None:
    """Rows of a type that was deleted while it was down become tombstones that say so."""
    namespace = await site.namespace()
    gadgets = await site.type()
    await site.fill(gadgets, namespace, 10)
    await site.fill(CONFIGMAPS, namespace, 3)
    entries = [gadgets.qualified, within(CONFIGMAPS, namespace)]
    async with site.mirror(*entries):
        await site.mirrored(gadgets)
        uids = {key: row.uid for key, row in site.rows(gadgets).items()}
    await site.cluster.delete(CRDS, gadgets.qualified)
    async with site.mirror(*entries):
        await site.until(lambda: not site.rows(gadgets), "the rows leave")
        stones = site.table.tombstones("gadgets")
        assert {key: stone[1] for key, stone in stones.items()} == uids
        assert {stone[0] for stone in stones.values()} == {"type_removed"}
        await site.mirrored(CONFIGMAPS, namespace)


@pytest.mark.cluster
async def test_64_a_type_is_made_anew_while_it_is_down(site: Site) -> None:
    """A type that was deleted and made anew while it was down is another one: of its old objects only
    tombstones are left.
    """
    namespace = await site.namespace()
    gadgets = await site.type()
    old = await site.fill(gadgets, namespace, 10)
    async with site.mirror(gadgets.qualified):
        await site.mirrored(gadgets)
    await site.cluster.delete(CRDS, gadgets.qualified)
    await remake(site, gadgets)
    await site.fill(gadgets, namespace, 3)  # under names that were there before
    async with site.mirror(gadgets.qualified):
        await site.mirrored(gadgets)
        assert site.table.tombstones("gadgets").keys() == set(old)
