"""What each cluster serves, and what of it is mirrored: discovery by discovery, side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from syncd.app.client import client
from syncd.config import Cluster, Config
from syncd.core.errors import ConfigError, SyncdError
from syncd.core.explanation import Explained, explain
from syncd.core.ports import Discovery
from syncd.core.selection import Selected, select
from syncd.kube.discovery import KubeDiscoverer


@dataclass(frozen=True, slots=True)
class Inventory:
    """One cluster's resources. `error` says why they could not be had, '' when they could."""

    cluster: str
    resources: list[Explained]
    problems: list[str]
    error: str = ""


async def discover(config: Config, cluster: Cluster) -> Discovery:
    """What a cluster serves. Raises ConfigError, ApiError, ConnectionLost, ProtocolError."""
    async with client(config, cluster) as opened:
        return await KubeDiscoverer(opened).discover()


async def selected(config: Config, cluster: Cluster) -> Selected:
    """What the configuration means in the cluster as it is now. Raises as `discover`."""
    discovery = await discover(config, cluster)
    return select(cluster.name, config.selections(cluster), config.excluded(cluster), discovery)


async def inventories(config: Config, clusters: Iterable[Cluster]) -> list[Inventory]:
    """Of each cluster, in order.

    Raises:
        ConfigError: a kubeconfig cannot be used, or two entries mean the same rows.
    """
    return list(await asyncio.gather(*(_inventory(config, cluster) for cluster in clusters)))


async def _inventory(config: Config, cluster: Cluster) -> Inventory:
    try:
        discovery = await discover(config, cluster)
    except ConfigError:
        raise
    except SyncdError as error:
        return Inventory(cluster.name, [], [], str(error))
    entries, exclude = config.selections(cluster), config.excluded(cluster)
    problems = [problem.message for problem in select(cluster.name, entries, exclude, discovery).problems]
    return Inventory(cluster.name, explain(cluster.name, entries, exclude, discovery), problems)
