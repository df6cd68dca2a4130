"""Writes to a cluster as anybody would, simulated or real: plain requests over the product's connection."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Self
from urllib.parse import urlencode

import pytest

from syncd.core.errors import ApiError, Forbidden, NotFound, TooManyRequests
from syncd.core.resource import Resource
from syncd.core.status import api_error
from syncd.kube.client import KubeClient

Json = dict[str, Any]

MERGE = "application/merge-patch+json"
_PATIENCE = 60  # tries at a server that throttles, or whose new type is not served yet


class Writer(KubeClient):
    """One cluster, to be changed and compared with. It waits where the server says that it is not ready."""

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        return self

    async def call(self, method: str, path: str, body: Json | None = None, *, kind: str = "") -> Json:
        """One request; the answer's object.

        Raises:
            ApiError: anything but 2xx. A 429 is asked again.
        """
        for attempt in range(_PATIENCE):
            try:
                return await self._call(method, path, body, kind or "application/json")
            except TooManyRequests as error:
                if attempt == _PATIENCE - 1:
                    raise
                await asyncio.sleep(min(error.retry_after or 0.0, 1.0) or 0.05)
        raise AssertionError("never reached")

    async def _call(self, method: str, path: str, body: Json | None, kind: str) -> Json:
        proof = await self._authenticator.proof()
        headers = [
            ("Accept", "application/json"),
            ("User-Agent", "syncd-conformance"),
            ("Content-Type", kind),
            *self.connection.impersonation.headers(),
            *proof.headers,
        ]
        content = None if body is None else json.dumps(body).encode()
        async with self._transport.lease() as pools:
            url = f"{self.connection.server}{path}"
            answer = await pools.lists.request(method, url, headers=headers, content=content)
        if not answer.is_success:
            raise api_error(answer.content, answer.status_code, answer.headers.get("retry-after"))
        found: Json = answer.json()
        return found

    async def create(self, resource: Resource, namespace: str, obj: Json) -> Json:
        """Makes an object; a test that may not is skipped, with that reason."""
        try:
            return await self.call("POST", resource.path(namespace), obj)
        except Forbidden as error:
            pytest.skip(f"the account may not create {resource.qualified}: {error}")

    async def patch(self, resource: Resource, key: str, change: Json) -> Json:
        """A merge patch; the key is `namespace/name`, or `name`."""
        return await self.call("PATCH", object_path(resource, key), change, kind=MERGE)

    async def delete(self, resource: Resource, key: str) -> None:
        """Deletes an object and waits until it is gone; finalizers take their time."""
        path = object_path(resource, key)
        try:
            before = await self.call("GET", path)
            await self.call("DELETE", path)
            for _ in range(600):
                if (await self.call("GET", path))["metadata"]["uid"] != before["metadata"]["uid"]:
                    return
                await asyncio.sleep(0.05)
        except NotFound:
            return
        raise AssertionError(f"{path} is still there")

    async def empty(self, resource: Resource, namespace: str) -> None:
        """Deletes everything of a resource in a namespace."""
        await self.call("DELETE", resource.path(namespace))

    async def listed(
        self, resource: Resource, namespace: str = "", selector: str = ""
    ) -> tuple[str, dict[str, Json]]:
        """The list's version, and its objects by key, as the table is to hold them."""
        query = urlencode({"labelSelector": selector}) if selector else ""
        answer = await self.call("GET", f"{resource.path(namespace)}?{query}")
        found = {}
        for item in answer["items"]:
            metadata = item["metadata"]
            metadata.pop("managedFields", None)
            whole = {"apiVersion": resource.api_version, "kind": resource.kind, **item}
            found["/".join(filter(None, (metadata.get("namespace", ""), metadata["name"])))] = whole
        return answer["metadata"]["resourceVersion"], found

    async def served(self, resource: Resource) -> None:
        """Waits until a new type answers lists."""
        for _ in range(600):
            try:
                await self.call("GET", f"{resource.path()}?limit=1")
                return
            except ApiError:
                await asyncio.sleep(0.1)
        raise AssertionError(f"{resource.qualified} is not served")


def object_path(resource: Resource, key: str) -> str:
    """The path of an object by its key."""
    namespace, _, name = key.rpartition("/")
    return f"{resource.path(namespace)}/{name}"
