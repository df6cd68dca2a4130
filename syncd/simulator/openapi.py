"""As much of OpenAPI v3 as kubectl reads before it writes: that the server validates fields itself. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from syncd.simulator.kind import Kind, Object


def index(kinds: Iterable[Kind]) -> Object:
    """`/openapi/v3`: a document for each group and version."""
    roots = dict.fromkeys(_root(kind) for kind in kinds)
    return {"paths": {root: {"serverRelativeURL": f"/openapi/v3/{root}"} for root in roots}}


def document(kinds: Iterable[Kind], root: str) -> Object | None:
    """`/openapi/v3/<root>`, None where nothing is served there."""
    served = [kind for kind in kinds if _root(kind) == root and "patch" in kind.verbs]
    if not served:
        return None
    paths = {_path(kind): {"patch": _patch(kind)} for kind in served}
    return {"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.36.2"}, "paths": paths}


def _root(kind: Kind) -> str:
    return f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"


def _path(kind: Kind) -> str:
    scope = "/namespaces/{namespace}" if kind.namespaced else ""
    return f"/{_root(kind)}{scope}/{kind.name}/{{name}}"


def _patch(kind: Kind) -> Object:
    validation = {"name": "fieldValidation", "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    return {
        "parameters": [validation],
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
    }
