"""Tables of custom resources, from the documents of their CustomResourceDefinitions.

One table for each definition's name, over all clusters: its columns are the union of theirs. A view that is
there already keeps its columns, order and types, whatever its schema says now: new ones come at its end,
values that do not fit, and columns that are gone, are NULL.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from syncd.views.steampipe.rendering import view
from syncd.views.steampipe.table import (
    ANNOTATIONS,
    CONNECTION,
    CONTEXT_NAME,
    CREATION_TIMESTAMP,
    LABELS,
    MANIFEST,
    NAME,
    NAMESPACE,
    SOURCE_TYPE,
    UID,
    Column,
    Table,
    tables,
)

NAME_BYTES = 63  # PostgreSQL's

FIXED = (
    NAME,
    UID,
    Column("kind", "text", row="kind"),
    Column("api_version", "text", ("apiVersion",)),
    NAMESPACE,
    CREATION_TIMESTAMP,
    LABELS,
    CONTEXT_NAME,
    SOURCE_TYPE,
    ANNOTATIONS,
    *MANIFEST,
    *CONNECTION,
)
"""What every custom resource's table begins with."""

_TYPES = {
    "string": "text",
    "integer": "bigint",
    "boolean": "boolean",
    "date": "timestamptz",
    "dateTime": "timestamptz",
    "double": "double precision",
}
_SHOWN = {"timestamp with time zone": "timestamptz"}
_ABOUT = "Custom resources of {}, under the names of Steampipe's Kubernetes plugin."
_ABOUT_PATTERN = re.compile(re.escape(_ABOUT).replace(r"\{\}", r"(\S+)") + r"\Z")


@dataclass(frozen=True, slots=True)
class Present:
    """A view that is there already. Columns are (name, type) in their order, as PostgreSQL shows them."""

    about: str
    columns: tuple[tuple[str, str], ...]

    @property
    def definition(self) -> str:
        """The CustomResourceDefinition that it was made for, '' where it was made for none."""
        match = _ABOUT_PATTERN.match(self.about)
        return match[1] if match else ""


def custom_resource(
    objects_schema: str, documents: Iterable[Mapping[str, Any]], present: Mapping[str, Present]
) -> dict[str, list[str]]:
    """The statements for the view of each custom resource's table, by its name.

    Args:
        documents: CustomResourceDefinitions, of every cluster.
        present: the schema's views, by name.
    """
    return {
        table.name: view(table, objects_schema, _ABOUT.format(definition))
        for table, definition in custom_tables(documents, present)
    }


def retired(documents: Iterable[Mapping[str, Any]], present: Mapping[str, Present]) -> list[str]:
    """The views of definitions that are gone, by name."""
    wanted = {table.name for table, _ in custom_tables(documents, present)}
    return [name for name, there in present.items() if there.definition and name not in wanted]


def custom_tables(
    documents: Iterable[Mapping[str, Any]], present: Mapping[str, Present]
) -> Iterator[tuple[Table, str]]:
    """Each table with the name of its definition; by that name, the first keeps the short one."""
    names = _Names(present)
    ordered = sorted(filter(_usable, documents), key=_name)
    by_name = {name: list(group) for name, group in groupby(ordered, key=_name)}
    for name in by_name:
        names.expect(name)
    for name, group in by_name.items():
        spec = group[0]["spec"]
        singular = spec["names"].get("singular") or spec["names"]["kind"].lower()
        columns = (*FIXED, *_columns(group))
        for table_name in names.given(name, singular, spec["group"]):
            there = present.get(table_name)
            merged = columns if there is None else _kept(there, columns)
            yield Table(table_name, spec["group"], spec["names"]["kind"], merged), name


class _Names:
    """Which definition has which name: a built-in's is taken; who has one keeps it while it is defined."""

    def __init__(self, present: Mapping[str, Present]) -> None:
        self._holders = {name: there.definition for name, there in present.items() if there.definition}
        self._taken = {table.name: "" for table in tables()}
        self._defined: set[str] = set()

    def expect(self, definition: str) -> None:
        self._defined.add(definition)

    def given(self, definition: str, singular: str, group: str) -> Iterator[str]:
        long = f"kubernetes_{singular}_{re.sub('[-.]', '_', group)}"
        for name in map(_fitting, (f"kubernetes_{singular}", long)):
            holder = self._holders.get(name)
            if name in self._taken or (holder in self._defined and holder != definition):
                continue
            self._taken[name] = definition
            yield name


def _usable(document: Mapping[str, Any]) -> bool:
    spec = document.get("spec") or {}
    return bool(_name(document) and spec.get("group") and (spec.get("names") or {}).get("kind"))


def _name(document: Mapping[str, Any]) -> str:
    return str(document["metadata"]["name"])


def _columns(documents: Sequence[Mapping[str, Any]]) -> Iterator[Column]:
    """The properties of all clusters' specs, then those of their statuses; a name that is taken gets `spec_`
    or `status_`. One that has two types is text.
    """
    schemas = [_schema(document) for document in documents]
    taken = {column.name for column in FIXED}
    for part in ("spec", "status"):
        types: dict[str, set[str]] = {}
        for properties in (_child(_child(schema, part), "properties") for schema in schemas):
            for key in properties:
                type_ = _TYPES.get(str(_child(properties, key).get("type")), "jsonb")
                types.setdefault(key, set()).add(type_)
        for key in sorted(types):
            name = _fitting(snake(key))
            while name in taken:
                name = _fitting(f"{part}_{name}")
            taken.add(name)
            yield Column(name, "text" if len(types[key]) > 1 else types[key].pop(), (part, key), "custom")


def _schema(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the last version that is served has in it."""
    served = [version for version in document["spec"].get("versions") or () if version.get("served")]
    if not served:
        return {}
    return _child(_child(_child(served[-1], "schema"), "openAPIV3Schema"), "properties")


def _child(parent: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A map in a map, {} where there is none."""
    found = parent.get(key)
    return found if isinstance(found, dict) else {}


def _kept(there: Present, columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """The columns that a view has, as they are, then what is new."""
    wanted = {column.name: column for column in columns}
    kept: list[Column] = []
    for name, shown in there.columns:
        type_ = _SHOWN.get(shown, shown)
        column = wanted.pop(name, Column(name, type_))
        kept.append(column if column.type == type_ else replace(column, type=type_))
    return (*kept, *wanted.values())


def _fitting(name: str) -> str:
    """A name that PostgreSQL does not cut: of a longer one the end is a hash."""
    encoded = name.encode()
    if len(encoded) <= NAME_BYTES:
        return name
    return encoded[:54].decode(errors="ignore") + "_" + hashlib.sha256(encoded).hexdigest()[:8]


_WORDS = re.compile(
    r"(?<=[a-z])(?=[A-Z0-9])"  # dnsNames, port8
    r"|(?<=[0-9])(?=[A-Za-z])"  # 8port
    r"|(?<=[A-Z])(?=[A-Z][a-z]|[0-9])"  # IPFamily: an acronym is a word
)


def snake(name: str) -> str:
    """A property's name as a column's: dnsNames is dns_names, IPFamily ip_family, sha256sum sha_256_sum."""
    return re.sub(r"[ .-]", "_", _WORDS.sub("_", name.strip())).lower()
