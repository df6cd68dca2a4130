"""The API server's door, which can be shut: the same port, refused, and opened again."""

from __future__ import annotations

import asyncio
import logging
from types import TracebackType
from typing import Self

from syncd.simulator.server import SimulatorServer
from syncd.simulator.simulator import Simulator

_LOGGER = logging.getLogger("uvicorn.error")  # requests that a shut door leaves unanswered are no error


class Front:
    """A simulator on a port, while the context is entered."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        self._served: SimulatorServer | None = None
        self._shut = 0
        self._turn = asyncio.Lock()
        self._port = 0
        self._level = _LOGGER.level

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def __aenter__(self) -> Self:
        _LOGGER.setLevel(logging.CRITICAL)
        await self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()
        _LOGGER.setLevel(self._level)

    async def shut(self) -> None:
        """Connections are closed and refused, until `reopen` was called as often."""
        async with self._turn:
            self._shut += 1
            await self._close()

    async def reopen(self) -> None:
        async with self._turn:
            self._shut -= 1
            if not self._shut:
                await self._open()

    async def _open(self) -> None:
        self._served = await SimulatorServer(self._simulator, port=self._port).__aenter__()
        self._port = self._served.port

    async def _close(self) -> None:
        served, self._served = self._served, None
        if served is not None:
            await served.__aexit__(None, None, None)
