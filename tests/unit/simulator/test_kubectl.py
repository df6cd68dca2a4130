"""kubectl, where it is installed, can read from and write to a simulator."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path

import pytest

from syncd.simulator.server import SimulatorServer, write_kubeconfig
from syncd.simulator.simulator import Simulator

KUBECTL = shutil.which("kubectl") or ""

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.skipif(not KUBECTL, reason="kubectl is not on the PATH"),
]

Kubectl = Callable[..., Coroutine[None, None, str]]


@pytest.fixture
async def kubectl(simulator: Simulator, tmp_path: Path) -> AsyncIterator[Kubectl]:
    async with SimulatorServer(simulator) as server:
        config = tmp_path / "kubeconfig"
        write_kubeconfig(config, server.url)

        async def run(*arguments: str, stdin: object = None, enough: str = "") -> str:
            """What it prints; stopped once that holds `enough`."""
            process = await asyncio.create_subprocess_exec(
                KUBECTL,
                f"--kubeconfig={config}",
                f"--cache-dir={tmp_path / 'cache'}",
                *arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(stdin).encode() if stdin is not None else b"")
            process.stdin.close()
            output = ""
            while line := await process.stdout.readline():
                output += line.decode()
                if enough and enough in output:
                    process.terminate()
            code = await process.wait()
            assert enough or code == 0, output
            return output

        yield run


async def test_get_create_and_delete(kubectl: Kubectl, simulator: Simulator) -> None:
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made"}, "data": {"a": "b"}}
    assert await kubectl("create", "-f", "-", stdin=obj) == "configmap/made created\n"
    assert simulator.objects("", "configmaps")["default/made"]["data"] == {"a": "b"}
    assert json.loads(await kubectl("get", "cm", "made", "-o", "json"))["data"] == {"a": "b"}
    assert "made" in await kubectl("get", "configmaps", "--all-namespaces")
    await kubectl("patch", "cm", "made", "--type", "merge", "-p", '{"data":{"a":"c"}}')
    assert simulator.objects("", "configmaps")["default/made"]["data"] == {"a": "c"}
    assert "deleted" in await kubectl("delete", "configmap", "made")
    assert simulator.objects("", "configmaps") == {}


async def test_get_a_custom_resource_by_its_short_name(kubectl: Kubectl, simulator: Simulator) -> None:
    simulator.create_crd(short_names=("wd",))
    simulator.create("example.com", "widgets", {"metadata": {"name": "w"}, "spec": {"size": 7}})
    assert json.loads(await kubectl("get", "wd", "w", "-o", "json"))["spec"] == {"size": 7}


async def test_get_and_watch(
    kubectl: Kubectl, simulator: Simulator, until: Callable[..., Awaitable[None]]
) -> None:
    simulator.create("", "pods", {"metadata": {"name": "first"}})
    watching = asyncio.create_task(kubectl("get", "pods", "-w", "-o", "name", enough="pod/second"))
    await until(lambda: len(simulator.faults.watchers) == 1)
    simulator.create("", "pods", {"metadata": {"name": "second"}})
    assert (await watching).split() == ["pod/first", "pod/second"]
