"""Migrations: head is the metadata, there and back, two at once, and what a mismatch says."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.script import ScriptDirectory

from syncd.core.errors import SchemaMismatch
from syncd.store.database import Database
from syncd.store.migrate import HEAD, _config
from syncd.store.schema import GENERATED, metadata
from tests.conftest import Begin
from tests.contract.mirror_case import Place, look


@pytest.fixture
def begin() -> Begin:
    return Begin.NOTHING


@pytest.fixture
async def database(place: Place) -> AsyncIterator[Database]:
    database = Database(place.url, place.schema)
    yield database
    await database.close()


def described(connection: sa.Connection) -> dict[str, Any]:
    """All that the database knows of syncd's tables, but for what migrations alone make."""
    inspector = sa.inspect(connection)
    return {
        table: {
            "columns": [
                (
                    c["name"],
                    str(c["type"]),
                    getattr(c["type"], "collation", None),
                    c["nullable"],
                    bool(c["default"]),
                )
                for c in inspector.get_columns(table)
                if c["name"] not in GENERATED
            ],
            "key": inspector.get_pk_constraint(table)["constrained_columns"],
            "unique": sorted(str(one["column_names"]) for one in inspector.get_unique_constraints(table)),
            "indexes": sorted(
                (str(one["name"]), str(one["column_names"]), str(one.get("dialect_options", {})))
                for one in inspector.get_indexes(table)
                if not str(one["name"]).startswith("syncd_objects_pod_")
            ),
        }
        for table in inspector.get_table_names()
        if table.startswith("syncd_") and table != "syncd_migrations"
    }


async def test_head_is_the_metadata(database: Database) -> None:
    await database.migrate()
    assert await database.current() == HEAD
    await database.check()
    async with database.engine.reading() as connection:
        migrated = await connection.run_sync(described)
    await database.migrate("base")
    async with database.engine.writing() as connection:
        await connection.run_sync(metadata.create_all)
        made = await connection.run_sync(described)
    assert set(made) == set(metadata.tables)
    assert migrated == made


def test_head_is_the_last_revision() -> None:
    assert ScriptDirectory.from_config(_config()).get_current_head() == HEAD


async def test_a_database_at_head_needs_no_alembic(place: Place) -> None:
    database = Database(place.url, place.schema)
    await database.migrate()
    await database.close()
    script = (
        "import asyncio, sys; from syncd.store.database import Database\n"
        "async def main():\n"
        f"    database = Database({place.url!r}, {place.schema!r})\n"
        "    await database.migrate(); await database.check(); await database.close()\n"
        "asyncio.run(main()); assert 'alembic' not in sys.modules"
    )
    done = await asyncio.create_subprocess_exec(sys.executable, "-c", script)
    assert await done.wait() == 0


async def test_down_to_base_leaves_no_table(database: Database) -> None:
    await database.migrate()
    await database.migrate("base")
    assert await database.current() is None
    async with database.engine.reading() as connection:
        assert await connection.run_sync(described) == {}
    await database.migrate()
    await database.check()


async def test_two_migrations_at_once(place: Place) -> None:
    databases = [Database(place.url, place.schema) for _ in range(3)]
    try:
        await asyncio.gather(*(database.migrate() for database in databases))
        for database in databases:
            await database.check()
    finally:
        for database in databases:
            await database.close()


async def test_an_empty_database_is_told_what_to_run(database: Database) -> None:
    with pytest.raises(SchemaMismatch, match="syncd migrate"):
        await database.check()


async def test_a_newer_schema_is_refused(database: Database, place: Place) -> None:
    await database.migrate()
    look(place, "UPDATE syncd_migrations SET version_num = '9999'")
    for attempt in (database.check, database.migrate):
        with pytest.raises(SchemaMismatch, match="upgrade syncd"):
            await attempt()
