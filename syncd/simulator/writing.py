"""What the server does to an object that is written: stamps, generation, merges, managedFields. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from syncd.simulator.kind import Kind, Object

_SERVED = ("uid", "resourceVersion", "creationTimestamp", "generation")


def created(kind: Kind, obj: Mapping[str, Any], *, uid: str, version: int, now: str) -> Object:
    """A new object; uid and creationTimestamp that it brings are kept."""
    metadata = dict(obj["metadata"])
    metadata.setdefault("uid", uid)
    metadata["resourceVersion"] = str(version)
    if kind.counts_generation:
        metadata.setdefault("generation", 1)
    metadata.setdefault("creationTimestamp", now)
    if not kind.namespaced:
        metadata.pop("namespace", None)
    return _typed(kind, obj) | {"metadata": metadata}


def updated(kind: Kind, old: Object, obj: Mapping[str, Any], version: int) -> Object:
    """The object that replaces another under its name. What the server owns is kept."""
    metadata = dict(obj["metadata"])
    for name in (*_SERVED, "managedFields"):
        if name in old["metadata"] and (name in _SERVED or not metadata.get(name)):
            metadata[name] = old["metadata"][name]
    new = _typed(kind, obj) | {"metadata": metadata}
    if kind.counts_generation and _desired(new) != _desired(old):
        metadata["generation"] = int(old["metadata"].get("generation") or 0) + 1
    metadata["resourceVersion"] = str(version)
    return new


def same(left: Object, right: Object) -> bool:
    """Whether two forms of an object differ in their version at most."""
    return _versionless(left) == _versionless(right)


def merged(target: Any, patch: Any) -> Any:
    """A JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def managed_fields(kind: Kind, obj: Mapping[str, Any], manager: str, now: str) -> list[Object]:
    """The one entry that a first write by a manager leaves."""
    owned = {key: value for key, value in obj.items() if key not in ("kind", "apiVersion", "metadata")}
    fields = {f"f:{key}": _owned(value) for key, value in owned.items()}
    if not kind.custom:  # there these are structs, and only maps own themselves
        for part in ("f:spec", "f:status"):
            fields.get(part, {}).pop(".", None)
    given = obj.get("metadata") or {}
    parts = {
        f"f:{key}": _owned(given[key])
        for key in ("annotations", "generateName", "labels", "ownerReferences")
        if given.get(key)
    }
    if parts:
        fields = {"f:metadata": parts} | fields
    return [
        {
            "manager": manager,
            "operation": "Update",
            "apiVersion": kind.api_version,
            "time": now,
            "fieldsType": "FieldsV1",
            "fieldsV1": fields,
        }
    ]


def _owned(value: Any) -> Object:
    if isinstance(value, dict):
        return {".": {}} | {f"f:{key}": _owned(part) for key, part in sorted(value.items())}
    return {}


def _typed(kind: Kind, obj: Mapping[str, Any]) -> Object:
    rest = {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}
    return {"kind": kind.kind, "apiVersion": kind.api_version, **rest}


def _desired(obj: Object) -> Object:
    return {
        key: value for key, value in obj.items() if key not in ("metadata", "status", "kind", "apiVersion")
    }


def _versionless(obj: Object) -> Object:
    metadata = {key: value for key, value in obj["metadata"].items() if key != "resourceVersion"}
    return obj | {"metadata": metadata}
