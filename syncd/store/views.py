"""Makes views, and keeps what users built on them: no dependent view and no grant is ever dropped.

The columns of a view are only appended to. One that is no longer wanted stays, NULL, and one that is wanted
with another type keeps its old one, until views are rebuilt. A relation that is not syncd's is left alone,
whatever its name; ours carry a mark. What is there is recorded in `syncd_views` and `syncd_view_columns`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from syncd.core.relation import Relations
from syncd.store import comments
from syncd.store.engine import Engine
from syncd.store.schema import view_columns, views
from syncd.store.view import MARK, RETIRED, Action, Known, Outcome, Plan, Present, layout, plan
from syncd.store.view_postgresql import PostgresqlViews
from syncd.store.view_sqlite import MARK as SQLITE_MARK
from syncd.store.view_sqlite import SqliteViews

__all__ = ["MARK", "RETIRED", "Action", "Outcome", "apply", "layout"]


async def apply(engine: Engine, wanted: Relations, *, rebuild: bool = False) -> list[Outcome]:
    """Brings the views to what is wanted; says what was done, nothing where nothing was to do.

    A view that cannot be had stops no other.

    Args:
        rebuild: make every view anew, with the wanted columns alone; one that something depends on stays.

    Raises:
        StoreUnavailable: the database is away.
    """
    async with engine.reading() as connection:
        known = await (_known_sqlite if engine.is_sqlite else _known_postgresql)(connection)
    await comments.keep(engine, wanted, known.digests.get(comments.NAME))
    todo = plan(known, wanted, rebuild=rebuild)
    if not todo:
        return []
    async with engine.reading() as connection:
        await (_look_sqlite if engine.is_sqlite else _look_postgresql)(connection, known, todo)
    return await (SqliteViews if engine.is_sqlite else PostgresqlViews)(engine, known).run(todo)


async def _known_sqlite(connection: AsyncConnection) -> Known:
    """All but columns and texts: there may be thousands of views."""
    known = await _digests(connection)
    master = "SELECT name, instr(sql, :mark) > 0 FROM sqlite_master WHERE type IN ('table', 'view')"
    for name, ours in await connection.execute(sa.text(master), {"mark": SQLITE_MARK}):
        known.present[name] = Present(bool(ours))
    return known


async def _look_sqlite(connection: AsyncConnection, known: Known, todo: Plan) -> None:
    """Adds the columns of what changes; where something goes, the texts that tell what is built on it."""
    changed = [relation.name for relation in todo.changed if relation.name in known.present]
    for some in _some(changed):
        columns = view_columns.c
        query = sa.select(columns.relation, columns.name, columns.type).where(columns.relation.in_(some))
        found: dict[str, list[tuple[str, str]]] = {}
        for name, column, kind in await connection.execute(query.order_by(columns.place)):
            found.setdefault(name, []).append((column, kind))
        for name, pairs in found.items():
            known.present[name] = replace(known.present[name], columns=tuple(pairs))
    if todo.removed:
        going = set(todo.removed)
        master = (
            "SELECT name, sql, instr(sql, :mark) > 0 FROM sqlite_master WHERE type IN ('view', 'trigger')"
        )
        for name, text, ours in await connection.execute(sa.text(master), {"mark": SQLITE_MARK}):
            if name in going or not ours:
                known.texts[name] = text


async def _known_postgresql(connection: AsyncConnection) -> Known:
    """All but columns: there may be thousands of views."""
    known = await _digests(connection)
    for name, ours in await connection.execute(sa.text(_RELATIONS), {"mark": "%" + MARK}):
        known.present[name] = Present(ours)
    return known


async def _look_postgresql(connection: AsyncConnection, known: Known, todo: Plan) -> None:
    """Adds the columns of what changes."""
    changed = [relation.name for relation in todo.changed if relation.name in known.present]
    for some in _some(changed):
        for name, names, types in await connection.execute(sa.text(_COLUMNS), {"names": list(some)}):
            pairs = tuple(zip(names, types, strict=True))
            known.present[name] = replace(known.present[name], columns=pairs)


async def _digests(connection: AsyncConnection) -> Known:
    found = await connection.execute(sa.select(views.c.relation, views.c.digest))
    return Known(digests={row.relation: row.digest for row in found})


def _some(names: Sequence[str]) -> Iterator[Sequence[str]]:
    return (names[begin : begin + _AT_ONCE] for begin in range(0, len(names), _AT_ONCE))


_AT_ONCE = 500
_RELATIONS = """
SELECT c.relname, c.relkind = 'v' AND coalesce(obj_description(c.oid, 'pg_class') LIKE :mark, false)
FROM pg_class c
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'v', 'm', 'f', 'p', 'S')
"""
_COLUMNS = """
SELECT c.relname, array_agg(a.attname::text ORDER BY a.attnum),
  array_agg(replace(format_type(a.atttypid, a.atttypmod), 'timestamp with time zone', 'timestamptz')
    ORDER BY a.attnum)
FROM pg_class c
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'v' AND c.relname = ANY(:names)
GROUP BY c.oid, c.relname
"""
