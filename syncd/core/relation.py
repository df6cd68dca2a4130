"""What a view is to the database that makes it: a name, columns, a query. No expression, no dialect."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

NAME_BYTES = 63
"""The longest name that PostgreSQL keeps whole."""


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """One column.

    Attributes:
        type: PostgreSQL's name of it, on SQLite too: what users are told.
        value: the SQL of its value over the row that `Relation.source` names.
        origin: where in the document it comes from, '' for what is computed or of the row.
    """

    name: str
    type: str
    value: str
    description: str
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Relation:
    """One view: `SELECT columns source`.

    Attributes:
        source: the query from FROM on.
        subject: `api_group/resource` of the objects that it shows, '' where it shows several.
        short: whether it is a short name, which another resource's view may want too.
        agreeing: a column that becomes text does so at once, where nothing is built on the view.
    """

    name: str
    description: str
    columns: tuple[RelationColumn, ...]
    source: str
    subject: str = ""
    short: bool = False
    agreeing: bool = False
    _digest: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def digest(self) -> str:
        """A hash of all of it, reckoned once."""
        if not self._digest:
            self._digest.append(hashlib.sha256(repr(self).encode()).hexdigest()[:32])
        return self._digest[0]


@dataclass(frozen=True, slots=True)
class DescribedColumn:
    """A column of a table, its type as PostgreSQL names it."""

    name: str
    type: str
    description: str


@dataclass(frozen=True, slots=True)
class Described:
    """A table of syncd's, for people."""

    name: str
    description: str
    columns: tuple[DescribedColumn, ...]


@dataclass(frozen=True, slots=True)
class Relations:
    """Everything that a database shall have: functions first (name → SQL, none on SQLite), then views, and
    what is said of the tables.

    Attributes:
        standing: names of further views, which are to stay as they are.
    """

    functions: tuple[tuple[str, str], ...]
    views: tuple[Relation, ...]
    tables: tuple[Described, ...] = ()
    standing: frozenset[str] = frozenset()

    @property
    def function_digest(self) -> str:
        return hashlib.sha256(repr(self.functions).encode()).hexdigest()[:32]

    @property
    def table_digest(self) -> str:
        return hashlib.sha256(repr(self.tables).encode()).hexdigest()[:32]


def relation_name(*parts: str) -> str:
    """The parts as one lower-case name; past 63 bytes its first 54, `_` and 8 hex digits of its hash."""
    name = re.sub(r"[^a-z0-9_]", "_", "_".join(parts).lower())
    if len(name) <= NAME_BYTES:
        return name
    return f"{name[:54]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def select(relation: Relation, columns: Sequence[tuple[str, str]] | None = None) -> str:
    """The query of a view; `columns` (name, SQL) instead of its own."""
    chosen = columns if columns is not None else [(one.name, one.value) for one in relation.columns]
    listed = ",\n  ".join(f'{value} AS "{name}"' for name, value in chosen)
    return f"SELECT\n  {listed}\n{relation.source}"
