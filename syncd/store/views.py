"""Makes views, and keeps what users built on them: no dependent view and no grant is ever dropped.

The columns of a view are only appended to. One that is no longer wanted stays, NULL, and one that is wanted
with another type keeps its old one, until views are rebuilt. A relation that is not syncd's is left alone,
whatever its name; ours carry a mark. What is there is recorded in `syncd_views` and `syncd_view_columns`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import psycopg
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from syncd.core.errors import StoreUnavailable
from syncd.core.relation import Relation, RelationColumn, Relations, select
from syncd.store import comments
from syncd.store.engine import Engine
from syncd.store.errors import driver_error
from syncd.store.lease import database_now
from syncd.store.schema import view_columns, views

MARK = " (made by syncd)"
"""Ends the comment of every view that is ours; on SQLite, which has none, begins its text."""
_SQLITE_MARK = "/* made by syncd */"
FUNCTIONS = "(functions)"
"""The row of `syncd_views` that says which functions the views call."""
LOCK_TIMEOUT = "1s"
_LOCK = 0x76696577  # "view": one at a time in a database


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
class _Present:
    """A relation that is there."""

    ours: bool
    columns: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class _Known:
    """What the database has: relations by name, and the digests of ours as recorded."""

    present: dict[str, _Present] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is to be done."""

    functions: tuple[tuple[str, str], ...]
    function_digest: str
    changed: tuple[Relation, ...]
    removed: tuple[str, ...]
    rebuild: bool


async def apply(engine: Engine, wanted: Relations, *, rebuild: bool = False) -> list[Outcome]:
    """Brings the views to what is wanted; says what was done, nothing where nothing was to do.

    A view that cannot be had stops no other.

    Args:
        rebuild: make every view anew, with the wanted columns alone; one that something depends on stays.

    Raises:
        StoreUnavailable: the database is away.
    """
    async with engine.reading() as connection:
        known = await _known(connection, engine)
    await comments.keep(engine, wanted, known.digests.get(comments.NAME))
    plan = _plan(known, wanted, rebuild)
    if not plan.changed and not plan.removed and not plan.functions:
        return []
    return await (_Sqlite(engine, known) if engine.is_sqlite else _Postgresql(engine, known)).run(plan)


def _plan(known: _Known, wanted: Relations, rebuild: bool) -> _Plan:
    names = {FUNCTIONS, *(relation.name for relation in wanted.views)}
    same = known.digests.get(FUNCTIONS) == wanted.function_digest
    return _Plan(
        functions=() if same and not rebuild else wanted.functions,
        function_digest=wanted.function_digest,
        changed=tuple(one for one in wanted.views if rebuild or _outdated(known, one)),
        removed=tuple(name for name in known.digests if name not in names and name in known.present),
        rebuild=rebuild,
    )


def _outdated(known: _Known, relation: Relation) -> bool:
    present, digest = known.present.get(relation.name), known.digests.get(relation.name)
    if present is None:
        return True
    # One that is not ours is recorded once, without a digest.
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


async def _known(connection: AsyncConnection, engine: Engine) -> _Known:
    known = _Known()
    for name, digest in await connection.execute(sa.select(views.c.relation, views.c.digest)):
        known.digests[name] = digest
    if engine.is_sqlite:
        recorded: dict[str, list[tuple[str, str]]] = {}
        query = sa.select(view_columns.c.relation, view_columns.c.name, view_columns.c.type)
        for name, column, kind in await connection.execute(query.order_by(view_columns.c.place)):
            recorded.setdefault(name, []).append((column, kind))
        master = sa.text("SELECT name, coalesce(sql, '') FROM sqlite_master WHERE type IN ('table', 'view')")
        for name, text in await connection.execute(master):
            known.present[name] = _Present(_SQLITE_MARK in text, tuple(recorded.get(name, ())))
        return known
    for name, ours, names, types in await connection.execute(sa.text(_RELATIONS), {"mark": "%" + MARK}):
        known.present[name] = _Present(ours, tuple(zip(names, types, strict=True)))
    return known


