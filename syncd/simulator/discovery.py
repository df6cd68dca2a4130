"""What the server says it serves: the old documents, the aggregated one, the version. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from syncd.simulator.kind import Kind, Object, Subresource

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

VERSION = b"""{
  "major": "1",
  "minor": "36",
  "emulationMajor": "1",
  "emulationMinor": "36",
  "minCompatibilityMajor": "1",
  "minCompatibilityMinor": "35",
  "gitVersion": "v1.36.2-simulated",
  "gitCommit": "0000000000000000000000000000000000000000",
  "gitTreeState": "clean",
  "buildDate": "1970-01-01T00:00:00Z",
  "goVersion": "go1.27.3",
  "compiler": "gc",
  "platform": "linux/amd64"
}"""


def wants_aggregated(accept: str) -> bool:
    """Whether the first acceptable form is the aggregated one."""
    first = accept.split(",")[0].replace(" ", "")
    return set(AGGREGATED.split(";")) <= set(first.split(";"))


def etag(body: bytes) -> str:
    return '"' + hashlib.sha512(body).hexdigest().upper() + '"'


def versions(address: str) -> Object:
    """`/api`."""
    cidr = {"clientCIDR": "0.0.0.0/0", "serverAddress": address}
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [cidr]}


def groups(kinds: Iterable[Kind]) -> Object:
    """`/apis`."""
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [_group(*found) for found in _by_group(kinds)],
    }


def group(kinds: Iterable[Kind], name: str) -> Object | None:
    """`/apis/<group>`, None where it is not served."""
    for found, members in _by_group(kinds):
        if found == name:
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(found, members)}
    return None


def resource_list(kinds: Iterable[Kind], name: str, version: str) -> Object | None:
    """`/api/v1` or `/apis/<group>/<version>`, None where it is not served."""
    served = [kind for kind in kinds if (kind.group, kind.version) == (name, version)]
    if not served:
        return None
    group_version = f"{name}/{version}" if name else version
    entries: list[Object] = []
    for kind in served:
        entries.append(_entry(kind))
        entries.extend(_sub_entry(kind, part) for part in kind.subresources)
    head = {"kind": "APIResourceList"} | ({"apiVersion": "v1"} if name else {})
    return {**head, "groupVersion": group_version, "resources": entries}


def aggregated(kinds: Iterable[Kind], stale: Iterable[str] = (), *, core: bool) -> bytes:
    """`/api` or `/apis` in one document, with resources and freshness."""
    items: list[Object] = []
    for name, members in _by_group(kinds, core=core):
        freshness = "Stale" if name in stale else "Current"
        found = []
        for version in dict.fromkeys(kind.version for kind in members):
            resources = [_aggregated(kind) for kind in members if kind.version == version]
            found.append({"version": version, "resources": resources, "freshness": freshness})
        items.append({"metadata": {"name": name} if name else {}, "versions": found})
    head = {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2"}
    return msgspec.json.encode({**head, "metadata": {}, "items": items}) + b"\n"


def _by_group(kinds: Iterable[Kind], *, core: bool = False) -> list[tuple[str, list[Kind]]]:
    found: dict[str, list[Kind]] = {}
    for kind in kinds:
        if (kind.group == "") == core:
            found.setdefault(kind.group, []).append(kind)
    return list(found.items())


def _group(name: str, members: list[Kind]) -> Object:
    served = [
        {"groupVersion": f"{name}/{version}", "version": version}
        for version in dict.fromkeys(kind.version for kind in members)
    ]
    return {"name": name, "versions": served, "preferredVersion": served[0]}


def _names(kind: Kind) -> Object:
    short = {"shortNames": list(kind.short_names)} if kind.short_names else {}
    return short | ({"categories": list(kind.categories)} if kind.categories else {})


def _entry(kind: Kind) -> Object:
    entry = {
        "name": kind.name,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
        **_names(kind),
    }
    stored = {"get", "list", "watch"} <= set(kind.verbs)
    return entry | ({"storageVersionHash": kind.storage_version_hash} if stored else {})


def _sub_entry(kind: Kind, part: Subresource) -> Object:
    of = {"group": part.group_version[0], "version": part.group_version[1]} if part.group_version else {}
    name = {"name": f"{kind.name}/{part.name}", "singularName": "", "namespaced": kind.namespaced}
    return {**name, **of, "kind": part.kind, "verbs": list(part.verbs)}


def _aggregated(kind: Kind) -> Object:
    # Only a custom kind names its own group and version.
    own = (kind.group, kind.version) if kind.custom else ("", "")
    entry: Object = {
        "resource": kind.name,
        "responseKind": _response_kind(own, kind.kind),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
        **_names(kind),
    }
    if kind.subresources:
        entry["subresources"] = [
            {
                "subresource": part.name,
                "responseKind": _response_kind(part.group_version or own, part.kind),
                "verbs": list(part.verbs),
            }
            for part in kind.subresources
        ]
    return entry


def _response_kind(group_version: tuple[str, str], kind: str) -> Object:
    return {"group": group_version[0], "version": group_version[1], "kind": kind}
