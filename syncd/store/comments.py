"""PostgreSQL: what syncd's tables and their columns are, as comments that any client shows.

Comments of views are written with the views. SQLite has none; there the view `dictionary` tells.
"""

from __future__ import annotations

import psycopg
import sqlalchemy as sa
from psycopg import sql
from sqlalchemy.ext.asyncio import AsyncConnection

from syncd.core.errors import StoreUnavailable
from syncd.core.relation import Described, Relations
from syncd.store.engine import Engine
from syncd.store.errors import driver_error
from syncd.store.lease import database_now
from syncd.store.schema import views

NAME = "(comments)"
"""The row of `syncd_views` that says which comments are there."""
_LOCK_TIMEOUT = "1s"
_NOT_NOW = ("55P03", "42501")  # lock_not_available, insufficient_privilege


async def keep(engine: Engine, wanted: Relations, present: str | None) -> None:
    """Writes them where they are not those of the digest, and remembers it. Where somebody holds a table, or
    the tables are another role's, nothing is done: comments are worth no waiting and no error.

    Raises:
        StoreUnavailable: the database is away.
    """
    if engine.is_sqlite or not wanted.tables or present == wanted.table_digest:
        return
    try:
        async with engine.writing() as connection:
            await connection.execute(sa.text(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'"))
            for table in wanted.tables:
                await _comment(connection, table)
            await connection.execute(views.delete().where(views.c.relation == NAME))
            await connection.execute(
                views.insert().values(
                    relation=NAME,
                    subject="",
                    short=False,
                    description="The comments on tables.",
                    digest=wanted.table_digest,
                    note="",
                    applied_at=await database_now(connection, engine),
                )
            )
    except StoreUnavailable as error:
        cause = driver_error(error.__cause__) if error.__cause__ is not None else None
        if isinstance(cause, psycopg.Error) and cause.sqlstate in _NOT_NOW:
            return
        raise


async def _comment(connection: AsyncConnection, table: Described) -> None:
    name = sql.Identifier(table.name)
    statements = [sql.SQL("COMMENT ON TABLE {} IS {}").format(name, sql.Literal(table.description))]
    statements += [
        sql.SQL("COMMENT ON COLUMN {}.{} IS {}").format(
            name, sql.Identifier(column.name), sql.Literal(column.description)
        )
        for column in table.columns
    ]
    driver = (await connection.get_raw_connection()).driver_connection
    assert driver is not None
    await driver.execute(sql.SQL("; ").join(statements))
