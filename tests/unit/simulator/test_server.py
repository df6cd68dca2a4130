"""The server: TLS, restarts on the same port, and the form that runs for good."""

from __future__ import annotations

import asyncio
import json
import ssl
from pathlib import Path

import httpx
import trustme

from syncd.simulator.server import SimulatorServer, run_simulator, write_kubeconfig
from syncd.simulator.simulator import Simulator
from syncd.simulator.workload import Workload


async def test_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    certificate, key, ca = (tmp_path / name for name in ("tls.crt", "tls.key", "ca.crt"))
    issued.cert_chain_pems[0].write_to_path(certificate)
    issued.private_key_pem.write_to_path(key)
    authority.cert_pem.write_to_path(ca)
    trusted = ssl.create_default_context(cafile=ca)
    async with (
        SimulatorServer(Simulator(), certificate=certificate, key=key) as server,
        httpx.AsyncClient(base_url=server.url, verify=trusted) as client,
    ):
        write_kubeconfig(tmp_path / "kubeconfig", server.url, "secret", ca=ca)
        assert (await client.get("/readyz")).text == "ok"
        assert server.url.startswith("https://")
    written = json.loads((tmp_path / "kubeconfig").read_text())
    assert written["clusters"][0]["cluster"] == {"server": server.url, "certificate-authority": str(ca)}
    assert written["users"][0]["user"] == {"token": "secret"}


async def test_a_simulator_outlives_its_server() -> None:
    simulator = Simulator()
    async with SimulatorServer(simulator) as server:
        port = server.port
    simulator.create("", "configmaps", {"metadata": {"name": "meanwhile"}})
    simulator.faults.answer(503, resource="secrets")
    async with (
        SimulatorServer(simulator, port=port) as server,
        httpx.AsyncClient(base_url=server.url) as client,
    ):
        page = (await client.get("/api/v1/configmaps")).json()
        assert page["items"][0]["metadata"]["name"] == "meanwhile"
        assert (await client.get("/api/v1/secrets")).status_code == 503


async def test_running_for_good(tmp_path: Path) -> None:
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    config = tmp_path / "kubeconfig"
    workload = Workload(Simulator())
    workload.fill(20)
    running = asyncio.create_task(
        run_simulator(workload, churn=100, kubeconfig=config, ready=ready.set_result)
    )
    url = await asyncio.wait_for(ready, 30)
    assert json.loads(config.read_text())["clusters"][0]["cluster"]["server"] == url
    async with httpx.AsyncClient(base_url=url) as client, asyncio.timeout(30):
        before = (await client.get("/_simulator/state")).json()["resource_version"]
        while (await client.get("/_simulator/state")).json()["resource_version"] == before:
            await asyncio.sleep(0.02)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert running.cancelled()
