"""The schema's version: Alembic, configured in code, to head and back.

Revisions live in `migrations/` of a checkout and travel in the wheel as `syncd/migrations`. Two migrations
at once are safe: the second waits (an advisory lock, BEGIN IMMEDIATE) and finds nothing to do.
"""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

import syncd
from syncd.core.errors import SchemaMismatch
from syncd.store.engine import Engine

VERSION_TABLE = "syncd_migrations"
_LOCK = 0x73796E63  # "sync": one migration at a time in a database


def _directory() -> Path:
    package = Path(syncd.__file__).parent
    for candidate in (package / "migrations", package.parent / "migrations"):
        if (candidate / "env.py").is_file():
            return candidate
    raise SchemaMismatch(f"the migrations are missing from this installation ({package}); install it again")


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_directory()).replace("%", "%%"))
    return config


def head() -> str:
    """The revision that this version of syncd needs."""
    revision = ScriptDirectory.from_config(_config()).get_current_head()
    if revision is None:
        raise SchemaMismatch("this installation has no migrations; install it again")
    return revision


def revisions() -> set[str]:
    """Every revision that this version knows."""
    return {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}


async def migrate(engine: Engine, revision: str = "head") -> None:
    """Brings the schema to `revision`, up or (for an earlier one, or "base") down, in one transaction."""
    await engine.check_floor()
    async with engine.writing() as connection:
        if not engine.is_sqlite:
            await connection.execute(sa.text("SET LOCAL statement_timeout = 0"))
            await connection.execute(sa.text("SET LOCAL lock_timeout = 0"))
            await connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
            if engine.schema != "public":
                await connection.execute(sa.text(f'CREATE SCHEMA IF NOT EXISTS "{engine.schema}"'))
        await connection.run_sync(_run, revision)


def _run(connection: sa.Connection, revision: str) -> None:
    config = _config()
    config.attributes["connection"] = connection
    present = _current(connection)
    if present is not None and present not in revisions():
        raise _ahead(present)
    if revision == "head" or present is None:
        command.upgrade(config, revision)
    elif revision == "base" or revision < present:
        command.downgrade(config, revision)
    else:
        command.upgrade(config, revision)


async def current(engine: Engine) -> str | None:
    """The revision of the database, None where syncd has no table in it."""
    async with engine.reading() as connection:
        return await connection.run_sync(_current)


async def check(engine: Engine) -> None:
    """Raises SchemaMismatch where the database is not at head; says what to run."""
    await engine.check_floor()
    present, needed = await current(engine), head()
    if present == needed:
        return
    if present is not None and present not in revisions():
        raise _ahead(present)
    raise SchemaMismatch(
        f"the database's schema is at {present or 'nothing'} and syncd needs {needed}; run `syncd migrate`"
    )


def _ahead(present: str) -> SchemaMismatch:
    return SchemaMismatch(
        f"the database's schema is at {present}, made by a newer version of syncd; upgrade syncd"
    )


def _current(connection: sa.Connection) -> str | None:
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    return context.get_current_revision()
