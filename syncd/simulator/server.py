"""Puts a simulator on a port: in process, or for good as `syncd simulate` does."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import uvicorn

from syncd.simulator.api import Api
from syncd.simulator.simulator import Simulator
from syncd.simulator.workload import Workload

_LOGGER = logging.getLogger("uvicorn.error")


class _Server(uvicorn.Server):
    """Leaves the process' signal handlers alone."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class SimulatorServer:
    """A simulator on a port, while the context is entered.

    Args:
        port: 0 for a free one.
        certificate, key: PEM files; with them it speaks TLS.
        around: gives the ASGI application that is served, where that is not the simulator's alone.

    Attributes:
        url: `http://127.0.0.1:<port>`, once entered.
    """

    def __init__(
        self,
        simulator: Simulator,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        certificate: Path | str | None = None,
        key: Path | str | None = None,
        around: Callable[[Api], Any] = lambda api: api,
    ) -> None:
        self.simulator = simulator
        self.host = host
        self.port = port
        self._certificate = certificate
        self._key = key
        self._app = around(Api(simulator))
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        return f"{'https' if self._certificate else 'http'}://{self.host}:{self.port}"

    async def __aenter__(self) -> Self:
        bound = socket.create_server((self.host, self.port), backlog=512)
        bound.setblocking(False)
        # asyncio does it for sockets of its own making; else an answer in two writes takes 40 ms.
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port = bound.getsockname()[1]
        config = uvicorn.Config(
            self._app,
            http="httptools",
            ws="none",
            lifespan="off",
            loop="asyncio",
            log_config=None,
            access_log=False,
            server_header=False,
            ssl_certfile=self._certificate,
            ssl_keyfile=self._key,
            timeout_keep_alive=3_600,
            timeout_graceful_shutdown=1,
        )
        self._level = _LOGGER.level
        _LOGGER.setLevel(logging.CRITICAL)  # a cut connection is no error here
        self._server = _Server(config)
        self._task = asyncio.create_task(self._server.serve(sockets=[bound]))
        while not self._server.started:
            if self._task.done():
                await self._task
                raise OSError(f"the server on {self.host}:{self.port} stopped while starting")
            await asyncio.sleep(0.005)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None  # both were set on entering
        assert self._task is not None
        _LOGGER.setLevel(self._level)
        self.simulator.faults.cut_watches()
        self.simulator.faults.release_pauses()
        self._server.should_exit = True
        await self._task


def write_kubeconfig(
    path: Path | str,
    url: str,
    token: str = "anyone",  # noqa: S107
    *,
    namespace: str = "default",
    ca: Path | str | None = None,
) -> None:
    """A kubeconfig with one context, `simulator`. Written as JSON, which is YAML too.

    Args:
        ca: the PEM file of the authority behind the server's certificate.
    """
    cluster = {"server": url} | ({"certificate-authority": str(ca)} if ca else {})
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "simulator", "cluster": cluster}],
        "users": [{"name": "simulator", "user": {"token": token}}],
        "contexts": [
            {
                "name": "simulator",
                "context": {"cluster": "simulator", "user": "simulator", "namespace": namespace},
            }
        ],
        "current-context": "simulator",
    }
    Path(path).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


async def run_simulator(
    workload: Workload,
    *,
    port: int = 0,
    kubeconfig: Path | str | None = None,
    churn: float = 0.0,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serves a workload's simulator, which goes on changing, until the task is cancelled.

    Args:
        kubeconfig: where to write one.
        churn: changes a second.
        ready: called with the URL once it answers.

    Raises:
        OSError: the port is taken or, with `filename`, the kubeconfig cannot be written.
    """
    async with SimulatorServer(workload.simulator, port=port) as server:
        if kubeconfig is not None:
            write_kubeconfig(kubeconfig, server.url)
        if ready is not None:
            ready(server.url)
        if churn > 0:
            await workload.churn(churn)
        else:
            await asyncio.Event().wait()
