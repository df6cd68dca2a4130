"""What views need to know of custom types: of a CustomResourceDefinition the little that shapes a table, in
the form of the document that it comes from.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from syncd.core.errors import UNDECODABLE, ProtocolError

_DESCRIPTION = 240  # characters of a description that are kept: it is for a list of columns
_SENTENCE = re.compile(r"(.+?[.!?])(?=\s|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Definition:
    """A CustomResourceDefinition.

    Attributes:
        name: `plural.group`.
        document: its essence, see `essence`; {} where nothing of it may be known.
    """

    name: str
    uid: str
    generation: int
    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ClusterType:
    """A type as one cluster has it: the version that is mirrored and its definition.

    Attributes:
        identity: uid and generation of the definition, None where it has none (an aggregated API), or none
            that may be seen.
        document: the definition's essence, where it was asked for.
    """

    cluster: str
    version: str
    identity: tuple[str, int] | None = None
    document: Mapping[str, Any] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class SelectedType:
    """A type that some stream selects, in the clusters that have such a stream."""

    group: str
    resource: str
    kind: str
    clusters: tuple[ClusterType, ...]

    @property
    def subject(self) -> str:
        """As `syncd_views.subject` names it."""
        return f"{self.group}/{self.resource}"


def definition(body: bytes) -> Definition:
    """A definition from the document that the API serves.

    Raises:
        ProtocolError: it is none.
    """
    try:
        document = msgspec.json.decode(body)
        metadata, spec = document["metadata"], document["spec"]
        name, uid = str(metadata["name"]), str(metadata["uid"])
        return Definition(name, uid, int(metadata.get("generation") or 0), essence(name, spec))
    except (*UNDECODABLE, LookupError, TypeError, AttributeError, ValueError) as error:
        raise ProtocolError(f"not a CustomResourceDefinition: {error!r}") from error


def essence(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Group, names, scope, and of each served version the printer columns and the schema of what is directly
    in `spec` and `status`: a few KB, where a whole definition may have a megabyte.
    """
    names = child(spec, "names")
    kept = {key: text(names[key]) for key in ("plural", "singular", "kind") if key in names}
    return {
        "metadata": {"name": text(name)},
        "spec": {
            "group": text(spec["group"]),
            "scope": text(spec.get("scope")),
            "names": kept,
            "versions": [
                _version(version)
                for version in items(spec, "versions")
                if version.get("served") and version.get("name")
            ],
        },
    }


def _version(version: Mapping[str, Any]) -> dict[str, Any]:
    properties = child(child(child(version, "schema"), "openAPIV3Schema"), "properties")
    parts = {
        part: {
            "properties": {
                text(name): _property(child(inner, name))
                for inner in (child(child(properties, part), "properties"),)
                for name in inner
            }
        }
        for part in ("spec", "status")
        if part in properties
    }
    return {
        "name": text(version["name"]),
        "served": True,
        "storage": bool(version.get("storage")),
        "additionalPrinterColumns": [
            {
                "name": text(column.get("name")),
                "type": text(column.get("type")),
                "jsonPath": text(column.get("jsonPath")),
                **({"description": said} if (said := sentence(column.get("description"))) else {}),
            }
            for column in items(version, "additionalPrinterColumns")
        ],
        "schema": {"openAPIV3Schema": {"properties": parts}},
    }


def _property(schema: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {key: text(schema[key]) for key in ("type", "format") if schema.get(key)}
    if schema.get("x-kubernetes-int-or-string"):
        kept["x-kubernetes-int-or-string"] = True
    said = sentence(schema.get("description"))
    return kept | ({"description": said} if said else {})


def child(parent: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A map in a map, {} where there is none."""
    found = parent.get(key)
    return found if isinstance(found, dict) else {}


def items(parent: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """The maps of a list in a map, none where there is none."""
    found = parent.get(key)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def text(value: object) -> str:
    """A string as both databases take it, '' for anything else."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) else ""


def sentence(value: object) -> str:
    """The first sentence of a description, on one line and not too long."""
    whole = " ".join(text(value).split())
    found = _SENTENCE.match(whole)
    first = found[1] if found else whole
    return first if len(first) <= _DESCRIPTION else first[: _DESCRIPTION - 3].rstrip() + "..."
