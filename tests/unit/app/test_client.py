"""From a cluster's entry to a client: what the configuration holds the kubeconfig to."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from syncd.app.client import client
from syncd.metrics import Metrics
from tests.fakes.front import Cluster

PLUGIN = """#!{python}
import json, os
asked = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
print(json.dumps({{**asked, "spec": {{}}, "status": {{"token": "anyone"}}}}))
"""


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    made = tmp_path / "log-in"
    made.write_text(PLUGIN.format(python=sys.executable))
    made.chmod(0o755)
    return made


def log_in_by(cluster: Cluster, command: str) -> None:
    """The kubeconfig's log-in is this command from now on."""
    entry = {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never", "command": command}
    cluster.kubeconfig.write_text(
        json.dumps(
            {
                "clusters": [{"name": "c", "cluster": {"server": cluster.url}}],
                "users": [{"name": "u", "user": {"exec": entry}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )


@pytest.mark.parametrize("allowed", [None, ["{plugin}"], ["elsewhere", "./log-in"]])
async def test_a_log_in_that_is_allowed_is_run(tmp_path: Path, plugin: Path, allowed: Any) -> None:
    async with Cluster(tmp_path) as cluster:
        log_in_by(cluster, str(plugin))
        if allowed is not None:
            cluster.configure(exec_allowed=[each.format(plugin=plugin) for each in allowed])
        output = await cluster.run("resources")
    assert output.code == 0, output.err


async def test_what_a_client_is_warned_of_is_counted_once_a_text(tmp_path: Path) -> None:
    metrics = Metrics()
    async with Cluster(tmp_path) as cluster:
        made = client(cluster.config, cluster.config.clusters[0], metrics)
        for text in ("v1 ComponentStatus is deprecated in v1.19+", "something else") * 2:
            made._warn(text)
    assert b'syncd_api_warnings_total{cluster="c"} 2.0' in metrics.render()[0]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'sso session has expired' >&2; exit 3", "ended with exit code 3: sso session has expired"),
        ("echo junk", "no ExecCredential in JSON"),
        (None, "is not there or may not be executed"),
    ],
)
async def test_a_log_in_that_fails_is_said_with_what_to_do(
    tmp_path: Path, plugin: Path, script: str | None, said: str
) -> None:
    if script is None:
        plugin.unlink()
    else:
        plugin.write_text(f"#!/bin/sh\n{script}\n")
    async with Cluster(tmp_path) as cluster:
        log_in_by(cluster, str(plugin))
        output = await cluster.run("check", "-o", "json")
    assert output.code == 1
    [finding] = [each for each in output.json["findings"] if each["severity"] == "error"]
    assert finding["check"] == "login"
    assert said in finding["message"]
    assert "by hand" in finding["next_step"]


@pytest.mark.parametrize("command", ["check", "resources", "rbac"])
async def test_any_other_is_refused_and_never_run(tmp_path: Path, plugin: Path, command: str) -> None:
    plugin.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    async with Cluster(tmp_path) as cluster:
        log_in_by(cluster, str(plugin))
        cluster.configure(exec_allowed=["log-in", "/opt/log-in"])
        output = await cluster.run(command)
    assert output.code == 2
    said = output.out + output.err
    assert "is not among the commands that may be run: /opt/log-in, log-in" in said
    assert "`exec_allowed`" in said
    assert not (tmp_path / "ran").exists()
