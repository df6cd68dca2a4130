"""Discovery documents, aggregated and legacy, as pure functions from bytes (list-watch.md §8).

A document that is not what it should be is a ProtocolError, never another exception. Subresources are
dropped; choosing among resources, verbs and versions is left to who reads the result.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from syncd.core.errors import ProtocolError
from syncd.core.resource import Resource

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
"""The aggregated form's media type; the server reads its parameters in this order."""

GroupVersion = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Part:
    """What one document, or several together, say is served."""

    resources: tuple[Resource, ...] = ()
    stale: frozenset[GroupVersion] = frozenset()
    complete: bool = True


def joined(parts: Iterable[Part]) -> Part:
    """Several parts as one, in their order."""
    known = tuple(parts)
    return Part(
        tuple(resource for part in known for resource in part.resources),
        frozenset().union(*(part.stale for part in known)),
        all(part.complete for part in known),
    )


def is_aggregated(content_type: str) -> bool:
    """Whether an answer is the aggregated form: its Content-Type, not our request, decides."""
    wanted = set(AGGREGATED.split(";"))
    return wanted <= {part.strip() for part in content_type.split(";")}


class _Kind(msgspec.Struct, rename="camel"):
    kind: str | None = None


class _Served(msgspec.Struct, rename="camel"):
    resource: str
    response_kind: _Kind | None = None
    scope: str = ""
    verbs: list[str] | None = None
    singular_resource: str | None = None
    short_names: list[str] | None = None
    categories: list[str] | None = None


class _Version(msgspec.Struct, rename="camel"):
    version: str
    resources: list[_Served] | None = None
    freshness: str = "Current"


class _Name(msgspec.Struct):
    name: str | None = None


class _Group(msgspec.Struct, rename="camel"):
    metadata: _Name = msgspec.field(default_factory=_Name)
    versions: list[_Version] | None = None


class _Aggregated(msgspec.Struct, rename="camel"):
    kind: str
    items: list[_Group] | None = None


class _ApiVersions(msgspec.Struct):
    kind: str
    versions: list[str] | None = None


class _LegacyVersion(msgspec.Struct, rename="camel"):
    version: str


class _LegacyGroup(msgspec.Struct, rename="camel"):
    name: str
    versions: list[_LegacyVersion] | None = None
    preferred_version: _LegacyVersion | None = None


class _ApiGroupList(msgspec.Struct):
    kind: str
    groups: list[_LegacyGroup] | None = None


class _LegacyResource(msgspec.Struct, rename="camel"):
    name: str
    kind: str = ""
    namespaced: bool = False
    verbs: list[str] | None = None
    singular_name: str | None = None
    short_names: list[str] | None = None
    categories: list[str] | None = None


class _ApiResourceList(msgspec.Struct):
    kind: str
    resources: list[_LegacyResource] | None = None


_Document = TypeVar("_Document", _Aggregated, _ApiVersions, _ApiGroupList, _ApiResourceList)


def parse_aggregated(body: bytes) -> Part:
    """An APIGroupDiscoveryList of /api or /apis. A stale version gives no resources, only its name."""
    document = _decoded(body, _Aggregated, "APIGroupDiscoveryList")
    resources: list[Resource] = []
    stale: set[GroupVersion] = set()
    for group in document.items or ():
        name = group.metadata.name or ""
        for version in group.versions or ():
            if version.freshness != "Current":
                stale.add((name, version.version))
            else:
                served = version.resources or ()
                resources += (
                    _from_aggregated(name, version.version, each) for each in served if _usable(each)
                )
    return Part(tuple(resources), frozenset(stale))


def _usable(served: _Served) -> bool:
    """An entry without a kind only carries subresources of something that is not served itself."""
    return served.response_kind is not None and bool(served.response_kind.kind)


def _from_aggregated(group: str, version: str, served: _Served) -> Resource:
    # responseKind's own group and version are often empty: they mean the enclosing ones.
    kind = served.response_kind.kind if served.response_kind else ""
    return Resource(
        group,
        version,
        served.resource,
        kind or "",
        namespaced=served.scope == "Namespaced",
        verbs=frozenset(served.verbs or ()),
        singular=served.singular_resource or "",
        short_names=tuple(served.short_names or ()),
        categories=tuple(served.categories or ()),
    )


def parse_api_versions(body: bytes) -> tuple[GroupVersion, ...]:
    """The legacy /api: the core group's versions."""
    document = _decoded(body, _ApiVersions, "APIVersions")
    return tuple(("", version) for version in document.versions or ())


def parse_groups(body: bytes) -> tuple[GroupVersion, ...]:
    """The legacy /apis: of each group the preferred version first, then the others in their order."""
    document = _decoded(body, _ApiGroupList, "APIGroupList")
    found: list[GroupVersion] = []
    for group in document.groups or ():
        preferred = group.preferred_version.version if group.preferred_version else ""
        versions = [each.version for each in group.versions or ()]
        versions.sort(key=lambda version: version != preferred)
        found += ((group.name, version) for version in versions)
    return tuple(found)


def parse_resources(body: bytes, group: str, version: str) -> Part:
    """The legacy /api/v1 or /apis/g/v."""
    document = _decoded(body, _ApiResourceList, "APIResourceList")
    return Part(
        tuple(
            Resource(
                group,
                version,
                each.name,
                each.kind,
                namespaced=each.namespaced,
                verbs=frozenset(each.verbs or ()),
                singular=each.singular_name or "",
                short_names=tuple(each.short_names or ()),
                categories=tuple(each.categories or ()),
            )
            for each in document.resources or ()
            if "/" not in each.name
        )
    )


def _decoded(body: bytes, form: type[_Document], kind: str) -> _Document:
    try:
        document = msgspec.json.decode(body, type=form)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise ProtocolError(f"a discovery document cannot be read as {kind}: {exc}") from exc
    if document.kind != kind:
        raise ProtocolError(f"a discovery document is {document.kind[:40]!r}, not {kind}")
    return document
