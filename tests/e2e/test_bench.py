"""What `make bench` does to a real cluster: pods that nothing runs, timed answers to writes, nothing left."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme

from bench.access import Access
from bench.writes import saved, schedule
from syncd.simulator.server import SimulatorServer, write_kubeconfig
from syncd.simulator.simulator import Simulator

TOKEN = "the-bench-token"


class Load:
    """A `bench.load` in a process of its own, against a simulator that speaks TLS and wants a token."""

    def __init__(self, simulator: Simulator, kubeconfig: Path, answers: Path) -> None:
        self.simulator = simulator
        self.kubeconfig = kubeconfig
        self.answers = answers

    async def begin(self, pods: int) -> str:
        """The namespace, when its pods are there."""
        options = (f"--kubeconfig={self.kubeconfig}", f"--pods={pods}", f"--answers={self.answers}")
        self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "bench.load",
            *options,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        return (await self._line()).rpartition("/")[2]

    async def tell(self, command: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n".encode())
        return await self._line()

    async def _line(self) -> str:
        assert self.process.stdout is not None
        return (await self.process.stdout.readline()).decode().strip()


@pytest.fixture
async def load(tmp_path: Path) -> AsyncIterator[Load]:
    authority = trustme.CA()
    leaf = authority.issue_cert("127.0.0.1")
    files = [tmp_path / name for name in ("ca.pem", "server.pem", "server.key")]
    authority.cert_pem.write_to_path(str(files[0]))
    leaf.cert_chain_pems[0].write_to_path(str(files[1]))
    leaf.private_key_pem.write_to_path(str(files[2]))
    simulator = Simulator()
    simulator.access.grant_all(TOKEN)
    async with SimulatorServer(simulator, certificate=files[1], key=files[2]) as server:
        kubeconfig = tmp_path / "kubeconfig"
        write_kubeconfig(kubeconfig, server.url, TOKEN, ca=files[0])
        made = Load(simulator, kubeconfig, tmp_path / "answers.json")
        try:
            yield made
        finally:
            if made.process.returncode is None:
                made.process.kill()
            await made.process.wait()


async def test_its_pods_are_for_no_node_and_carry_a_status(load: Load) -> None:
    namespace = await load.begin(30)
    pods = load.simulator.objects("", "pods")
    assert len(pods) == 30
    assert {key.partition("/")[0] for key in pods} == {namespace}
    for pod in pods.values():
        assert "nodeName" not in pod["spec"]
        assert pod["spec"]["schedulerName"] == "syncd-bench"
        assert pod["status"]["phase"] == "Running"
        assert "ownerReferences" not in pod["metadata"]  # else the garbage collector's
    labels = load.simulator.objects("", "namespaces")[namespace]["metadata"]["labels"]
    assert labels["app.kubernetes.io/managed-by"] == "syncd-bench"


async def test_answers_are_timed_by_the_version_that_was_written(load: Load) -> None:
    await load.begin(30)
    assert await load.tell("touch 40") == str(load.simulator.resource_version)
    begun = time.time_ns()
    assert await load.tell("pace 20 1 40") == "20"
    answers = saved(load.answers)
    written = {pod["metadata"]["resourceVersion"] for pod in load.simulator.objects("", "pods").values()}
    assert len(answers) == 20
    assert written & set(answers)  # those that no later write took the place of
    assert all(begun < answered < time.time_ns() for answered in answers.values())


@pytest.mark.parametrize("end", ["the input ends", "terminated", "interrupted"])
async def test_nothing_is_left(load: Load, end: str) -> None:
    namespace = await load.begin(5)
    process = load.process
    assert process.stdin is not None
    if end == "terminated":
        process.send_signal(signal.SIGTERM)
    else:
        if end == "interrupted":  # Ctrl-C reaches both, and ours then closes the input
            process.send_signal(signal.SIGINT)
            await load.tell("touch 1")
        process.stdin.close()
    await process.wait()
    assert namespace not in load.simulator.objects("", "namespaces")
    assert load.simulator.objects("", "pods") == {}


async def test_curl_is_given_its_secrets_in_files(load: Load, tmp_path: Path) -> None:
    await load.begin(1)
    command = await asyncio.to_thread(lambda: Access(load.kubeconfig).curl(tmp_path))
    assert TOKEN not in " ".join(command)
    config = Path(command[-1])
    assert stat.S_IMODE(os.stat(config).st_mode) == 0o600
    lines = config.read_text().splitlines()
    assert f'header = "Authorization: Bearer {TOKEN}"' in lines
    assert 'header = "User-Agent: syncd-bench"' in lines
    assert f"cacert = {json.dumps(str(tmp_path / 'ca.pem'))}" in lines


def test_a_schedule_is_even_for_what_is_measured_and_the_same_each_time() -> None:
    due = schedule(10, 3, others=200)
    assert [when for when, measured in due if measured] == [number / 10 for number in range(30)]
    assert len(due) == 630
    assert due == sorted(due) == schedule(10, 3, others=200)
