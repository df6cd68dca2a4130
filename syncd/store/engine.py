"""Connections: the URL, the pools, what every new connection is told, and transactions.

It knows no table. SQLite has one writing connection a process, whose transactions begin IMMEDIATE, and
reading ones beside it; PostgreSQL has one pool, and sessions beside it for single statements. A pooled
connection is not tried before use: after an error that ends one, all are thrown away, so that the next
attempt connects anew.
"""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool, NullPool

from syncd.core.errors import ConfigError, SchemaMismatch, StoreError
from syncd.store.errors import DRIVER_ERRORS, is_disconnect, unavailable
from syncd.store.session import Sessions

SQLITE_FLOOR = (3, 38, 0)  # ->> and RETURNING
POSTGRESQL_FLOOR = 140000

CONNECT_TIMEOUT = 10  # seconds
BUSY_TIMEOUT = 10.0  # seconds that SQLite waits for another process's transaction
STATEMENT_TIMEOUT = 120  # seconds; the longest statement is the retirement of a large stream
TRANSACTION_TIMEOUT = 180.0  # seconds in which a transaction must end, whatever the network does
RETIREMENT_TIMEOUT = 3600.0  # seconds for the one transaction that may move a million rows
GIVEN_BACK_WITHIN = 2.0  # seconds that closing waits for connections in use
POOL_SIZE = 8

_SCHEMA_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{0,62}\Z")
_SQLITE_PRAGMAS = (
    # WAL with NORMAL: a power cut may take the last commits, rows and version together, which is consistent:
    # the stream resumes from what is there. FULL would add an fsync to every event.
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = NORMAL",
    "PRAGMA secure_delete = ON",  # what redaction took back must not stay in free pages
    "PRAGMA temp_store = MEMORY",
    "PRAGMA journal_size_limit = 67108864",
)


_POOL = {
    "pool_size": POOL_SIZE,
    "max_overflow": POOL_SIZE,
    "pool_timeout": 30,
    "pool_use_lifo": True,  # the server's caches are a session's own, and those of the last one are warm
}

Functions = Mapping[str, tuple[int, Callable[..., Any]]]
"""SQL functions of SQLite in Python, by name: how many arguments, and what is called."""


