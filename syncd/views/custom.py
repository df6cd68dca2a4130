"""Views of types that no catalogue knows: custom resources, and what aggregated APIs serve.

One view serves all clusters. Its columns come from their definitions: first what every view begins with, then
the printer columns, then what is directly in `spec` and `status`, then what every view ends with. No schema
vouches for what is stored: a value of another type than its column's is NULL.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from types import MappingProxyType
from typing import Any

from syncd.core.definition import SelectedType, child, items
from syncd.core.relation import NAME_BYTES, Relation, relation_name
from syncd.views.expression import (
    NONE,
    Case,
    Expression,
    Field,
    Literal,
    Path,
    Ref,
    Type,
    among,
)
from syncd.views.jsonpath import expression, plain
from syncd.views.kinds import CATALOGUE
from syncd.views.printed import cell
from syncd.views.rendering import relation, shortened
from syncd.views.view import AGE, IDENTITY, TRAILING, Cell, Column, Member, View

_PRINTED = {
    "integer": Type.INTEGER,
    "number": Type.NUMBER,
    "boolean": Type.BOOLEAN,
    "date": Type.TIME,
}
"""Printer columns' types; any other is text."""
_SCALARS = {"integer": Type.INTEGER, "number": Type.NUMBER, "boolean": Type.BOOLEAN, "string": Type.TEXT}
_FIXED = frozenset(column.name for column in (*IDENTITY, *TRAILING))
_RIVALS = 3  # that may want one name: a printer column, spec's and status's
_UNSAID = "This path cannot be said in SQL: always NULL."
_WORDS = re.compile(
    r"(?<=[a-z0-9])(?=[A-Z])"  # dnsNames
    r"|(?<=[A-Z])(?=[A-Z](?!s(?![a-z]))[a-z])"  # IPFamily: an acronym is a word, podCIDRs has one with an s
)


@dataclass(frozen=True, slots=True)
class Names:
    """What a type's views are called; `short` is '' where that name is another's."""

    long: str
    short: str = ""

    def __iter__(self) -> Iterator[str]:
        return iter((self.long, self.short) if self.short else (self.long,))


def rendered(
    type_: SelectedType, names: Names, dialect: str, origins: Mapping[str, str] = MappingProxyType({})
) -> tuple[Relation, ...]:
    """A type's views.

    Args:
        origins: of the columns of the view that is there, where in the document they come from.
    """
    columns = _columns(type_, origins)
    made = relation(_view(type_, columns), dialect)
    said = {column.name: column.origin for column in columns}
    told = (replace(column, origin=said.get(column.name, column.origin)) for column in made.columns)
    long = replace(made, name=names.long, columns=tuple(told), agreeing=True)
    return (long, shortened(long, names.short, dialect)) if names.short else (long,)


def view(type_: SelectedType, origins: Mapping[str, str] = MappingProxyType({})) -> View:
    """One type's view, as data: what kubectl prints of it is in there too."""
    return _view(type_, _columns(type_, origins))


def _view(type_: SelectedType, columns: Sequence[_Column]) -> View:
    documents = [one.document for one in type_.clusters if one.document]
    scope = documents[0]["spec"].get("scope") if documents else ""
    return View(
        type_.resource,
        (type_.group,),
        type_.kind,
        f"{type_.kind}, of {type_.group or 'the core group'}.",
        tuple(_members(columns)),
        namespaced=scope != "Cluster",
    )


def custom(types: Iterable[SelectedType]) -> list[SelectedType]:
    """Those that no catalogue knows."""
    known = {(group, each.resource) for each in CATALOGUE for group in each.groups}
    return [one for one in types if (one.group, one.resource) not in known]


# --- names ----------------------------------------------------------------------------------------


def named(
    types: Sequence[SelectedType], taken: Collection[str], shown: Mapping[str, str]
) -> dict[str, Names]:
    """By `subject`: who has a name keeps it as long as it is selected, then the first by plural and group has
    it. What shows a type that is gone keeps its name until it has gone too: something may be built on it.

    Args:
        taken: names of relations that are no custom type's.
        shown: what each view that is there shows, by its name.
    """
    owner = {**shown, **dict.fromkeys(taken, "")}
    ordered = sorted(types, key=lambda one: (one.resource, one.group))
    found: dict[str, Names] = {}
    for one in ordered:
        name = relation_name(one.resource, one.group or "core")
        if owner.get(name, one.subject) != one.subject:
            digest = hashlib.sha256(f"{one.resource}.{one.group}".encode()).hexdigest()[:8]
            name = f"{name[: NAME_BYTES - 9]}_{digest}"
        found[one.subject] = Names(name)
        owner[name] = one.subject
    for one in ordered:
        names, short = found[one.subject], relation_name(one.resource)
        if owner.setdefault(short, one.subject) == one.subject and short != names.long:
            found[one.subject] = Names(names.long, short)
    return found


def snake(name: str) -> str:
    """A property's or a heading's name as a column's: dnsNames is dns_names, IPFamily ip_family."""
    words = re.sub(r"[^A-Za-z0-9]+", "_", _WORDS.sub("_", name.strip())).lower()
    return words.strip("_")


