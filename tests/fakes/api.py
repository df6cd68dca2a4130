"""A cluster's API server at the engine's port: one resource in memory, with the faults of real ones.

It keeps every state by version, so that a test can say what the mirror should have been when. It speaks in
bytes, as the port asks, and cuts watches wherever a test wants. HTTP itself is not played here.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from syncd.core.errors import ConnectionLost, Expired, Invalid, NotFound, SyncdError, VersionTooLarge
from syncd.core.ports import Discovery, ListRequest, WatchRequest
from syncd.core.resource import Resource, Stream
from tests.fakes.value import PODS, Json, bookmark, failed, line, page, pod

Answer = bytes | SyncdError | None
_END = object()


def gone(token: str | None = None) -> Expired:
    """410 as an HTTP status."""
    return Expired(410, "Expired", "too old", continue_token=token)


@dataclass(eq=False)
class OpenWatch:
    """One watch; `push` what it is to deliver: bytes, an error that breaks it, or the end."""

    request: WatchRequest
    queue: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)

    def push(self, what: bytes | SyncdError | object) -> None:
        self.queue.put_nowait(what)

    def end(self) -> None:
        """The plain end."""
        self.push(_END)

    async def chunks(self) -> AsyncIterator[bytes]:
        while (what := await self.queue.get()) is not _END:
            if isinstance(what, SyncdError):
                raise what
            yield what


class FakeApi:
    """Implements `ClusterApi` for one resource.

    Attributes:
        objects: the present state by `namespace/name`.
        rv: the version of the cluster.
        lists, watches: the requests so far.
        list_answers, watch_answers: what is answered next instead, one a request; None is the truth.
        gate: where set, lists wait for it.
        floor: the oldest version that a watch can start from.
        expired_in_stream: whether 410 of a watch comes as an event, not as a status.
        dropping: events are not delivered, and never will be.
        short: seconds; a watch for no more is over once it has said what it has to say.
        initial: what the next WatchLists deliver instead of the truth; each open watch is given to one.
        bookmark_at_once: a watch that has nothing else to say begins with a bookmark.
        bookmark_after: one that has something to say says it, and a bookmark after it.
    """

    server = "https://fake"

    def __init__(self, resource: Resource = PODS) -> None:
        self.resource = resource
        self.objects: dict[str, Json] = {}
        self.rv = 100
        self.uid = "cluster-1"
        self.lists: list[ListRequest] = []
        self.watches: list[WatchRequest] = []
        self.open: list[OpenWatch] = []
        self.list_answers: deque[Answer | Callable[[bytes], Answer]] = deque()
        self.watch_answers: deque[Answer] = deque()
        self.initial: deque[Callable[[OpenWatch], object]] = deque()
        self.gate: asyncio.Event | None = None
        self.floor = 0
        self.expired_in_stream = True
        self.dropping = False
        self.bookmark_at_once = False
        self.bookmark_after = False
        self.short = 10
        self.forbidden: SyncdError | None = None
        self.items: Callable[[list[Json]], Iterable[Json]] = lambda listed: listed
        self.discovery = Discovery((resource,))
        self._states: dict[int, dict[str, Json]] = {}
        self._history: list[tuple[int, bytes]] = []
        self._snapshots: dict[int, list[Json]] = {}

    # --- the cluster changes --------------------------------------------------------------------

    def put(self, name: str, **about: Any) -> Json:
        """Makes or changes an object."""
        self.rv += 1
        value = pod(name, self.rv, **about)
        key = _key(value)
        kind = "MODIFIED" if key in self.objects else "ADDED"
        self.objects[key] = value
        self._tell(line(kind, value))
        return value

    def delete(self, *names: str, namespace: str = "default", delivered: int | None = None) -> None:
        """Deletes objects, all at one version; open watches get the first `delivered` of the events."""
        self.rv += 1
        for number, name in enumerate(names):
            last = self.objects.pop(f"{namespace}/{name}")
            metadata = {**last["metadata"], "resourceVersion": str(self.rv)}
            deliver = delivered is None or number < delivered
            self._tell(line("DELETED", {**last, "metadata": metadata}), deliver=deliver)

    def roll_back(self, version: int, objects: Iterable[Json]) -> None:
        """etcd is restored from a backup: the server restarts with an older state."""
        self.rv = version
        self.objects = {_key(value): value for value in objects}
        self._history = [(at, raw) for at, raw in self._history if at <= version]
        self._states = {version: dict(self.objects)}
        self.end()

    def forget(self) -> None:
        """Compacts the history: no watch can start below the present version."""
        self.floor = self.rv

    # --- its watches suffer ---------------------------------------------------------------------

    def bookmark(self) -> None:
        for watch in self.open:
            watch.push(bookmark(self.rv))

    def send(self, raw: bytes) -> None:
        """These bytes, whatever they are."""
        for watch in self.open:
            watch.push(raw)

    def cut(self, half: bytes = b"") -> None:
        """The connection breaks, in the middle of a line where `half` is given."""
        for watch in self.open:
            if half:
                watch.push(half)
            watch.push(ConnectionLost("reset", connected=True))

    def end(self) -> None:
        """The plain end of a watch."""
        for watch in self.open:
            watch.push(_END)

    # --- ClusterApi -----------------------------------------------------------------------------

    async def list(self, stream: Stream, request: ListRequest, *, metadata_only: bool = False) -> bytes:
        self.lists.append(request)
        if self.gate is not None:
            await self.gate.wait()
        await asyncio.sleep(0)
        if self.forbidden is not None:
            raise self.forbidden
        answer = self.list_answers.popleft() if self.list_answers else None
        if callable(answer):
            answer = answer(self._page(stream, request))
        if isinstance(answer, SyncdError):
            raise answer
        return answer if answer is not None else self._page(stream, request)

    @asynccontextmanager
    async def watch(
        self, stream: Stream, request: WatchRequest, *, metadata_only: bool = False
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        self.watches.append(request)
        await asyncio.sleep(0)
        if self.forbidden is not None:
            raise self.forbidden
        answer = self.watch_answers.popleft() if self.watch_answers else None
        if isinstance(answer, SyncdError):
            raise answer
        watch = OpenWatch(request)
        since = int(request.resource_version or 0)
        if answer is not None:
            watch.push(answer)
            watch.push(_END)
        elif request.initial_events and self.initial:
            self.initial.popleft()(watch)
        elif request.initial_events:
            listed = [self.objects[key] for key in sorted(self.objects, key=str.encode)]
            watch.push(
                b"".join(line("ADDED", value) for value in listed if _matches(value, stream, ListRequest()))
            )
            watch.push(bookmark(self.rv, ends_initial=True))
        elif since < self.floor and self.expired_in_stream:
            watch.push(failed(410, "Expired"))
            watch.push(_END)
        elif since < self.floor:
            raise gone()
        elif missed := [raw for at, raw in self._history if at > since]:
            watch.push(b"".join(missed))
            if self.bookmark_after:
                watch.push(bookmark(self.rv))
        elif self.bookmark_at_once and since < self.rv:
            watch.push(bookmark(self.rv))
        if request.timeout_seconds <= self.short:
            watch.push(_END)
        self.open.append(watch)
        try:
            yield watch.chunks()
        finally:
            self.open.remove(watch)

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """A list at exactly one version, of which the past is kept down to the floor."""
        asked = dict(query or {})
        namespace = path.partition("/namespaces/")[2].partition("/")[0]
        stream = Stream("", self.resource, namespace)
        if path != self.resource.path(namespace) or asked.get("resourceVersionMatch") != "Exact":
            raise NotFound(404)
        version = int(asked["resourceVersion"])
        if version < self.floor:
            raise gone()
        if version > self.rv:
            raise VersionTooLarge(504, "Timeout", retry_after=1)
        then = max((at for at in self._states if at <= version), default=None)
        objects = self._states[then] if then is not None else {}
        wanted = ListRequest(field_selector=asked.get("fieldSelector", ""))
        return page(version, [value for value in objects.values() if _matches(value, stream, wanted)])

    async def discover(self) -> Discovery:
        return self.discovery

    async def identity(self) -> tuple[str, bool]:
        return self.uid, False

    async def version(self) -> str:
        return "v1.36.2"

    def _tell(self, raw: bytes, *, deliver: bool = True) -> None:
        self._states[self.rv] = dict(self.objects)
        if self.dropping:
            return
        self._history.append((self.rv, raw))
        for watch in self.open if deliver else ():
            if int(watch.request.resource_version or 0) < self.rv:
                watch.push(raw)

    def _page(self, stream: Stream, request: ListRequest) -> bytes:
        if request.continue_token:
            version, after = request.continue_token.split("|")
            if int(version) not in self._snapshots:
                raise gone("inconsistent")
            listed = [value for value in self._snapshots[int(version)] if _key(value) > after]
        else:
            version = str(self.rv)
            listed = [self.objects[key] for key in sorted(self.objects, key=str.encode)]
            listed = [value for value in listed if _matches(value, stream, request)]
            self._snapshots[self.rv] = listed
        limit = request.limit or len(listed) or 1
        token = f"{version}|{_key(listed[limit - 1])}" if len(listed) > limit else ""
        return page(version, self.items(listed[:limit]), token)

    def expire_tokens(self) -> None:
        self._snapshots.clear()


def _key(value: Json) -> str:
    return f"{value['metadata']['namespace']}/{value['metadata']['name']}"


def _unescaped(text: str) -> str:
    if not re.fullmatch(r"(?:[^\\=]|\\[\\,=])*", text):
        raise Invalid(400, "BadRequest", "unable to parse the field selector")
    return re.sub(r"\\([\\,=])", r"\1", text)


def _matches(value: Json, stream: Stream, request: ListRequest) -> bool:
    parts = (part.split("=", 1) for part in re.split(r"(?<!\\),", request.field_selector) if part)
    wanted = {path: _unescaped(text) for path, text in parts}
    metadata = value["metadata"]
    return stream.namespace in ("", metadata["namespace"]) and all(
        metadata[path.removeprefix("metadata.")] == text for path, text in wanted.items()
    )
