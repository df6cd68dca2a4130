"""Credentials that expire and rotate; permissions that are missing, given and taken back."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from syncd.kube.client import KubeClient, Timing
from syncd.simulator.server import SimulatorServer, write_kubeconfig
from tests.conformance.account import Account
from tests.conformance.site import CONFIGMAPS, Site, changed, within
from tests.e2e.world import PODS, SECRETS
from tests.unit.kube.plugins import credential, plugin
from tests.unit.test_check import Tls

SIMULATED = ("", "configmaps")


def log_in(site: Site, **user: Any) -> None:
    """The kubeconfig's user from now on."""
    document = json.loads(site.kubeconfig.read_text())
    document["users"][0]["user"] = user
    site.kubeconfig.write_text(json.dumps(document))


def replace_token(site: Site, old: str, new: str) -> None:
    """From now on only the new one is known."""
    access = site.simulator.access
    access.grant_all(new)
    access.revoke(old, forget=True)


@pytest.mark.simulated("tokens that expire on command")
async def test_40_a_token_expires(site: Site) -> None:
    """When a token is refused a new one is fetched, once for all streams together, and nothing is missed."""
    site.workload.configmaps(20)
    site.workload.pods(10)
    site.workload.fill(5)
    access = site.simulator.access
    access.grant_all("test")
    access.grant_all("first")
    logs_in = plugin(site.directory / "plugin", credential("first"))
    exec_entry = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": str(logs_in.command),
        "interactiveMode": "Never",
    }
    log_in(site, exec=exec_entry)
    async with site.mirror("configmaps", "pods", "secrets") as daemon:
        await site.level(SIMULATED, PODS, SECRETS)
        assert len(logs_in.runs) == 1
        logs_in.prints(credential("second"))
        replace_token(site, "first", "second")
        lists = len(site.asked.lists(CONFIGMAPS))
        site.simulator.faults.cut_watches()
        site.workload.configmaps(3)
        await site.level(SIMULATED, PODS, SECRETS)
        await site.live(daemon)
        assert len(logs_in.runs) == 2
        assert len(site.asked.lists(CONFIGMAPS)) == lists
        assert site.simulator.requests.matching(status=401)


@pytest.mark.simulated("credentials that are rotated on command")
@pytest.mark.parametrize("what", ["token", "authority"])
async def test_41_files_are_rotated(site: Site, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token's file, or an authority's, may be replaced while it runs: the next requests use the new one."""
    watchful: Callable[..., KubeClient] = partial(KubeClient, timing=Timing(check_files=0.0))
    monkeypatch.setattr("syncd.app.client.KubeClient", watchful)
    site.workload.configmaps(20)
    if what == "token":
        await _rotate_token(site)
    else:
        await _rotate_authority(site)


async def _rotate_token(site: Site) -> None:
    site.simulator.access.grant_all("test")
    site.simulator.access.grant_all("first")
    token = site.directory / "token"
    token.write_text("first\n")
    log_in(site, tokenFile=str(token))
    async with site.mirror("configmaps") as daemon:
        await site.level(SIMULATED)
        token.write_text("second\n")
        replace_token(site, "first", "second")
        site.simulator.faults.cut_watches("configmaps")
        site.workload.configmaps(3)
        await site.level(SIMULATED)
        await site.live(daemon)
        assert len(site.asked.lists(CONFIGMAPS)) == 1


async def _rotate_authority(site: Site) -> None:
    ends = datetime.now(UTC) + timedelta(days=1)
    first, second = (Tls(_made(site.directory / name), ends) for name in ("first", "second"))
    authority = site.directory / "authority"
    authority.write_bytes(first.ca.read_bytes())
    async with AsyncExitStack() as stack:
        async with SimulatorServer(
            site.simulator, certificate=first.server[0], key=first.server[1]
        ) as server:
            write_kubeconfig(site.kubeconfig, server.url, ca=authority)
            daemon = await stack.enter_async_context(site.mirror("configmaps"))
            await site.level(SIMULATED)
        authority.write_bytes(second.ca.read_bytes())
        site.workload.configmaps(3)
        async with SimulatorServer(
            site.simulator, port=server.port, certificate=second.server[0], key=second.server[1]
        ):
            await site.live(daemon)
            await site.level(SIMULATED)
            assert len(site.asked.lists(CONFIGMAPS)) == 1


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory


@pytest.mark.cluster
async def test_42_one_of_three_namespaces_is_forbidden(site: Site) -> None:
    """A namespace that may not be read holds up no other: its rows are kept, its stream says why it waits,
    and it recovers when it may.
    """
    spaces = [await site.namespace(suffix) for suffix in ("a", "b", "c")]
    for namespace in spaces:
        await site.fill(CONFIGMAPS, namespace, 5)
    account = Account(site)
    for namespace in spaces:
        await account.grant(namespace)
    entry = within(CONFIGMAPS, *spaces)
    async with site.mirror(entry, clusters=[account.entry]):
        await site.mirrored(CONFIGMAPS, *spaces)
    await account.revoke(spaces[1])
    await account.held_to_it(spaces[1])
    kept = {key for key in site.rows(CONFIGMAPS) if key.startswith(spaces[1])}
    await site.cluster.delete(CONFIGMAPS, min(kept))  # nobody is told
    async with site.mirror(entry, clusters=[account.entry], live=False) as daemon:
        states = site.table.states
        await site.until(lambda: states()[("configmaps", spaces[1])] == "parked", "one is parked")
        await site.fill(CONFIGMAPS, spaces[0], 3, "more")
        await site.fill(CONFIGMAPS, spaces[2], 3, "more")
        await site.until(lambda: len(site.rows(CONFIGMAPS)) - len(kept) >= 16, "the others live on")
        assert kept <= site.rows(CONFIGMAPS).keys()
        said = "SELECT last_error FROM syncd_streams WHERE namespace = ?"
        assert "orbidden" in site.table.one(said, spaces[1])
        await account.grant(spaces[1])
        await site.mirrored(CONFIGMAPS, *spaces)
        await site.live(daemon)
        assert site.table.one(said, spaces[1]) == ""


@pytest.mark.cluster
async def test_43_a_permission_is_taken_back(site: Site) -> None:
    """A watch goes on though its permission was taken back, as servers let it; the next one is refused, and
    its stream is parked with its rows.
    """
    namespace = await site.namespace()
    keys = await site.fill(CONFIGMAPS, namespace, 5)
    account = Account(site)
    await account.grant(namespace)
    if site.simulated:
        site.simulator.second = 0.2
    timing = replace(site.timing, watch_min=10.0, watch_max=10.0)
    entry = within(CONFIGMAPS, namespace)
    async with site.mirror(entry, clusters=[account.entry], timing=timing):
        await site.mirrored(CONFIGMAPS, namespace)
        await account.revoke(namespace)
        await account.held_to_it(namespace)
        await site.cluster.patch(CONFIGMAPS, keys[0], changed(CONFIGMAPS, "told"))
        await site.mirrored(CONFIGMAPS, namespace)
        states = site.table.states
        await site.until(lambda: states()[("configmaps", namespace)] == "parked", "it is parked")
        rows = site.rows(CONFIGMAPS)
        await site.cluster.delete(CONFIGMAPS, keys[1])
        await site.fill(CONFIGMAPS, namespace, 1, "new")
        assert site.rows(CONFIGMAPS) == rows
        await account.grant(namespace)
        await site.mirrored(CONFIGMAPS, namespace)
        assert len(site.asked.lists(CONFIGMAPS)) == 1