class Engine:
    """The pools of one database.

    Args:
        url: `sqlite:///path` or `postgresql://…`; what a PostgreSQL URL leaves out comes from libpq's
            environment and .pgpass.
        schema: PostgreSQL: where everything lives.
        prepare: what every writing connection to SQLite is told besides.
        functions: what it can call besides.

    Raises:
        ConfigError: the URL or the schema's name cannot be used.
    """

    def __init__(
        self,
        url: str,
        schema: str = "public",
        *,
        prepare: Sequence[str] = (),
        functions: Functions | None = None,
    ) -> None:
        self.url = _parse(url)
        self.schema = schema
        if not _SCHEMA_NAME.match(schema):
            raise ConfigError(f"database.schema: {schema!r} is not a plain name; use letters, digits and _")
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.in_memory = self.is_sqlite and self.url.database in (None, "", ":memory:")
        if self.is_sqlite:
            self._writer = _sqlite(self.url, (*_SQLITE_PRAGMAS, *prepare), functions, writing=True)
            self._reader = (
                self._writer
                if self.in_memory
                else _sqlite(self.url, ("PRAGMA query_only = ON",), None, writing=False)
            )
        else:
            self._writer = self._reader = _postgresql(self.url, schema, **_POOL)
            alone = _postgresql(self.url, schema, poolclass=NullPool, isolation_level="AUTOCOMMIT")
            self._sessions = Sessions(alone, POOL_SIZE)

    @property
    def path(self) -> Path | None:
        """The SQLite file, None elsewhere."""
        return Path(self.url.database or "") if self.is_sqlite and not self.in_memory else None

    @asynccontextmanager
    async def writing(self, timeout: float = TRANSACTION_TIMEOUT) -> AsyncIterator[AsyncConnection]:
        """One transaction that may write; it commits at the end and rolls back on any error.

        Raises:
            StoreUnavailable: for every error of the driver; ours pass.
        """
        async with self._transaction(self._writer, timeout) as connection:
            yield connection

    @asynccontextmanager
    async def reading(self, timeout: float = TRANSACTION_TIMEOUT) -> AsyncIterator[AsyncConnection]:
        """One transaction that only reads; on SQLite it waits for no writer."""
        async with self._transaction(self._reader, timeout) as connection:
            yield connection

    def dedicated(self) -> AsyncEngine:
        """PostgreSQL: an engine without a pool, for a session of one's own; the caller disposes of it."""
        return _postgresql(self.url, self.schema, poolclass=NullPool)

    @asynccontextmanager
    async def raw(self) -> AsyncIterator[Any]:
        """The writing driver connection outside any transaction, for what cannot run inside one."""
        async with translated(), self._writer.connect() as connection:
            raw = await connection.get_raw_connection()
            yield raw.driver_connection

    @asynccontextmanager
    async def autocommit(self) -> AsyncIterator[Any]:
        """PostgreSQL: the driver's connection, on which each statement is a transaction of its own.

        Raises:
            StoreUnavailable: as `writing`.
        """
        try:
            async with asyncio.timeout(TRANSACTION_TIMEOUT), self._sessions.take() as raw:
                yield raw
        except DRIVER_ERRORS as error:
            if is_disconnect(error):
                await self._forget(self._writer)
            raise unavailable(error) from error

    @asynccontextmanager
    async def _transaction(
        self, engine: AsyncEngine, timeout: float = TRANSACTION_TIMEOUT
    ) -> AsyncIterator[AsyncConnection]:
        async with self._connected(engine, timeout) as connection:
            try:
                async with connection.begin():
                    yield connection
            except BaseException as error:
                if is_disconnect(error):
                    await connection.invalidate()
                raise

    @asynccontextmanager
    async def _connected(self, engine: AsyncEngine, timeout: float) -> AsyncIterator[AsyncConnection]:
        try:
            pool = engine.pool
            async with asyncio.timeout(timeout), engine.connect() as connection:
                try:
                    yield connection
                finally:
                    if engine.pool is not pool:  # thrown away meanwhile: nobody closes what comes back to it
                        await connection.invalidate()
        except DRIVER_ERRORS as error:
            if is_disconnect(error) and not self.in_memory:
                await self._forget(engine)
            raise unavailable(error) from error

    async def _forget(self, engine: AsyncEngine) -> None:
        """The connections that are not in use are no better than the one that failed."""
        await engine.dispose()
        if not self.is_sqlite:
            await self._sessions.clear()

    async def check_floor(self) -> None:
        """What the statements need of the server.

        Raises:
            SchemaMismatch: it is too old, or its encoding cannot hold every name.
        """
        if self.is_sqlite:
            if sqlite3.sqlite_version_info < SQLITE_FLOOR:
                raise SchemaMismatch(f"SQLite {sqlite3.sqlite_version} is too old: syncd needs 3.38 or newer")
            return
        async with self.reading() as connection:
            version = (await connection.execute(sa.text("SHOW server_version_num"))).scalar_one()
            encoding = (await connection.execute(sa.text("SHOW server_encoding"))).scalar_one()
        if int(version) < POSTGRESQL_FLOOR:
            raise SchemaMismatch(f"PostgreSQL {int(version) // 10000} is too old: syncd needs 14 or newer")
        if encoding != "UTF8":
            raise SchemaMismatch(f"the database's encoding is {encoding}: make one with ENCODING 'UTF8'")

    async def scrub(self) -> None:
        """Leaves no copy of overwritten values in SQLite's write-ahead log. On PostgreSQL vacuum does its
        part by itself, and no statement reaches the old values.
        """
        if self.is_sqlite:
            async with self.raw() as connection:
                await connection.execute_fetchall("PRAGMA wal_checkpoint(TRUNCATE)")

    async def close(self) -> None:
        """Closes every connection, those in use when they are given back: a cancelled task's comes home in a
        task of its own, and to a pool that was thrown away meanwhile it would come for good.
        """
        for engine in {self._writer, self._reader}:
            with suppress(TimeoutError):
                async with asyncio.timeout(GIVEN_BACK_WITHIN):
                    while self._in_use(engine):  # noqa: ASYNC110
                        await asyncio.sleep(0.001)
            await self._forget(engine)

    def _in_use(self, engine: AsyncEngine) -> int:
        pooled = cast("AsyncAdaptedQueuePool", engine.pool).checkedout()
        return pooled if self.is_sqlite else pooled + self._sessions.busy


