"""From a cluster's entry in the configuration to a client of its API."""

from __future__ import annotations

import os
from pathlib import Path

from syncd import __version__
from syncd.config import Cluster, Config
from syncd.kube.client import KubeClient
from syncd.kube.kubeconfig import load_connection
from syncd.logs import get
from syncd.metrics import Metrics


def client(config: Config, cluster: Cluster, metrics: Metrics | None = None) -> KubeClient:
    """The client, not yet opened. What it is warned of is logged, and counted where there are metrics.

    Raises:
        ConfigError: the kubeconfig cannot be used, or its log-in runs what is not allowed.
    """
    connection = load_connection(
        str(cluster.kubeconfig) if cluster.kubeconfig else None,
        cluster.context,
        environ=os.environ,
        home=Path.home(),
        exec_allowed=config.commands(cluster),
    )
    log = get("kube").bind(cluster=cluster.name)

    def warned(text: str) -> None:
        log.warning("warned", text=text)
        if metrics is not None:
            metrics.api_warning(cluster.name)

    return KubeClient(
        connection,
        user_agent=f"syncd/{__version__}",
        on_warning=warned,
    )
