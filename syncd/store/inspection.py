"""How a database is before anything is written to it: reads alone, and makes no file."""

from __future__ import annotations

import os
import shutil
import sqlite3
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from syncd.store import migrate
from syncd.store.engine import POSTGRESQL_FLOOR, SQLITE_FLOOR, Engine
from syncd.store.lease import LAPSE
from syncd.store.schema import metadata
from syncd.store.status import LeaseStatus, read_status


class SchemaState(StrEnum):
    """Where the schema stands against what this version needs."""

    ABSENT = "absent"
    BEHIND = "behind"
    HEAD = "head"
    AHEAD = "ahead"
    UNKNOWN = "unknown"  # not looked at: there are obstacles


@dataclass(frozen=True, slots=True)
class Inspection:
    """What was found.

    Attributes:
        server: name and version; `floor` the oldest that will do.
        obstacles: what this account may not do, in words, each with what to do: (obstacle, next step).
        revision, needed: of the schema; None where there is none.
        free_bytes: on the disk of a SQLite file, None where it cannot be known.
        used_bytes: of the database now.
        lease: who has the database, `lapsed` if without a heartbeat for too long.
    """

    server: str
    supported: bool
    floor: str
    obstacles: tuple[tuple[str, str], ...]
    schema: SchemaState
    revision: str | None
    needed: str
    free_bytes: int | None = None
    used_bytes: int = 0
    lease: LeaseStatus | None = None
    lapsed: bool = False


async def inspect(engine: Engine) -> Inspection:
    """Raises StoreUnavailable where the database does not answer."""
    return await (_sqlite(engine) if engine.is_sqlite else _postgresql(engine))


async def _sqlite(engine: Engine) -> Inspection:
    path = engine.path or Path()
    obstacles = _file_obstacles(path)
    there = _is_file(path)
    schema: SchemaState = SchemaState.UNKNOWN if there else SchemaState.ABSENT
    revision = None
    if there and not obstacles:
        revision, schema = await _schema(engine)
    lease, lapsed = await _lease(engine) if schema is SchemaState.HEAD else (None, False)
    return Inspection(
        server=f"SQLite {sqlite3.sqlite_version}",
        supported=sqlite3.sqlite_version_info >= SQLITE_FLOOR,
        floor=".".join(map(str, SQLITE_FLOOR)),
        obstacles=obstacles,
        schema=schema,
        revision=revision,
        needed=migrate.HEAD,
        free_bytes=_free(path),
        used_bytes=path.stat().st_size if there else 0,
        lease=lease,
        lapsed=lapsed,
    )


def _is_file(path: Path) -> bool:
    """False too where that may not be known."""
    return os.path.isfile(path)


def _free(path: Path) -> int | None:
    """On the disk where the file is, or will be."""
    place = next((each for each in path.parents if os.path.isdir(each)), None)
    return shutil.disk_usage(place).free if place else None


def _file_obstacles(path: Path) -> tuple[tuple[str, str], ...]:
    """SQLite writes the file and, beside it, its log and our lock."""
    folder = path.parent
    try:
        if not folder.is_dir():
            return ((f"there is no directory {folder}", f"mkdir -p {folder}"),)
        if path.exists() and not path.is_file():
            return ((f"{path} is no file", "name one in database.url"),)
    except OSError as error:
        reason = error.strerror or str(error)
        return ((f"{path}: {reason}", f"let the user of syncd (uid {os.getuid()}) go there"),)
    obstacles: list[tuple[str, str]] = []
    if not os.access(folder, os.W_OK | os.X_OK):
        obstacles.append(
            (f"{folder} is not writable", f"let the user of syncd (uid {os.getuid()}) write there")
        )
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        obstacles.append((f"{path} is not writable", f"give it to the user of syncd (uid {os.getuid()})"))
    return tuple(obstacles)