@asynccontextmanager
async def translated() -> AsyncIterator[None]:
    """Turns a driver's error into StoreUnavailable."""
    try:
        yield
    except StoreError:
        raise
    except DRIVER_ERRORS as error:
        raise unavailable(error) from error


def _parse(text: str) -> URL:
    try:
        url = make_url(text)
        backend = url.get_backend_name()
    except ArgumentError:
        raise ConfigError(
            "database.url: not a URL; write sqlite:///file.db or postgresql://host/name"
        ) from None
    if backend == "sqlite":
        return url.set(drivername="sqlite+aiosqlite")
    if backend in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    raise ConfigError(f"database.url: {backend} is not supported; use sqlite:/// or postgresql://")


class SqliteConnection(sqlite3.Connection):
    """Gives its lock back when it is closed. SQLite keeps a closed connection, transaction and all, as long
    as a statement of it is alive, and that of a cancelled task lives until it is collected.
    """

    def close(self) -> None:
        # Closed already, where a task was cancelled in closing it: an error here would keep its thread alive.
        with suppress(sqlite3.Error):
            if self.in_transaction:
                self.rollback()
        super().close()


def _sqlite(url: URL, told: Sequence[str], functions: Functions | None, *, writing: bool) -> AsyncEngine:
    engine = create_async_engine(
        url,
        poolclass=AsyncAdaptedQueuePool,
        pool_size=1 if writing else 4,
        max_overflow=0,
        pool_timeout=TRANSACTION_TIMEOUT,
        connect_args={"timeout": BUSY_TIMEOUT, "factory": SqliteConnection},
        hide_parameters=True,
    )

    @sa.event.listens_for(engine.sync_engine, "connect")
    def connected(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # transactions are begun below and nowhere else
        for name, (arity, function) in (functions or {}).items():
            connection.create_function(name, arity, function, deterministic=True)
        cursor = connection.cursor()
        for statement in told:
            cursor.execute(statement)
        cursor.close()

    @sa.event.listens_for(engine.sync_engine, "begin")
    def begun(connection: sa.Connection) -> None:
        # A deferred transaction that comes to write fails at once with BUSY_SNAPSHOT (mirror.md §2).
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    return engine


def _postgresql(url: URL, schema: str, **options: Any) -> AsyncEngine:
    given = url.query.get("options") or os.environ.get("PGOPTIONS", "")
    settings = {
        "search_path": f'"{schema}"',
        "statement_timeout": f"{STATEMENT_TIMEOUT}s",
        "lock_timeout": "30s",
        "idle_in_transaction_session_timeout": "30s",  # a stopped process must not hold its locks for ever
    }
    settings["jit"] = "off"  # it compiles for longer than any of these statements runs
    told = " ".join([str(given), *(f"-c {name}={value}" for name, value in settings.items())]).strip()
    arguments = {
        "options": told,  # in the startup packet: no trip, and no rollback undoes it
        "connect_timeout": CONNECT_TIMEOUT,
        "application_name": url.query.get("application_name") or os.environ.get("PGAPPNAME", "syncd"),
        "keepalives_idle": 15,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 30_000,
    }
    url = url.difference_update_query(["options"])
    return create_async_engine(url, connect_args=arguments, hide_parameters=True, **options)
