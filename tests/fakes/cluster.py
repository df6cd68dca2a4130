"""A cluster of several resources at the supervisor's port, its definitions among them."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager

from syncd.core.errors import NotFound, SyncdError
from syncd.core.ports import Discovery, ListRequest, WatchRequest
from syncd.core.resource import Resource, Stream
from syncd.sync.definitions import DEFINITIONS
from tests.fakes.api import FakeApi
from tests.fakes.value import compact

DEFINITIONS_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SERVICES_PATH = "/apis/apiregistration.k8s.io/v1/apiservices"


class FakeCluster:
    """Implements `ClusterApi`; each resource is a `FakeApi` of its own, served as long as it is in `parts`.

    Attributes:
        stale: groups of which discovery cannot tell.
        down: what every question is answered with, if anything.
        gets: what plain GETs are answered with, by path, one each; then the truth.
    """

    server = "https://fake"

    def __init__(self, *resources: Resource) -> None:
        self.parts = {resource.qualified: FakeApi(resource) for resource in resources}
        self.definitions = FakeApi(DEFINITIONS)
        self.stale: frozenset[tuple[str, str]] = frozenset()
        self.down: SyncdError | None = None
        self.gets: dict[str, deque[bytes | SyncdError]] = {}
        self.uid = "cluster-1"
        self.git_version = "v1.36.2"
        self._last: Discovery | None = None

    def part(self, stream: Stream) -> FakeApi:
        if stream.resource == DEFINITIONS:
            return self.definitions
        found = self.parts.get(stream.resource.qualified)
        if found is None or found.resource.version != stream.resource.version:
            raise NotFound(404)
        return found

    async def list(self, stream: Stream, request: ListRequest, *, metadata_only: bool = False) -> bytes:
        return await self.part(stream).list(stream, request, metadata_only=metadata_only)

    def watch(
        self, stream: Stream, request: WatchRequest, *, metadata_only: bool = False
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self.part(stream).watch(stream, request, metadata_only=metadata_only)

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        if scripted := self.gets.get(path):
            answer = scripted.popleft()
            if isinstance(answer, SyncdError):
                raise answer
            return answer
        items: list[object] = []
        if path == DEFINITIONS_PATH:
            name = (query or {})["fieldSelector"].removeprefix("metadata.name=")
            values = self.definitions.objects.values()
            items = [value for value in values if value["metadata"]["name"] == name]
        elif path == SERVICES_PATH:
            items = [{"metadata": {"name": "v1.apps"}, "spec": {"group": "apps", "service": None}}]
        else:
            parts = [part for part in self.parts.values() if part.resource.path() == path]
            if not parts:
                raise NotFound(404)
            return await parts[0].get(path, query)
        return compact({"kind": "List", "metadata": {"resourceVersion": "5"}, "items": items})

    async def discover(self) -> Discovery:
        if self.down is not None:
            raise self.down
        groups = {group for group, _ in self.stale}
        resources = tuple(part.resource for part in self.parts.values() if part.resource.group not in groups)
        found = Discovery(resources, self.stale)
        if found != self._last:
            self._last = found
        return self._last

    async def identity(self) -> tuple[str, bool]:
        if self.down is not None:
            raise self.down
        return self.uid, False

    async def version(self) -> str:
        return self.git_version
