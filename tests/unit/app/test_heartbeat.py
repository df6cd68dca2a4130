"""The heartbeat goes on, whatever goes wrong beside it: without it every row would count as stale."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from syncd.app.daemon import running
from syncd.config import load
from syncd.core.errors import StoreUnavailable
from syncd.core.recovery import Timing
from syncd.simulator.server import SimulatorServer, write_kubeconfig
from syncd.simulator.simulator import Simulator

TIMING = replace(Timing(), heartbeat=0.01)


@pytest.mark.parametrize("error", [RuntimeError("a fault"), StoreUnavailable("away")])
async def test_it_goes_on_after_an_error(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "syncd.yaml"
    config.write_text(
        f"database: {{url: 'sqlite:///{tmp_path / 'mirror.db'}'}}\n"
        f"clusters: [{{name: prod, kubeconfig: '{tmp_path / 'kubeconfig'}'}}]\n"
        "resources: [configmaps]\n"
    )
    async with SimulatorServer(Simulator()) as server:
        write_kubeconfig(tmp_path / "kubeconfig", server.url)
        async with running(load(config, {}), timing=TIMING) as daemon:
            beat, failed = daemon.lease.heartbeat, 0

            async def sick(lags: dict[int, float]) -> None:
                nonlocal failed
                failed += 1
                if failed < 3:
                    raise error
                await beat(lags)

            monkeypatch.setattr(daemon.lease, "heartbeat", sick)
            async with asyncio.timeout(30):
                while failed < 4:
                    await asyncio.sleep(0.01)
            assert daemon.failure is None
