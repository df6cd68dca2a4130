"""PostgreSQL's views: nothing that somebody built on one is dropped, no grant is lost, and nobody is kept
waiting for a lock for longer than a second.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from syncd.core.errors import StoreUnavailable
from syncd.core.relation import Relation, select
from syncd.store.engine import Engine
from syncd.store.errors import driver_error
from syncd.store.grant import Grant, give, held, recall, remember
from syncd.store.schema import views
from syncd.store.view import (
    FUNCTIONS,
    MARK,
    SOME,
    TAKEN,
    Action,
    Known,
    Made,
    Outcome,
    Plan,
    forget,
    layout,
    note_kept,
    record,
    told,
)

LOCK_TIMEOUT = "1s"
_LOCK = 0x76696577  # "view": one at a time in a database
_HELD = "55P03"  # lock_not_available
_DEPENDED_ON = "2BP01"  # dependent_objects_still_exist
_FORBIDDEN = "42501"  # insufficient_privilege


class PostgresqlViews:
    """Carries out a plan: some new views in a transaction; one a view that is there already, so that a view
    that somebody holds keeps no other back.
    """

    def __init__(self, engine: Engine, known: Known) -> None:
        self._engine = engine
        self._known = known

    async def run(self, plan: Plan) -> list[Outcome]:
        """What was done."""
        try:
            await self._functions(plan)
        except StoreUnavailable as error:
            return [_failed(relation.name, error) for relation in plan.changed]
        new = [relation for relation in plan.changed if relation.name not in self._known.present]
        outcomes: list[Outcome] = []
        for begin in range(0, len(new), SOME):
            outcomes += await self._several(new[begin : begin + SOME])
        for relation in plan.changed:
            if relation.name in self._known.present:
                outcomes.append(await self._change(relation, rebuild=plan.rebuild))
        return outcomes + [await self._remove(name) for name in plan.removed]

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[AsyncConnection]:
        async with self._engine.writing() as connection:
            await connection.execute(sa.text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'"))
            await connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
            yield connection

    async def _functions(self, plan: Plan) -> None:
        if not plan.functions:
            return
        async with self._transaction() as connection:
            for _, text in plan.functions:
                await _execute(connection, text)
            stands_for = Relation(FUNCTIONS, "The functions that the views call.", (), plan.function_digest)
            await record(connection, self._engine, [(stands_for, [])])
            values = {"digest": plan.function_digest}
            await connection.execute(views.update().where(views.c.relation == FUNCTIONS).values(values))

    async def _several(self, relations: Sequence[Relation]) -> list[Outcome]:
        """New ones: together, or where one of them cannot be had, each by itself."""
        try:
            async with self._transaction() as connection:
                made = [(relation, await self._make(connection, relation)) for relation in relations]
                await self._grant(connection, made)
                await record(connection, self._engine, made)
        except StoreUnavailable as error:
            if _cause(error).sqlstate in (_HELD, _FORBIDDEN):
                return [_failed(relation.name, error) for relation in relations]
            if len(relations) > 1:
                return [one for relation in relations for one in await self._several([relation])]
            failed = _failed(relations[0].name, error)
            async with self._transaction() as connection:
                await record(connection, self._engine, [(relations[0], [])], failed.note)
            return [failed]
        return [Outcome(relation.name, Action.MADE) for relation in relations]

    async def _grant(self, connection: AsyncConnection, made: Sequence[Made]) -> None:
        """What was granted on views of these names before they went."""
        for relation, columns in made:
            if grants := await recall(connection, relation.name):
                await give(connection, relation.name, grants, {name for name, _, _ in columns})

    async def _make(
        self, connection: AsyncConnection, relation: Relation, present: Sequence[tuple[str, str]] = ()
    ) -> list[tuple[str, str, str]]:
        columns = layout(relation, present, "postgresql")
        query = select(relation, [(name, value) for name, _, value in columns])
        name = f'"{relation.name}"'
        comments = [f"COMMENT ON VIEW {name} IS {_quoted(relation.description + MARK)}"] + [
            f'COMMENT ON COLUMN {name}."{column}" IS {_quoted(said)}'
            for (column, _, _), said in zip(columns, told(relation, columns), strict=True)
        ]
        await _execute(connection, ";\n".join([f"CREATE OR REPLACE VIEW {name} AS {query}", *comments]))
        return columns

    async def _change(self, relation: Relation, *, rebuild: bool) -> Outcome:
        present = self._known.present[relation.name]
        columns: Sequence[tuple[str, str]] = () if rebuild else present.columns
        agreed = _texts(relation, columns)
        try:
            if not present.ours:
                async with self._transaction() as connection:
                    await record(connection, self._engine, [(relation, [])], TAKEN)
                return Outcome(relation.name, Action.SKIPPED, TAKEN)
            try:
                await self._replace(relation, agreed, drop=rebuild or agreed != columns)
            except StoreUnavailable as error:
                if rebuild or agreed == columns or _cause(error).sqlstate != _DEPENDED_ON:
                    raise
                await self._replace(relation, columns, drop=False)
        except StoreUnavailable as error:
            return _failed(relation.name, error)
        return Outcome(relation.name, Action.CHANGED)

    async def _replace(self, relation: Relation, present: Sequence[tuple[str, str]], *, drop: bool) -> None:
        """Over what is there, or, where nothing is built on that, in its place."""
        async with self._transaction() as connection:
            grants: list[Grant] = []
            if drop:
                grants = await held(connection, relation.name)
                await _execute(connection, f'DROP VIEW "{relation.name}"')
            columns = await self._make(connection, relation, present)
            await give(connection, relation.name, grants, {name for name, _, _ in columns})
            await record(connection, self._engine, [(relation, columns)])

    async def _remove(self, name: str) -> Outcome:
        present = self._known.present.get(name)
        try:
            async with self._transaction() as connection:
                if present is not None and present.ours:
                    await remember(connection, self._engine, name, await held(connection, name))
                    await _execute(connection, f'DROP VIEW "{name}"')
                await forget(connection, [name])
        except StoreUnavailable as error:
            failed = _failed(name, error)
            if failed.action is Action.KEPT:
                async with self._transaction() as connection:
                    await note_kept(connection, name, failed.note)
            return failed
        return Outcome(name, Action.REMOVED)


def _texts(relation: Relation, present: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    """The columns that are there, those as text that are to become so at once."""
    wanted = {column.name: column.type for column in relation.columns} if relation.agreeing else {}
    return tuple((name, "text" if wanted.get(name) == "text" else kind) for name, kind in present)


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


def _failed(name: str, error: StoreUnavailable) -> Outcome:
    cause = _cause(error)
    note = cause.diag.message_detail or cause.diag.message_primary or ""
    if cause.sqlstate == _HELD:
        return Outcome(name, Action.WAITING, note)
    return Outcome(name, Action.KEPT if cause.sqlstate == _DEPENDED_ON else Action.SKIPPED, note)
