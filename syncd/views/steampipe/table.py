"""Steampipe's tables as values: `tables.txt` read, and the columns that all tables share written once.

No SQL is made here: see `column.py` for expressions and `rendering.py` for statements.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        type: PostgreSQL's (text, bigint, boolean, jsonb, timestamptz, inet, cidr, …), or label_set.
        path: into the object; () where nothing is read.
        function: what derives the value from what is there, '' where it is taken as it is.
        absent: what stands for an absent value, None for NULL; an SQL literal, or JSON for a jsonb column.
        row: the column of the mirror's row that has the value already, '' where the object is read.
    """

    name: str
    type: str
    path: tuple[str, ...] = ()
    function: str = ""
    absent: str | None = None
    row: str = ""

    @property
    def source(self) -> str:
        """Where the value comes from, for people; '' where it is always NULL."""
        place = self.row or ".".join(self.path)
        return f"{self.function}({place})" if self.function else place


@dataclass(frozen=True, slots=True)
class Table:
    """One table. `group` None: no object can be in it, an empty view; '' is the core group."""

    name: str
    group: str | None
    kind: str
    columns: tuple[Column, ...] = field(default=())


def _metadata(name: str, type_: str, key: str, absent: str | None = None) -> Column:
    return Column(name, type_, ("metadata", key), absent=absent)


NAME = Column("name", "text", row="name")
NAMESPACE = Column("namespace", "text", row="namespace")
UID = Column("uid", "text", row="uid")
CONTEXT_NAME = Column("context_name", "text", row="cluster")
SOURCE_TYPE = Column("source_type", "text", function="deployed")
TITLE = Column("title", "text", row="name")
TAGS = Column("tags", "jsonb", function="tags")
CREATION_TIMESTAMP = Column("creation_timestamp", "timestamptz", row="creation_timestamp")
LABELS = Column("labels", "jsonb", row="labels")
ANNOTATIONS = Column("annotations", "jsonb", row="annotations")

MANIFEST = (Column("path", "text"), Column("start_line", "bigint"), Column("end_line", "bigint"))
"""Where a manifest file says it; the mirror has live objects alone."""

CONNECTION = (
    Column("sp_connection_name", "text", row="cluster"),
    Column("sp_ctx", "jsonb", function="context"),
    Column("_ctx", "jsonb", function="context"),
)
METADATA = (
    _metadata("generate_name", "text", "generateName", "''"),
    Column("resource_version", "text", row="resource_version"),
    Column("generation", "bigint", row="generation", absent="0"),
    CREATION_TIMESTAMP,
    Column("deletion_timestamp", "timestamptz", row="deletion_timestamp"),
    _metadata("deletion_grace_period_seconds", "bigint", "deletionGracePeriodSeconds"),
    LABELS,
    ANNOTATIONS,
    _metadata("owner_references", "jsonb", "ownerReferences"),
    _metadata("finalizers", "jsonb", "finalizers"),
    *MANIFEST,
)

_LINE = re.compile(r"(\S+)\s+(\S+)\s+(?:-|=(\w+)(?:\(([\w.]+)\))?|([\w.]+))(?:\s+(\S+))?\Z")


@cache
def tables() -> tuple[Table, ...]:
    """Every table, in the order of `tables.txt`."""
    text = files(__package__).joinpath("tables.txt").read_text(encoding="utf-8")
    return tuple(_table(block) for block in _blocks(text))


def _blocks(text: str) -> Iterator[list[str]]:
    block: list[str] = []
    for line in (*text.splitlines(), ""):
        if line and not line.startswith("#"):
            block.append(line)
        elif block:
            yield block
            block = []


def _table(lines: list[str]) -> Table:
    name, group, kind, *flags = lines[0].split()
    columns = tuple(_column(line) for line in lines[1:])
    if name.startswith("kubernetes_"):
        before = (NAME, NAMESPACE, UID) if "namespace" in flags else (NAME, UID)
        after = tuple(column for column in (TITLE, TAGS) if column.name in flags)
        columns = (*before, *columns, CONTEXT_NAME, SOURCE_TYPE, *after, *METADATA)
    where = None if group == "-" else "" if group == "core" else group
    return Table(name, where, "" if kind == "-" else kind, (*columns, *CONNECTION))


def _column(line: str) -> Column:
    match = _LINE.match(line.strip())
    if match is None:
        raise ValueError(f"tables.txt: not a column: {line!r}")
    name, type_, function, argument, plain, absent = match.groups()
    path = tuple((argument or plain or "").split(".")) if argument or plain else ()
    return Column(name, type_, path, function or "", absent)
