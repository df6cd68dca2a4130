"""The schema's version: Alembic, configured in code, to head and back.

Revisions live in `migrations/` of a checkout and travel in the wheel as `syncd/migrations`. Two migrations
at once are safe: the second waits (an advisory lock, BEGIN IMMEDIATE) and finds nothing to do. A database at
head, which is the usual start, is told by plain SQL: Alembic, a fifth of all that a start imports, is
imported where there is something to do.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

import syncd
from syncd.core.errors import SchemaMismatch
from syncd.store.engine import Engine

if TYPE_CHECKING:
    from alembic.config import Config

HEAD = "0005"
"""The revision that this version of syncd needs; a test holds it to the migrations."""
_LOCK = 0x73796E63  # "sync": one migration at a time in a database


def _directory() -> Path:
    package = Path(syncd.__file__).parent
    for candidate in (package / "migrations", package.parent / "migrations"):
        if (candidate / "env.py").is_file():
            return candidate
    raise SchemaMismatch(f"the migrations are missing from this installation ({package}); install it again")


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_directory()).replace("%", "%%"))
    return config


def revisions() -> set[str]:
    """Every revision that this version knows."""
    from alembic.script import ScriptDirectory

    return {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}


async def migrate(engine: Engine, revision: str = "head") -> None:
    """Brings the schema to `revision`, up or (for an earlier one, or "base") down, in one transaction."""
    await engine.check_floor()
    if revision in ("head", HEAD) and await current(engine) == HEAD:
        return
    async with engine.writing() as connection:
        if not engine.is_sqlite:
            await connection.execute(sa.text("SET LOCAL statement_timeout = 0"))
            await connection.execute(sa.text("SET LOCAL lock_timeout = 0"))
            await connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
            if engine.schema != "public":
                await connection.execute(sa.text(f'CREATE SCHEMA IF NOT EXISTS "{engine.schema}"'))
        await connection.run_sync(_run, revision, await _current(connection, engine))


def _run(connection: sa.Connection, revision: str, present: str | None) -> None:
    from alembic import command

    config = _config()
    config.attributes["connection"] = connection
    if present is not None and present not in revisions():
        raise _ahead(present)
    if revision == "head" or present is None:
        command.upgrade(config, revision)
    elif revision == "base" or revision < present:
        command.downgrade(config, revision)
    else:
        command.upgrade(config, revision)


async def current(engine: Engine) -> str | None:
    """The revision of the database, None where syncd has no table in it. Makes no file."""
    if missing(engine):
        return None
    async with engine.reading() as connection:
        return await _current(connection, engine)


def missing(engine: Engine) -> bool:
    """SQLite: whether there is no file. Of one that may not be looked at, the opening tells."""
    try:
        return engine.path is not None and not engine.path.exists()
    except OSError:
        return False


async def check(engine: Engine) -> None:
    """Raises SchemaMismatch where the database is not at head; says what to run."""
    await engine.check_floor()
    present = await current(engine)
    if present == HEAD:
        return
    if present is not None and present not in revisions():
        raise _ahead(present)
    raise SchemaMismatch(
        f"the database's schema is at {present or 'nothing'} and syncd needs {HEAD}; run `syncd migrate`"
    )


def _ahead(present: str) -> SchemaMismatch:
    return SchemaMismatch(
        f"the database's schema is at {present}, made by a newer version of syncd; upgrade syncd"
    )


async def _current(connection: AsyncConnection, engine: Engine) -> str | None:
    known = (
        "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'syncd_migrations'"
        if engine.is_sqlite
        else "SELECT 1 WHERE to_regclass('syncd_migrations') IS NOT NULL"
    )
    if (await connection.execute(sa.text(known))).first() is None:
        return None
    found = await connection.execute(sa.text("SELECT version_num FROM syncd_migrations"))
    return found.scalar_one_or_none()
