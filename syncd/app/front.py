"""The HTTP server where the configuration wants it; it can move while the daemon runs."""

from __future__ import annotations

from contextlib import AsyncExitStack

from syncd.core.errors import ConfigError
from syncd.logs import get
from syncd.server import Probes, serving

Address = tuple[str, int]


class Front:
    """Serves nowhere until it is told where. What it answers is the probes' to say.

    Attributes:
        address: as configured, None where it is turned off.
    """

    def __init__(self, probes: Probes) -> None:
        self.address: Address | None = None
        self._probes = probes
        self._stack = AsyncExitStack()
        self._log = get("app")

    async def move(self, address: Address | None) -> None:
        """Listens there and no longer where it did; answers in flight have a second.

        Raises:
            ConfigError: the address cannot be listened on; all is as before.
        """
        if address == self.address:
            return
        try:
            fresh = await self._opened(address)
        except ConfigError:
            if not (self.address and address and self.address[1] == address[1]):
                raise
            # It may be our own socket that is in the way: another interface, the same port.
            fresh = await self._moved_within(address)
        old, self._stack, self.address = self._stack, fresh, address
        await old.aclose()

    async def close(self) -> None:
        await self._stack.aclose()
        self.address = None

    async def _moved_within(self, address: Address) -> AsyncExitStack:
        before = self.address
        await self.close()
        try:
            return await self._opened(address)
        except ConfigError:
            self._stack = await self._opened(before)
            self.address = before
            raise

    async def _opened(self, address: Address | None) -> AsyncExitStack:
        stack = AsyncExitStack()
        if address is not None:
            host, port = await stack.enter_async_context(serving(address, self._probes))
            self._log.info("serving", url=f"http://{host}:{port}", paths="/livez /readyz /metrics /status")
        return stack