async def _postgresql(engine: Engine) -> Inspection:
    async with engine.reading() as connection:
        version = int(await _scalar(connection, "SHOW server_version_num"))
        name = await _scalar(connection, "SHOW server_version")
        used = int(await _scalar(connection, "SELECT pg_database_size(current_database())"))
        obstacles = await _privileges(connection, engine.schema)
        exists = await _scalar(
            connection, "SELECT count(*) FROM pg_namespace WHERE nspname = :schema", schema=engine.schema
        )
    schema: SchemaState = SchemaState.UNKNOWN if exists else SchemaState.ABSENT
    revision = None
    if exists and not obstacles:
        revision, schema = await _schema(engine)
    lease, lapsed = await _lease(engine) if schema is SchemaState.HEAD else (None, False)
    return Inspection(
        server=f"PostgreSQL {name}",
        supported=version >= POSTGRESQL_FLOOR,
        floor=str(POSTGRESQL_FLOOR // 10000),
        obstacles=obstacles,
        schema=schema,
        revision=revision,
        needed=migrate.HEAD,
        used_bytes=used,
        lease=lease,
        lapsed=lapsed,
    )


async def _privileges(connection: AsyncConnection, schema: str) -> tuple[tuple[str, str], ...]:
    user = await _scalar(connection, "SELECT current_user")
    obstacles: list[tuple[str, str]] = []
    if await _scalar(connection, "SELECT pg_is_in_recovery()"):
        obstacles.append(
            ("the server is a standby, which takes no writes", "name the primary in database.url")
        )
    elif await _scalar(connection, "SHOW default_transaction_read_only") == "on":
        step = f'ALTER ROLE "{user}" SET default_transaction_read_only = off'
        obstacles.append(("transactions are read-only by default", step))
    database = await _scalar(connection, "SELECT current_database()")
    if not await _may(connection, "database", database, "TEMPORARY"):
        step = f'GRANT TEMPORARY ON DATABASE "{database}" TO "{user}"'
        obstacles.append((f"{user} may make no temporary tables, through which bulk writes go", step))
    present = await _scalar(connection, "SELECT count(*) FROM pg_namespace WHERE nspname = :s", s=schema)
    if not present:
        if not await _may(connection, "database", database, "CREATE"):
            step = f'CREATE SCHEMA "{schema}" AUTHORIZATION "{user}"'
            obstacles.append((f"there is no schema {schema}, and {user} may not make it", step))
        return tuple(obstacles)
    for privilege in ("USAGE", "CREATE"):
        if not await _may(connection, "schema", schema, privilege):
            step = f'GRANT {privilege} ON SCHEMA "{schema}" TO "{user}"'
            obstacles.append((f"{user} lacks {privilege} on schema {schema}", step))
    if not obstacles:
        obstacles += await _table_obstacles(connection, schema, user)
    return tuple(obstacles)


async def _table_obstacles(connection: AsyncConnection, schema: str, user: str) -> list[tuple[str, str]]:
    """Tables that are there, made by another account perhaps."""
    found: list[tuple[str, str]] = []
    for table in sorted(metadata.tables):
        name = f'"{schema}".{table}'
        if await _scalar(connection, "SELECT to_regclass(:name) IS NULL", name=name):
            continue
        lacking = [
            privilege
            for privilege in ("SELECT", "INSERT", "UPDATE", "DELETE")
            if not await _may(connection, "table", name, privilege)
        ]
        if lacking:
            step = f'GRANT {", ".join(lacking)} ON {name} TO "{user}"'
            found.append((f"{user} lacks {', '.join(lacking)} on {table}", step))
    return found


async def _may(connection: AsyncConnection, kind: str, name: str, privilege: str) -> bool:
    """A table's name is parsed, so it comes quoted; a schema's or a database's is taken as it is."""
    statement = f"SELECT has_{kind}_privilege(:name, :privilege)"
    return bool(await _scalar(connection, statement, name=name, privilege=privilege))


async def _scalar(connection: AsyncConnection, statement: str, **values: str) -> str:
    found: str = (await connection.execute(sa.text(statement), values)).scalar_one()
    return found


async def _schema(engine: Engine) -> tuple[str | None, SchemaState]:
    revision, needed = await migrate.current(engine), migrate.HEAD
    if revision is None:
        return None, SchemaState.ABSENT
    if revision == needed:
        return revision, SchemaState.HEAD
    return revision, SchemaState.BEHIND if revision in migrate.revisions() else SchemaState.AHEAD


async def _lease(engine: Engine) -> tuple[LeaseStatus | None, bool]:
    async with engine.reading() as connection:
        status = await read_status(connection, engine)
    if status.lease is None:
        return None, False
    age = (status.database_now - status.lease.heartbeat_at).total_seconds()
    return status.lease, age > LAPSE
