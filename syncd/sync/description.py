"""What the database keeps of the cluster's CustomResourceDefinitions, so that views can be made of it: each
is read once a generation, and goes when it goes. Needs no right but those of the watch that tells of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from syncd.core import recovery
from syncd.core.definition import Definition, definition
from syncd.core.document import definition_identity
from syncd.core.errors import Forbidden, NotFound, ProtocolError, SyncdError
from syncd.core.frames import parse_page
from syncd.core.ports import ApiServer, Clock, ListRequest, Registry
from syncd.core.recovery import Timing
from syncd.core.resource import Stream
from syncd.sync.definitions import DEFINITIONS, Definitions
from syncd.sync.environment import Log

FEW = 20
"""Asked for by name; more are cheaper as pages of all, of which some have a megabyte each."""
_PAGE = 25


class Descriptions:
    """Follows one cluster's definitions.

    Attributes:
        level: whether all that is known is kept, or cannot be had for now.
    """

    def __init__(
        self,
        definitions: Definitions,
        api: ApiServer,
        registry: Registry,
        clock: Clock,
        timing: Timing,
        log: Log,
    ) -> None:
        self.level = False
        self._definitions = definitions
        self._api = api
        self._registry = registry
        self._clock = clock
        self._timing = timing
        self._log = log
        self._stream = Stream(definitions.cluster, DEFINITIONS)
        self._changed = asyncio.Event()

    def look(self) -> None:
        """Something is known otherwise than before."""
        self.level = False
        self._changed.set()

    async def run(self, random: Callable[[], float]) -> None:
        """Until cancelled. What cannot be read or written is tried again, and keeps nothing else waiting."""
        await self._definitions.ready()
        attempt = refused = 0
        while True:
            self._changed.clear()
            try:
                await self._follow()
            except (Forbidden, NotFound) as error:
                if not refused:
                    self._log.info("custom types have no columns of their own", error=str(error))
                self.level = True
                await self._clock.sleep(recovery.parking(refused, random, self._timing))
                refused += 1
                continue
            except Exception as error:
                known = isinstance(error, SyncdError)  # else a fault of our own
                say = self._log.debug if known else self._log.error
                say("definitions could not be read", error=str(error) if known else repr(error))
                await self._clock.sleep(recovery.backoff(attempt, random, self._timing))
                attempt += 1
                continue
            attempt = refused = 0
            self.level = not self._changed.is_set()
            await self._changed.wait()

    async def _follow(self) -> None:
        if not self._definitions.readable:
            return
        cluster, known = self._definitions.cluster, dict(self._definitions.known)
        kept = await self._registry.definitions(cluster)
        if gone := kept.keys() - known.keys():
            await self._registry.keep_definitions(cluster, (), gone)
        wanted = {name for name, what in known.items() if kept.get(name) != what}
        async for found in self._read(wanted):
            if found:
                await self._registry.keep_definitions(cluster, found)

    async def _read(self, wanted: set[str]) -> AsyncIterator[list[Definition]]:
        """The definitions, some at a time."""
        if not wanted:
            return
        if len(wanted) <= FEW:
            for name in wanted:
                found, _ = await self._page(ListRequest(1, None, f"metadata.name={name}"), wanted)
                yield found
            return
        token: str | None = None
        while True:
            found, token = await self._page(ListRequest(_PAGE, token), wanted)
            yield found
            if token is None:
                return

    async def _page(self, request: ListRequest, wanted: set[str]) -> tuple[list[Definition], str | None]:
        page = parse_page(await self._api.list(self._stream, request))
        found: list[Definition] = []
        for raw in page.items:
            try:
                one = definition(bytes(raw))
            except ProtocolError as error:
                self._log.warning("a definition cannot be read", error=str(error)[:200])
                one = Definition(*definition_identity(raw), {})
            if one.name in wanted:
                found.append(one)
            await asyncio.sleep(0)  # a large one takes milliseconds
        return found, page.continue_token
