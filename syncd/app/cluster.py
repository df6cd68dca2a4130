"""One cluster's API as the engine asks for it: the kube room's client, discovery and identity in one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager

from syncd.core.ports import Discovery, ListRequest, WatchRequest
from syncd.core.resource import Stream
from syncd.kube.client import KubeClient
from syncd.kube.discovery import KubeDiscoverer
from syncd.kube.identity import cluster_identity, server_version


class KubeCluster:
    """Implements `ClusterApi` over a client that is open."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._discoverer = KubeDiscoverer(client)

    @property
    def server(self) -> str:
        return self._client.connection.server

    async def list(self, stream: Stream, request: ListRequest, *, metadata_only: bool = False) -> bytes:
        return await self._client.list(stream, request, metadata_only=metadata_only)

    def watch(
        self, stream: Stream, request: WatchRequest, *, metadata_only: bool = False
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._client.watch(stream, request, metadata_only=metadata_only)

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        return await self._client.get(path, query)

    async def discover(self) -> Discovery:
        return await self._discoverer.discover()

    async def identity(self) -> tuple[str, bool]:
        return await cluster_identity(self._client)

    async def version(self) -> str:
        return await server_version(self._client)