# --- columns --------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Source:
    """Where one column's values come from, over all clusters.

    Attributes:
        part: printed, spec or status.
        places: in each cluster the path and the type.
    """

    part: str
    key: str
    description: str
    places: dict[str, tuple[str, Type]] = field(default_factory=dict)

    @property
    def names(self) -> Iterator[str]:
        """What its column may be called, best first, without an end."""
        name = relation_name(snake(self.key) or self.part)
        if not name[0].isalpha():
            name = relation_name(self.part, name)
        if name not in _FIXED:
            yield name
        while True:
            name = relation_name(self.part, name)
            yield name

    @property
    def origin(self) -> str:
        """In the first cluster that has it."""
        path, _ = next(iter(self.places.values()))
        return path.removeprefix("$").removeprefix(".")

    @property
    def type(self) -> Type:
        """Text, where clusters do not agree."""
        types = {kind for _, kind in self.places.values()}
        return types.pop() if len(types) == 1 else Type.TEXT


@dataclass(frozen=True, slots=True)
class _Column:
    """One column, and what kubectl prints over it, '' for nothing."""

    name: str
    type: Type
    value: Expression
    description: str
    origin: str
    heading: str
    printed: Expression


def _members(columns: Iterable[_Column]) -> Iterator[Member]:
    printed = False
    for column in columns:
        yield Column(column.name, column.type, column.value, column.description)
        if column.heading:
            printed = True
            yield _cell(column)
    if not printed:
        yield AGE


def _cell(column: _Column) -> Cell:
    return Cell(column.heading, column.printed, relative=column.type is Type.TIME)


def _columns(type_: SelectedType, origins: Mapping[str, str]) -> list[_Column]:
    """A column of the view that is there goes on to mean what it meant: what comes later and would have its
    name gets another.
    """
    sources = _sources(type_)
    names: dict[int, str] = {}
    for place, source in enumerate(sources):
        for name in islice(source.names, _RIVALS):
            if origins.get(name) == source.origin and name not in names.values():
                names[place] = name
                break
    taken = {*_FIXED, *names.values()}
    for place, source in enumerate(sources):
        if place not in names:
            names[place] = next(name for name in source.names if name not in taken)
            taken.add(names[place])
    return [_column(source, names[place]) for place, source in enumerate(sources)]


def _sources(type_: SelectedType) -> list[_Source]:
    """Printed ones first, then spec's, then status's; in the order of the first cluster that has each."""
    found: dict[tuple[str, str], _Source] = {}
    for part in ("printed", "spec", "status"):
        for one in type_.clusters:
            version = _version(one.document or {}, one.version)
            described = _printer_columns(version) if part == "printed" else _properties(version, part)
            for key, path, kind, description in described:
                source = found.setdefault((part, key), _Source(part, key, description))
                source.places.setdefault(one.cluster, (path, kind))
    return list(found.values())


def _version(document: Mapping[str, Any], mirrored: str) -> Mapping[str, Any]:
    """The version in which the objects are stored here, else the one in which the cluster stores them."""
    versions = items(child(document, "spec"), "versions")
    by_name = {version["name"]: version for version in versions}
    stored = (version for version in versions if version.get("storage"))
    return by_name.get(mirrored) or next(stored, versions[-1] if versions else {})


_Described = Iterator[tuple[str, str, Type, str]]
"""Key, path, type and description."""


def _printer_columns(version: Mapping[str, Any]) -> _Described:
    for column in items(version, "additionalPrinterColumns"):
        path = column.get("jsonPath", "")
        said = column.get("description") or f"What kubectl prints as {column['name']}."
        yield column["name"], path, _PRINTED.get(column.get("type", ""), Type.TEXT), said


def _properties(version: Mapping[str, Any], part: str) -> _Described:
    schema = child(child(version, "schema"), "openAPIV3Schema")
    properties = child(child(child(schema, "properties"), part), "properties")
    for key in sorted(properties):
        schema = child(properties, key)
        kind = _SCALARS.get(schema.get("type", ""), Type.JSON)
        if kind is Type.TEXT and schema.get("format") == "date-time":
            kind = Type.TIME
        if schema.get("x-kubernetes-int-or-string"):
            kind = Type.TEXT
        yield key, f"{part}.{key}", kind, schema.get("description") or f"`{part}.{key}` of its schema."


def _column(source: _Source, name: str) -> _Column:
    kind = source.type
    paths: dict[str, list[str]] = {}
    for cluster, (path, _) in source.places.items():
        paths.setdefault(path, []).append(cluster)
    agreed = len({one for _, one in source.places.values()}) == 1
    values = {path: _value(source, path, kind, agreed=agreed) for path in paths}
    description = source.description
    if None in values.values():
        description = f"{description} {_UNSAID}"
    if not agreed:
        description = f"{description} Text, because clusters have different types."
    heading = source.key if source.part == "printed" else ""
    printed = {path: cell(path, Ref(name, kind)) if heading else NONE for path in paths}
    return _Column(
        name,
        kind,
        _by_cluster(paths, values, kind),
        description,
        source.origin,
        heading,
        _by_cluster(paths, printed, Type.TEXT),
    )


def _by_cluster(
    paths: Mapping[str, Sequence[str]], values: Mapping[str, Expression | None], kind: Type
) -> Expression:
    """The value at the path that a cluster has."""
    first, *others = paths
    value = values[first] or Literal(None, kind)
    if not others:
        return value
    branches = tuple(
        (among(Field("cluster"), *paths[path]), values[path] or Literal(None, kind)) for path in others
    )
    return Case(branches, value, kind)


def _value(source: _Source, path: str, kind: Type, *, agreed: bool) -> Expression | None:
    if source.part == "printed":
        return expression(path, kind)
    if '"' in source.key or "\\" in source.key:
        return None
    keys = (source.part, source.key)
    return Path(keys, kind, loose=True) if agreed else plain(Path(keys, Type.JSON, loose=True))
