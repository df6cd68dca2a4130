"""From a cluster's entry in the configuration to a client of its API."""

from __future__ import annotations

import os
from pathlib import Path

from syncd import __version__
from syncd.config import Cluster, Config
from syncd.kube.client import KubeClient
from syncd.kube.kubeconfig import load_connection
from syncd.logs import get


def client(config: Config, cluster: Cluster) -> KubeClient:
    """The client, not yet opened.

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
    return KubeClient(
        connection,
        user_agent=f"syncd/{__version__}",
        on_warning=lambda text: log.warning("the API server warns", text=text),
    )
