"""The cluster's CustomResourceDefinitions, watched whether they are mirrored or not.

Only metadata is asked for, and nothing is stored: a name, a uid and a generation are enough to know that
types came, changed or went. Begins with a WatchList, so that a restart lists nothing; where the server
cannot, with a list; where it is forbidden, discovery is polled alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from syncd.core import recovery
from syncd.core.document import definition_identity
from syncd.core.errors import (
    ConnectionLost,
    Expired,
    Forbidden,
    Invalid,
    NotAllowed,
    NotFound,
    ServerError,
    SyncdError,
)
from syncd.core.frames import EventType, Frame, LineSplitter, parse_frame, parse_page
from syncd.core.ports import ApiServer, Clock, ListRequest, WatchRequest
from syncd.core.recovery import Timing
from syncd.core.resource import Resource, Stream
from syncd.sync.environment import Log

DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
PATIENCE = 3  # faults in a row before the other types begin without knowing the definitions
INITIAL_DEADLINE = 30.0  # seconds for the initial events to end (list-watch.md §5)


class Definitions:
    """What custom resource types exist, by `plural.group`.

    Attributes:
        known: (uid, generation) by name.
        readable: False where the account may not see them.
    """

    def __init__(
        self,
        cluster: str,
        api: ApiServer,
        clock: Clock,
        timing: Timing,
        log: Log,
        changed: Callable[[], None],
    ) -> None:
        self.cluster = cluster
        self.known: dict[str, tuple[str, int]] = {}
        self.readable = True
        self._ready = asyncio.Event()
        self._stream = Stream(cluster, DEFINITIONS)
        self._api = api
        self._clock = clock
        self._timing = timing
        self._log = log
        self._changed = changed
        self._version: str | None = None
        self._initial: dict[str, tuple[str, int]] | None = None
        self._watchlist = True
        self._watching: asyncio.Task[None] | None = None

    def forget(self) -> None:
        """Begins with the state again, at once: versions of before mean nothing in a new epoch, and a watch
        from one that is yet to come is silent.
        """
        self._version = None
        if self._watching is not None:
            self._watching.cancel()

    async def ready(self) -> None:
        """Waits until they are known, or known to be unreadable."""
        await self._ready.wait()

    async def run(self, random: Callable[[], float]) -> None:
        """Until cancelled."""
        attempt = refused = 0
        while True:
            began = self._clock.monotonic()
            self._watching = asyncio.create_task(self._watch(random))
            try:
                await asyncio.wait({self._watching})
                if self._watching.cancelled():
                    continue
                self._watching.result()
                if self._clock.monotonic() - began < self._timing.short_watch:
                    raise ConnectionLost("the watch of definitions ended at once", connected=True)
                attempt = refused = 0
            except Expired:
                self._version = None
                if attempt:  # a server that always says so must not be asked in a loop
                    await self._clock.sleep(recovery.backoff(attempt - 1, random, self._timing))
                attempt += 1
            except (Invalid, NotAllowed):
                known, self._version, self._watchlist = self._watchlist, None, False
                if known:
                    continue  # servers before 1.32 refuse the WatchList, and streams wait for the list
                await self._clock.sleep(recovery.backoff(attempt, random, self._timing))
                attempt += 1
            except (Forbidden, NotFound) as error:
                if not refused:
                    self._log.info("custom types are not watched; discovery is polled", error=str(error))
                self.readable = False
                self._ready.set()
                await self._clock.sleep(recovery.parking(refused, random, self._timing))
                refused += 1
            except Exception as error:
                known = isinstance(error, SyncdError)  # else a fault of our own
                say = self._log.debug if known else self._log.error
                say("definitions interrupted", error=str(error) if known else repr(error))
                if self._initial is not None and isinstance(error, ServerError):
                    self._watchlist = False
                if attempt >= PATIENCE and not self._ready.is_set():
                    self.readable = False  # one sick type never stops the others
                    self._ready.set()
                await self._clock.sleep(recovery.backoff(attempt, random, self._timing))
                attempt += 1
            finally:
                self._watching.cancel()
                await asyncio.gather(self._watching, return_exceptions=True)

    async def _watch(self, random: Callable[[], float]) -> None:
        if self._version is None and not self._watchlist:
            await self._list()
        self._initial = {} if self._version is None else None
        spread = (self._timing.watch_max - self._timing.watch_min) * random()
        seconds = max(1, round(self._timing.watch_min + spread))
        request = WatchRequest(self._version, seconds, initial_events=self._version is None)
        patience = seconds + self._timing.watch_margin
        try:
            async with asyncio.timeout(
                INITIAL_DEADLINE if self._initial is not None else patience
            ) as deadline:
                ends_at = asyncio.get_running_loop().time() + patience
                async with self._api.watch(self._stream, request, metadata_only=True) as chunks:
                    splitter = LineSplitter()
                    async for chunk in chunks:
                        for line in splitter.feed(chunk):
                            frame = parse_frame(line)
                            if frame is not None:
                                self._take(frame)
                        if self._initial is None:
                            deadline.reschedule(ends_at)
        except TimeoutError:
            self._watchlist = self._watchlist and self._initial is None
            raise ConnectionLost("the watch of definitions fell silent", connected=True) from None
        if self._initial is not None:
            self._watchlist = False
            raise ConnectionLost("the initial events did not end", connected=True)

    async def _list(self) -> None:
        found: dict[str, tuple[str, int]] = {}
        token: str | None = None
        while True:
            body = await self._api.list(self._stream, ListRequest(500, token), metadata_only=True)
            page = parse_page(body)
            for raw in page.items:
                name, uid, generation = definition_identity(raw)
                found[name] = (uid, generation)
            token = page.continue_token
            if token is None:
                break
        self._version = page.resource_version
        self._replace(found)

    def _take(self, frame: Frame) -> None:
        if frame.type is EventType.ERROR:
            raise frame.error()
        if frame.type is EventType.BOOKMARK:
            self._version, ends = frame.bookmark()
            if ends and self._initial is not None:
                found, self._initial = self._initial, None
                self._replace(found)
            elif self._initial is not None:
                self._version = None
            return
        name, uid, generation = definition_identity(frame.raw)
        known = self.known if self._initial is None else self._initial
        if frame.type is EventType.DELETED:
            known.pop(name, None)
        elif known.get(name) == (uid, generation):
            return  # a status update
        else:
            known[name] = (uid, generation)
        if self._initial is None:
            self._changed()

    def _replace(self, found: dict[str, tuple[str, int]]) -> None:
        changed = found != self.known
        self.known = found
        self.readable = True
        first = not self._ready.is_set()
        self._ready.set()
        if changed and not first:
            self._changed()
