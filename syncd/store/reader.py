"""PostgreSQL: a role that can read what syncd makes, and nothing else."""

from __future__ import annotations

from typing import Any

import psycopg
import sqlalchemy as sa
from psycopg import sql

from syncd.core.errors import ConfigError, StoreError, StoreUnavailable
from syncd.store import steampipe
from syncd.store.engine import Engine
from syncd.store.errors import driver_error
from syncd.store.schema import metadata, views

_REFUSED = "42501"  # insufficient_privilege
_OWN_SCHEMA = sa.text(
    "SELECT 1 FROM pg_namespace WHERE nspname = :name AND pg_get_userbyid(nspowner) = current_user"
)


async def allow(engine: Engine, role: str) -> bool:
    """Lets a role read syncd's tables and views, and those views that are made later; whether it had to be
    made. It cannot log in: it is to be granted to those who can.

    Raises:
        ConfigError: on SQLite, which has no roles.
        StoreError: this user may not make a role, or may not grant. The message says what to do.
        StoreUnavailable: the database is away.
    """
    if engine.is_sqlite:
        raise ConfigError(
            "--reader is for PostgreSQL: on SQLite whoever can read the file can read all of it"
        )
    try:
        async with engine.writing() as connection:
            known = sa.text("SELECT 1 FROM pg_roles WHERE rolname = :role")
            made = (await connection.execute(known, {"role": role})).first() is None
            named = sa.select(views.c.relation).where(views.c.digest != "", ~views.c.relation.like("(%"))
            relations = [*metadata.tables, "syncd_migrations", *(await connection.execute(named)).scalars()]
            other = (await connection.execute(_OWN_SCHEMA, {"name": steampipe.SCHEMA})).first() is not None
            driver: Any = (await connection.get_raw_connection()).driver_connection
            if made:
                await driver.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(role)))
            await driver.execute(_grants(engine.schema, role, relations))
            if other and engine.schema != steampipe.SCHEMA:
                await driver.execute(_grants(steampipe.SCHEMA, role))
    except StoreUnavailable as error:
        cause = driver_error(error.__cause__) if error.__cause__ is not None else None
        if not isinstance(cause, psycopg.Error) or cause.sqlstate != _REFUSED:
            raise
        said = cause.diag.message_primary
        raise StoreError(
            f"this user may not do that ({said}); as one who may: CREATE ROLE {role} NOLOGIN;"
            " then run it again as the owner of the tables"
        ) from error
    return made


def _grants(schema: str, role: str, relations: list[str] | None = None) -> sql.Composed:
    """On what is there (`relations`, or everything in the schema) and on what this user makes in it later."""
    names = {"schema": sql.Identifier(schema), "role": sql.Identifier(role)}
    if relations is None:
        there: sql.Composable = sql.SQL("ALL TABLES IN SCHEMA {schema}").format(**names)
    else:
        there = sql.SQL(", ").join(sql.Identifier(schema, relation) for relation in relations)
    return sql.SQL(
        "GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT SELECT ON {there} TO {role};"
        " ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT SELECT ON TABLES TO {role}"
    ).format(there=there, **names)
