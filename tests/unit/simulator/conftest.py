"""A simulator on a port and a client for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest

from syncd.simulator.server import SimulatorServer
from syncd.simulator.simulator import Simulator


@pytest.fixture
def simulator() -> Simulator:
    """Its seconds are short: a watch of ten lasts one."""
    return Simulator(second=0.1)


@pytest.fixture
async def client(simulator: Simulator) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        SimulatorServer(simulator) as server,
        httpx.AsyncClient(base_url=server.url, timeout=60) as client,
    ):
        yield client


@pytest.fixture
def configmap(simulator: Simulator) -> Callable[..., dict[str, Any]]:
    """Makes a configmap in process."""

    def make(name: str, namespace: str = "default", **labels: str) -> dict[str, Any]:
        metadata = {"name": name, "namespace": namespace, "labels": labels}
        return simulator.create("", "configmaps", {"metadata": metadata, "data": {"of": name}})

    return make


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], Awaitable[None]]:
    async def wait(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not condition():
                await asyncio.sleep(0.005)

    return wait
