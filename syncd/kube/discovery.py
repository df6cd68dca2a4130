"""The `Discoverer` port: asks a cluster what it serves, aggregated where it can, group by group where not.

What could not be had is never taken for removed: it is named in `stale`, or the result is not `complete`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from syncd.core.errors import ApiError, ProtocolError, SyncdError, Unauthorized
from syncd.core.ports import Discovery
from syncd.kube.client import JSON, KubeClient
from syncd.kube.discovery_document import (
    AGGREGATED,
    GroupVersion,
    Part,
    is_aggregated,
    joined,
    parse_aggregated,
    parse_api_versions,
    parse_groups,
    parse_resources,
)

_ACCEPT = f"{AGGREGATED},{JSON}"
_LEGACY_AT_A_TIME = 8  # a cluster may have a hundred groups; discovery is no reason to crowd it


@dataclass(frozen=True, slots=True)
class _Known:
    """The last aggregated document of one root."""

    etag: str
    part: Part


class KubeDiscoverer:
    """Discovery of one cluster over its client. Calls must not overlap."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._known: dict[str, _Known] = {}
        self._last: Discovery | None = None

    async def discover(self) -> Discovery:
        """The port's `discover`.

        One root (/api or /apis) that answers with an error leaves the result incomplete, both raise it.

        Raises:
            ApiError, ConnectionLost, ProtocolError
        """
        answers = [await self._root("/api"), await self._root("/apis")]
        parts = [answer for answer in answers if isinstance(answer, Part)]
        failures = [answer for answer in answers if not isinstance(answer, Part)]
        if not parts:
            raise failures[0]
        whole = joined(parts)
        found = Discovery(whole.resources, whole.stale, whole.complete and not failures)
        if self._last is None or found != self._last:
            self._last = found
        return self._last

    async def _root(self, path: str) -> Part | ApiError | ProtocolError:
        """What one root says. Only errors that concern this root alone are returned."""
        try:
            return await self._ask_root(path)
        except Unauthorized:
            raise
        except (ApiError, ProtocolError) as exc:
            return exc

    async def _ask_root(self, path: str) -> Part:
        known = self._known.get(path)
        answer = await self._client.fetch(path, accept=_ACCEPT, etag=known.etag if known else "")
        if known is not None and answer.status == 304:
            return known.part
        self._known.pop(path, None)
        if not is_aggregated(answer.content_type):
            # The fallback in our Accept: this body is already the legacy root document.
            return await self._legacy(
                parse_api_versions(answer.body) if path == "/api" else parse_groups(answer.body)
            )
        part = parse_aggregated(answer.body)
        if answer.etag:
            self._known[path] = _Known(answer.etag, part)
        return part

    async def _legacy(self, group_versions: tuple[GroupVersion, ...]) -> Part:
        gate = asyncio.Semaphore(_LEGACY_AT_A_TIME)
        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(self._legacy_part(each, gate)) for each in group_versions]
        answers = [task.result() for task in asked]
        for answer in answers:
            if isinstance(answer, SyncdError):
                raise answer
        return joined(answer for answer in answers if isinstance(answer, Part))

    async def _legacy_part(self, group_version: GroupVersion, gate: asyncio.Semaphore) -> Part | SyncdError:
        """One group version; errors are values, so that a failing one does not cancel the others.

        An error of this document alone, such as the 503 of an aggregated API whose server is away, makes
        it stale, as the aggregated form would call it; all the others say what they say.
        """
        group, version = group_version
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        try:
            async with gate:
                answer = await self._client.fetch(path)
            return parse_resources(answer.body, group, version)
        except Unauthorized as exc:
            return exc
        except (ApiError, ProtocolError):
            return Part(stale=frozenset({group_version}))
        except SyncdError as exc:
            return exc
