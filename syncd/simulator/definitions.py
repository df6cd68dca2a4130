"""Custom resource definitions as values: the kinds one serves, its defaults, its status. Pure."""

from __future__ import annotations

from typing import Any

from syncd.simulator.kind import Kind, Object, Subresource


def definition(
    group: str = "example.com",
    plural: str = "widgets",
    kind: str = "Widget",
    *,
    namespaced: bool = True,
    short_names: tuple[str, ...] = (),
    schema: Object | None = None,
    selectable: tuple[str, ...] = (),
) -> Object:
    """A CustomResourceDefinition with one version, v1, and a status subresource.

    Args:
        schema: openAPIV3Schema; left out: anything goes.
        selectable: JSON paths such as `.spec.color` that field selectors may name.
    """
    version: Object = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        },
        "subresources": {"status": {}},
    }
    if selectable:
        version["selectableFields"] = [{"jsonPath": path} for path in selectable]
    names: Object = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    if short_names:
        names["shortNames"] = list(short_names)
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": names,
            "scope": "Namespaced" if namespaced else "Cluster",
            "versions": [version],
        },
    }


def kinds(crd: Object) -> list[Kind]:
    """What the definition serves, the preferred version first."""
    spec = crd["spec"]
    names = spec["names"]
    versions = [version for version in spec["versions"] if version.get("served", True)]
    versions.sort(key=lambda version: _priority(version["name"]), reverse=True)
    return [
        Kind(
            group=spec["group"],
            version=version["name"],
            name=names["plural"],
            singular=names.get("singular") or names["kind"].lower(),
            kind=names["kind"],
            namespaced=spec.get("scope", "Namespaced") == "Namespaced",
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            subresources=tuple(
                Subresource(name, names["kind"])
                for name in (version.get("subresources") or {})
                if name == "status"
            ),
            storage=(spec["group"], names["plural"]),
            fields=tuple(
                field["jsonPath"].removeprefix(".") for field in version.get("selectableFields") or ()
            ),
            labelled_fields=True,
            counts_generation=True,
            custom=True,
            list_kind=names.get("listKind") or f"{names['kind']}List",
        )
        for version in versions
    ]


def _priority(version: str) -> tuple[int, int, int]:
    """v2 before v1 before v1beta1 before v1alpha1 (the API's version order)."""
    for rank, mark in ((1, "beta"), (0, "alpha")):
        major, found, minor = version.removeprefix("v").partition(mark)
        if found and major.isdigit():
            return (rank, int(major), int(minor) if minor.isdigit() else 0)
    major = version.removeprefix("v")
    return (2, int(major), 0) if major.isdigit() else (-1, 0, 0)


def storage_schema(crd: Object) -> Object:
    """The schema of the version that is stored."""
    for version in crd["spec"]["versions"]:
        if version.get("storage"):
            schema: Object = (version.get("schema") or {}).get("openAPIV3Schema") or {}
            return schema
    return {}


def with_defaults(schema: Object, value: Any) -> Any:
    """The value with the schema's defaults filled in where a field is absent; a new value if any was."""
    if isinstance(value, dict):
        filled = dict(value)
        for name, part in (schema.get("properties") or {}).items():
            if name not in filled and "default" in part:
                filled[name] = part["default"]
            if name in filled:
                filled[name] = with_defaults(part, filled[name])
        return filled
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return [with_defaults(schema["items"], item) for item in value]
    return value


def established(crd: Object, now: str) -> Object:
    """The definition with the status that the server gives it once it is served."""
    spec = crd["spec"]
    conditions = [
        {
            "type": "NamesAccepted",
            "status": "True",
            "lastTransitionTime": now,
            "reason": "NoConflicts",
            "message": "no conflicts found",
        },
        {
            "type": "Established",
            "status": "True",
            "lastTransitionTime": now,
            "reason": "InitialNamesAccepted",
            "message": "the initial names have been accepted",
        },
    ]
    stored = [version["name"] for version in spec["versions"] if version.get("storage")]
    return crd | {
        "status": {"conditions": conditions, "acceptedNames": spec["names"], "storedVersions": stored}
    }


def completed(crd: Object) -> Object:
    """The definition with the names and the conversion that the server fills in."""
    spec = dict(crd["spec"])
    names = dict(spec["names"])
    names.setdefault("singular", names["kind"].lower())
    names.setdefault("listKind", f"{names['kind']}List")
    spec["names"] = names
    spec.setdefault("conversion", {"strategy": "None"})
    return crd | {"spec": spec}


def api_service(group: str, version: str, now: str, *, custom: bool) -> Object:
    """The APIService of a group version that the server serves itself."""
    name = f"{version}.{group}" if group else f"{version}."
    managed = "true" if custom else "onstart"
    return {
        "metadata": {"name": name, "labels": {"kube-aggregator.kubernetes.io/automanaged": managed}},
        "spec": {
            **({"group": group} if group else {}),
            "version": version,
            "groupPriorityMinimum": 1000,
            "versionPriority": 100,
        },
        "status": {
            "conditions": [
                {
                    "type": "Available",
                    "status": "True",
                    "lastTransitionTime": now,
                    "reason": "Local",
                    "message": "Local APIServices are always available",
                }
            ]
        },
    }
