"""A query of somebody's own: read and nothing else, whatever the text says.

PostgreSQL: a read-only transaction, the text sent as one statement and behind a cursor, which takes nothing
that writes. SQLite: the file is opened for reading alone (not as immutable: a daemon may be writing to it),
and only what reads is let through. Neither is a fence against a hostile user, whose rights are those of the
URL; a role of one's own is.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

import psycopg
import sqlalchemy as sa

from syncd.core.errors import QueryError, SchemaMismatch, StoreUnavailable
from syncd.store import migrate
from syncd.store.engine import BUSY_TIMEOUT, Engine
from syncd.store.errors import driver_error, unavailable

PAGE = 1000
"""Rows that are fetched at once."""
_LONGEST = 6 * 3600.0  # seconds; a reader may page through a result as slowly as it likes
_NO_CURSOR = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(explain|show)\b", re.IGNORECASE | re.DOTALL)
_STEPS = 10_000  # of SQLite's machine between two looks at the clock
_READS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
_TOLD = {"table_info", "table_xinfo", "table_list", "index_list", "index_info"}  # pragmas as functions
_HINTS = {
    "42P01": "`syncd tables` lists what there is",
    "42703": "`syncd tables NAME` lists the columns",
    "42601": "it takes one SELECT, WITH, VALUES, TABLE, EXPLAIN or SHOW",  # also for what writes
}
_TOO_LONG = "not done in {:g} s; give it longer with --timeout"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Answer:
    """Of a query.

    Attributes:
        columns: their names.
        pages: the rows, some at a time, in values of Python; to be read inside the block that gave it.
    """

    columns: tuple[str, ...]
    pages: AsyncIterator[list[tuple[Any, ...]]]


@asynccontextmanager
async def asking(engine: Engine, text: str, seconds: float) -> AsyncIterator[Answer]:
    """The answer to a query, as long as the block lasts.

    Args:
        seconds: that the database may work on it, on PostgreSQL on each page.

    Raises:
        QueryError: the text is wrong, is no query, or takes too long.
        StoreUnavailable: the database is away.
        SchemaMismatch: SQLite: there is no file yet.
    """
    found = _sqlite(engine, text, seconds) if engine.is_sqlite else _postgresql(engine, text, seconds)
    async with found as answer:
        yield answer


@asynccontextmanager
async def _postgresql(engine: Engine, text: str, seconds: float) -> AsyncIterator[Answer]:
    try:
        async with engine.reading(timeout=_LONGEST) as connection:
            await connection.execute(sa.text("SET TRANSACTION READ ONLY"))
            for name, value in (
                ("statement_timeout", f"{seconds * 1000:.0f}"),
                ("idle_in_transaction_session_timeout", "0"),
                ("cursor_tuple_fraction", "1"),  # all of it will be read
            ):
                await connection.execute(sa.text(f"SET LOCAL {name} = {value}"))
            driver: Any = (await connection.get_raw_connection()).driver_connection
            by_itself = bool(_NO_CURSOR.match(text))
            # Prepared, or behind a cursor, it is sent by itself: a second statement is an error.
            options = {"prepare": True} if by_itself else {}
            async with driver.cursor("" if by_itself else "syncd_query") as cursor:
                await cursor.execute(text, **options)
                columns = tuple(column.name for column in cursor.description or ())
                yield Answer(columns, _pages(cursor.fetchmany))
    except StoreUnavailable as error:
        cause = driver_error(error.__cause__) if error.__cause__ is not None else None
        if not isinstance(cause, psycopg.Error) or cause.sqlstate is None:
            raise
        if cause.sqlstate[:2] in ("08", "53", "57") and cause.sqlstate != "57014":
            raise
        raise QueryError(_said(cause, seconds)) from error


def _said(error: psycopg.Error, seconds: float) -> str:
    """What the server says is wrong, and what to do. Where in the text it says too, but counts the words of
    the cursor.
    """
    if error.sqlstate == "57014":  # query_canceled
        return _TOO_LONG.format(seconds)
    said = error.diag.message_primary or str(error)
    hint = error.diag.message_hint or _HINTS.get(error.sqlstate or "", "")
    return f"{said}; {hint[:1].lower()}{hint[1:]}".rstrip(".") if hint else said


async def _pages(fetch: Callable[[int], Any]) -> AsyncIterator[list[tuple[Any, ...]]]:
    while page := await fetch(PAGE):
        yield page


@asynccontextmanager
async def _sqlite(engine: Engine, text: str, seconds: float) -> AsyncIterator[Answer]:
    """In one thread of its own, which a look at the clock every so many steps can stop."""
    if engine.path is None:
        raise QueryError("a database in memory is nobody else's; write sqlite:///file.db")
    if migrate.missing(engine):
        raise SchemaMismatch(f"there is no file {engine.path}; `syncd migrate` makes it")
    stop = threading.Event()
    loop, thread = asyncio.get_running_loop(), ThreadPoolExecutor(1, "query")
    reader = _Reader(engine.path.as_posix(), seconds, stop)

    async def work(do: Callable[[], _T]) -> _T:
        return await loop.run_in_executor(thread, do)

    async def fetch(rows: int) -> list[tuple[Any, ...]]:
        return await work(lambda: reader.fetch(rows))

    try:
        columns = await work(lambda: reader.ask(text))
        yield Answer(columns, _pages(fetch))
    finally:
        stop.set()
        thread.submit(reader.close)
        await asyncio.to_thread(thread.shutdown)


class _Reader:
    """A connection that reads; every method is called in one thread."""

    def __init__(self, path: str, seconds: float, stop: threading.Event) -> None:
        self._path = path
        self._seconds = seconds
        self._stop = stop
        self._deadline = time.monotonic() + seconds
        self._refused = ""

    def ask(self, text: str) -> tuple[str, ...]:
        with self._translated():
            self._connection = sqlite3.connect(
                f"file:{quote(self._path)}?mode=ro", uri=True, timeout=BUSY_TIMEOUT
            )
            self._connection.execute("PRAGMA query_only = ON")
            self._connection.set_authorizer(self._allowed)
            self._connection.set_progress_handler(self._over, _STEPS)
            self._cursor = self._connection.execute(text)
            return tuple(column[0] for column in self._cursor.description or ())

    def fetch(self, rows: int) -> list[tuple[Any, ...]]:
        with self._translated():
            return self._cursor.fetchmany(rows)

    def close(self) -> None:
        if hasattr(self, "_connection"):
            self._connection.close()

    def _allowed(self, action: int, first: str | None, *_: Any) -> int:
        if action in _READS or (action == sqlite3.SQLITE_PRAGMA and first in _TOLD):
            return sqlite3.SQLITE_OK
        self._refused = "only what reads is let through: SELECT, WITH, VALUES, EXPLAIN"
        return sqlite3.SQLITE_DENY

    def _over(self) -> bool:
        return self._stop.is_set() or time.monotonic() > self._deadline

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise self._meaning(error) from error

    def _meaning(self, error: Exception) -> QueryError | StoreUnavailable:
        if self._refused:
            return QueryError(self._refused)
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code == sqlite3.SQLITE_INTERRUPT:
            return QueryError(_TOO_LONG.format(self._seconds))
        if code not in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG):
            return unavailable(error)
        said = str(error)
        state = {"no such table": "42P01", "no such column": "42703"}.get(said.partition(":")[0], "")
        return QueryError(f"{said}; {_HINTS[state]}" if state else said)
