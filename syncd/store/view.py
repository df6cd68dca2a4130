"""What a database has of the views and what it shall have: values, the plan from one to the other, and what
is written down of it in `syncd_views` and `syncd_view_columns`. It makes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from syncd.core.relation import Relation, RelationColumn, Relations
from syncd.store.engine import Engine
from syncd.store.lease import database_now
from syncd.store.schema import view_columns, views

MARK = " (made by syncd)"
"""Ends the comment of every view that is ours; on SQLite, which has none, begins its text."""
FUNCTIONS = "(functions)"
"""The row of `syncd_views` that says which functions the views call."""
SOME = 50
"""Views that are made in one transaction: nobody shall wait long for it, and its locks have a bound."""
RETIRED = "No longer there: always NULL, until the views are rebuilt."
TAKEN = "another relation has this name"
_KEPT = "kept"  # in place of a digest: what comes back under the name is to be made anew


class Action(StrEnum):
    """What became of a view."""

    MADE = "made"
    CHANGED = "changed"
    REMOVED = "removed"
    WAITING = "waiting"  # somebody holds a lock on it: to be tried again
    SKIPPED = "skipped"  # not ours, or not allowed
    KEPT = "kept"  # no longer wanted, but something is built on it


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one view, and why where it is not as wanted."""

    name: str
    action: Action
    note: str = ""


@dataclass(frozen=True, slots=True)
class Present:
    """A relation that is there. `columns`: (name, type) of one that is ours and changes."""

    ours: bool
    columns: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class Known:
    """What the database has.

    Attributes:
        present: relations by name.
        digests: of ours, as written down.
        texts: SQLite: of the views that go, and of all views and triggers that are not ours.
    """

    present: dict[str, Present] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done."""

    functions: tuple[tuple[str, str], ...]
    function_digest: str
    changed: tuple[Relation, ...]
    removed: tuple[str, ...]
    rebuild: bool

    def __bool__(self) -> bool:
        return bool(self.changed or self.removed or self.functions)


def plan(known: Known, wanted: Relations, *, rebuild: bool) -> Plan:
    """From what is there to what is wanted."""
    names = wanted.standing | {relation.name for relation in wanted.views}
    same = known.digests.get(FUNCTIONS) == wanted.function_digest
    return Plan(
        functions=() if same and not rebuild else wanted.functions,
        function_digest=wanted.function_digest,
        changed=tuple(one for one in wanted.views if rebuild or _outdated(known, one)),
        removed=tuple(name for name in known.digests if name not in names and not name.startswith("(")),
        rebuild=rebuild,
    )


def _outdated(known: Known, relation: Relation) -> bool:
    present, digest = known.present.get(relation.name), known.digests.get(relation.name)
    if present is None:
        return True
    # One that is not ours is written down once, without a digest.
    return digest != relation.digest if present.ours else digest != ""


def layout(
    relation: Relation, present: Sequence[tuple[str, str]], dialect: str
) -> list[tuple[str, str, str]]:
    """The columns that a view gets over the one that is there, as (name, type, SQL): those that it has, in
    their order and types, then the new ones.
    """
    wanted = {column.name: column for column in relation.columns}
    columns: list[tuple[str, str, str]] = []
    for name, kind in present:
        column = wanted.pop(name, None)
        if column is None:
            columns.append((name, kind, "NULL" if dialect == "sqlite" else f"NULL::{kind}"))
        elif dialect == "sqlite" or column.type == kind:
            columns.append((name, column.type, _typed(column, dialect)))
        else:
            columns.append((name, kind, _as(column.value, kind)))
    columns += [(column.name, column.type, _typed(column, dialect)) for column in wanted.values()]
    return columns


def _typed(column: RelationColumn, dialect: str) -> str:
    """On PostgreSQL of its type, whatever the expression's is: it cannot be changed later."""
    return column.value if dialect == "sqlite" else f"({column.value})::{column.type}"


def _as(value: str, kind: str) -> str:
    """A value in the type that its column has already, NULL where it does not fit."""
    text = f"({value})::text"
    match kind:
        case "text":
            return text
        case "jsonb":
            return f"to_jsonb({value})"
        case "bigint":
            return f"CASE WHEN {text} ~ '^-?[0-9]{{1,18}}$' THEN {text}::bigint END"
        case "double precision":
            pattern = "^-?[0-9]{1,300}([.][0-9]+)?$"
            return f"CASE WHEN {text} ~ '{pattern}' THEN {text}::double precision END"
        case "boolean":
            return f"CASE {text} WHEN 'true' THEN true WHEN 'false' THEN false END"
        case "timestamptz":
            return f"syncd_time({text})"
    return f"NULL::{kind}"


def told(relation: Relation, columns: Sequence[tuple[str, str, str]]) -> list[str]:
    """What is said of each column that a view got."""
    known = {column.name: column for column in relation.columns}
    said: list[str] = []
    for name, kind, _ in columns:
        column = known.get(name)
        if column is None:
            said.append(RETIRED)
        elif column.type != kind:
            said.append(f"{column.description} Still {kind}, NULL where that does not fit: {_STILL}")
        else:
            said.append(column.description)
    return said


_STILL = "the views are to be rebuilt for another type."

Made = tuple[Relation, list[tuple[str, str, str]]]
"""A view and the columns that it got."""


async def record(connection: AsyncConnection, engine: Engine, made: Sequence[Made], note: str = "") -> None:
    """Writes down what is there now, or with a note, what is not and why."""
    if not made:
        return
    now = await database_now(connection, engine)
    await forget(connection, [relation.name for relation, _ in made])
    rows: list[dict[str, Any]] = []
    for relation, columns in made:
        known = {column.name: column for column in relation.columns}
        for place, ((name, kind, _), said) in enumerate(
            zip(columns, told(relation, columns), strict=True), 1
        ):
            column = known.get(name)
            rows.append(
                {
                    "relation": relation.name,
                    "place": place,
                    "name": name,
                    "type": kind,
                    "description": said,
                    "origin": column.origin if column else "",
                }
            )
    await connection.execute(
        views.insert(),
        [
            {
                "relation": relation.name,
                "subject": relation.subject,
                "short": relation.short,
                "description": relation.description,
                "digest": "" if note else relation.digest,
                "note": note,
                "applied_at": now,
            }
            for relation, _ in made
        ],
    )
    if rows:
        await connection.execute(view_columns.insert(), rows)


async def forget(connection: AsyncConnection, names: Sequence[str]) -> None:
    """Nothing is said of these any more."""
    for table in (view_columns, views):
        await connection.execute(table.delete().where(table.c.relation.in_(names)))


async def note_kept(connection: AsyncConnection, name: str, why: str) -> None:
    """Writes down that a view stays, and shows nothing, for the sake of what is built on it."""
    note = f"nothing is shown here any more; it stays for what is built on it: {why}"
    await connection.execute(
        views.update().where(views.c.relation == name, views.c.note != note).values(note=note, digest=_KEPT)
    )
