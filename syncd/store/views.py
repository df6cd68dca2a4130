"""Makes views, and keeps what users built on them: no dependent view and no grant is ever dropped.

The columns of a view are only appended to. One that is no longer wanted stays, NULL, and one that is wanted
with another type keeps its old one, until views are rebuilt. A relation that is not syncd's is left alone,
whatever its name; ours carry a mark. What is there is recorded in `syncd_views` and `syncd_view_columns`.
"""

from __future__ import annotations

import asyncio

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from syncd.core.relation import Relations
from syncd.store import comments
from syncd.store.engine import Engine
from syncd.store.schema import view_columns, views
from syncd.store.view import MARK, RETIRED, Action, Known, Outcome, Present, layout, plan
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
    # In a thread: thousands of views are hashed for it.
    todo = await asyncio.to_thread(plan, known, wanted, rebuild=rebuild)
    if not todo:
        return []
    return await (SqliteViews if engine.is_sqlite else PostgresqlViews)(engine, known).run(todo)


async def _known_sqlite(connection: AsyncConnection) -> Known:
    known = await _digests(connection)
    recorded: dict[str, list[tuple[str, str]]] = {}
    query = sa.select(view_columns.c.relation, view_columns.c.name, view_columns.c.type)
    for name, column, kind in await connection.execute(query.order_by(view_columns.c.place)):
        recorded.setdefault(name, []).append((column, kind))
    master = (
        "SELECT type, name, coalesce(sql, '') FROM sqlite_master WHERE type IN ('table', 'view', 'trigger')"
    )
    for type_, name, text in await connection.execute(sa.text(master)):
        ours = SQLITE_MARK in text
        if type_ != "trigger":
            known.present[name] = Present(ours, tuple(recorded.get(name, ())))
        if type_ != "table":
            known.texts[name] = text
    return known


async def _known_postgresql(connection: AsyncConnection) -> Known:
    known = await _digests(connection)
    for name, ours, names, types in await connection.execute(sa.text(_RELATIONS), {"mark": "%" + MARK}):
        known.present[name] = Present(ours, tuple(zip(names, types, strict=True)))
    return known


async def _digests(connection: AsyncConnection) -> Known:
    found = await connection.execute(sa.select(views.c.relation, views.c.digest))
    return Known(digests={row.relation: row.digest for row in found})


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