_RELATIONS = """
SELECT c.relname, c.relkind = 'v' AND coalesce(obj_description(c.oid, 'pg_class') LIKE :mark, false),
  array_remove(array_agg(a.attname::text ORDER BY a.attnum), NULL),
  array_remove(array_agg(replace(format_type(a.atttypid, a.atttypmod), 'timestamp with time zone',
    'timestamptz') ORDER BY a.attnum), NULL)
FROM pg_class c
LEFT JOIN pg_attribute a ON c.relkind = 'v' AND a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'v', 'm', 'f', 'p', 'S')
GROUP BY c.oid, c.relname, c.relkind
"""


_Made = tuple[Relation, list[tuple[str, str, str]]]
"""A view and the columns that it got."""

RETIRED = "No longer there: always NULL, until the views are rebuilt."
_TAKEN = "another relation has this name"


async def _record(connection: AsyncConnection, engine: Engine, made: Sequence[_Made], note: str = "") -> None:
    """What is there now, or with a note, what is not and why."""
    if not made:
        return
    now = await database_now(connection, engine)
    await _forget(connection, [relation.name for relation, _ in made])
    rows: list[dict[str, Any]] = []
    for relation, columns in made:
        known = {column.name: column for column in relation.columns}
        for place, (name, kind, _) in enumerate(columns, 1):
            column = known.get(name)
            rows.append(
                {
                    "relation": relation.name,
                    "place": place,
                    "name": name,
                    "type": kind,
                    "description": column.description if column else RETIRED,
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


async def _forget(connection: AsyncConnection, names: Sequence[str]) -> None:
    for table in (view_columns, views):
        await connection.execute(table.delete().where(table.c.relation.in_(names)))


class _Sqlite:
    """All in one transaction: a view is text there, and nothing waits for it."""

    def __init__(self, engine: Engine, known: _Known) -> None:
        self._engine = engine
        self._known = known

    async def run(self, plan: _Plan) -> list[Outcome]:
        outcomes = [Outcome(name, Action.REMOVED) for name in plan.removed]
        made: list[_Made] = []
        async with self._engine.writing() as connection:
            for name in plan.removed:
                if self._known.present[name].ours:
                    await connection.exec_driver_sql(f'DROP VIEW IF EXISTS "{name}"')
            await _forget(connection, plan.removed)
            taken: list[_Made] = []
            for relation in plan.changed:
                present = self._known.present.get(relation.name)
                if present is not None and not present.ours:
                    taken.append((relation, []))
                    continue
                columns = layout(relation, present.columns if present and not plan.rebuild else (), "sqlite")
                query = select(relation, [(name, value) for name, _, value in columns])
                await connection.exec_driver_sql(f'DROP VIEW IF EXISTS "{relation.name}"')
                await connection.exec_driver_sql(f'CREATE VIEW "{relation.name}" AS {_SQLITE_MARK} {query}')
                made.append((relation, columns))
                outcomes.append(Outcome(relation.name, Action.CHANGED if present else Action.MADE))
            await _record(connection, self._engine, made)
            await _record(connection, self._engine, taken, _TAKEN)
        return outcomes + [Outcome(relation.name, Action.SKIPPED, _TAKEN) for relation, _ in taken]


class _Postgresql:
    """New views in one transaction; one a view that is there already, so that a view that somebody holds
    keeps no other back.
    """

    def __init__(self, engine: Engine, known: _Known) -> None:
        self._engine = engine
        self._known = known

    async def run(self, plan: _Plan) -> list[Outcome]:
        new = [relation for relation in plan.changed if relation.name not in self._known.present]
        try:
            async with self._transaction() as connection:
                await self._functions(connection, plan)
                made = [(relation, await self._make(connection, relation)) for relation in new]
                await _record(connection, self._engine, made)
        except StoreUnavailable as error:
            note = _refusal(error)
            return [Outcome(relation.name, Action.SKIPPED, note) for relation in plan.changed]
        outcomes = [Outcome(relation.name, Action.MADE) for relation in new]
        old = [relation for relation in plan.changed if relation.name in self._known.present]
        outcomes += [await self._change(relation, plan.rebuild) for relation in old]
        return outcomes + [await self._remove(name) for name in plan.removed]

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[AsyncConnection]:
        async with self._engine.writing() as connection:
            await connection.execute(sa.text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'"))
            await connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
            yield connection

    async def _functions(self, connection: AsyncConnection, plan: _Plan) -> None:
        if not plan.functions:
            return
        for _, text in plan.functions:
            await _execute(connection, text)
        stands_for = Relation(FUNCTIONS, "The functions that the views call.", (), plan.function_digest)
        await _record(connection, self._engine, [(stands_for, [])])
        values = {"digest": plan.function_digest}
        await connection.execute(views.update().where(views.c.relation == FUNCTIONS).values(values))

    async def _make(
        self, connection: AsyncConnection, relation: Relation, present: Sequence[tuple[str, str]] = ()
    ) -> list[tuple[str, str, str]]:
        columns = layout(relation, present, "postgresql")
        query = select(relation, [(name, value) for name, _, value in columns])
        known = {column.name: column.description for column in relation.columns}
        name = f'"{relation.name}"'
        comments = [f"COMMENT ON VIEW {name} IS {_quoted(relation.description + MARK)}"] + [
            f'COMMENT ON COLUMN {name}."{column}" IS {_quoted(known.get(column, RETIRED))}'
            for column, _, _ in columns
        ]
        await _execute(connection, ";\n".join([f"CREATE OR REPLACE VIEW {name} AS {query}", *comments]))
        return columns

    async def _change(self, relation: Relation, rebuild: bool) -> Outcome:
        present = self._known.present[relation.name]
        try:
            async with self._transaction() as connection:
                if not present.ours:
                    await _record(connection, self._engine, [(relation, [])], _TAKEN)
                    return Outcome(relation.name, Action.SKIPPED, _TAKEN)
                grants = await self._drop(connection, relation.name) if rebuild else []
                columns = await self._make(connection, relation, () if rebuild else present.columns)
                for grant in grants:
                    await _execute(connection, grant)
                await _record(connection, self._engine, [(relation, columns)])
        except StoreUnavailable as error:
            return Outcome(relation.name, _meaning(error), _refusal(error))
        return Outcome(relation.name, Action.CHANGED)

    async def _remove(self, name: str) -> Outcome:
        try:
            async with self._transaction() as connection:
                if self._known.present[name].ours:
                    await _execute(connection, f'DROP VIEW "{name}"')
                await _forget(connection, [name])
        except StoreUnavailable as error:
            return Outcome(name, _meaning(error), _refusal(error))
        return Outcome(name, Action.REMOVED)

    async def _drop(self, connection: AsyncConnection, name: str) -> list[str]:
        """Drops a view on which nothing depends; the statements that give its grants back."""
        grants = [text for (text,) in await connection.execute(sa.text(_GRANTS), {"name": f'"{name}"'})]
        await _execute(connection, f'DROP VIEW "{name}"')
        return grants


_GRANTS = """
SELECT format('GRANT %s ON %s TO %s%s', acl.privilege_type, c.oid::regclass,
  CASE acl.grantee WHEN 0 THEN 'PUBLIC' ELSE acl.grantee::regrole::text END,
  CASE WHEN acl.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
FROM pg_class c, aclexplode(c.relacl) AS acl
WHERE c.oid = to_regclass(:name) AND acl.grantee <> c.relowner
"""


async def _execute(connection: AsyncConnection, text: str) -> None:
    """As it stands: no parameter is looked for in it."""
    raw: Any = (await connection.get_raw_connection()).driver_connection
    await raw.execute(text)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _cause(error: StoreUnavailable) -> psycopg.Error:
    """What the server said. Where it said nothing the database is away, and the error goes on."""
    cause = driver_error(error.__cause__) if error.__cause__ is not None else None
    if not isinstance(cause, psycopg.Error) or cause.sqlstate is None or cause.sqlstate[:2] in ("08", "57"):
        raise error
    return cause


def _meaning(error: StoreUnavailable) -> Action:
    state = _cause(error).sqlstate
    if state == "55P03":  # lock_not_available
        return Action.WAITING
    return Action.KEPT if state == "2BP01" else Action.SKIPPED  # dependent_objects_still_exist


def _refusal(error: StoreUnavailable) -> str:
    diagnosis = _cause(error).diag
    return diagnosis.message_detail or diagnosis.message_primary or ""
