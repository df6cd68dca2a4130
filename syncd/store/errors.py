"""From a driver's error to ours; it decides nothing beyond whose fault it was.

Two questions only. Was it the *row*: SQLSTATE classes 22 (data), 23 (integrity), 54 (program limit), or a
value that the driver could not even send? Then the row goes to quarantine (mirror.md §10). Anything else
is the *database*: away, read-only, full, busy, out of connections, timed out; the batch is held.
"""

from __future__ import annotations

import asyncio
import sqlite3

import psycopg
import sqlalchemy.exc

from syncd.core.errors import StoreUnavailable

DRIVER_ERRORS: tuple[type[BaseException], ...] = (
    sqlalchemy.exc.SQLAlchemyError,
    psycopg.Error,
    sqlite3.Error,
    OSError,
    TimeoutError,
    asyncio.TimeoutError,
)
"""Everything that a database call may raise and that says something about the database."""

ROW_ERRORS: tuple[type[BaseException], ...] = (*DRIVER_ERRORS, UnicodeError, OverflowError, ValueError)
"""What one refused row may raise: drivers also refuse values in Python, before anything is sent."""

_ROW_CLASSES = frozenset({"22", "23", "54"})
_SQLITE_ROW = frozenset({sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH})
_LOST = frozenset({"08", "57"})  # connection exception, operator intervention
_USELESS = frozenset({"25006", "26000"})
"""The server became a standby, or forgot what the session had prepared: another connection may do better."""
_SQLITE_LOST = frozenset(
    {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
    | {sqlite3.SQLITE_READONLY}  # also where the file was moved away under the connection
)


def driver_error(error: BaseException) -> BaseException:
    """The driver's own error inside SQLAlchemy's wrapping."""
    if isinstance(error, sqlalchemy.exc.DBAPIError) and error.orig is not None:
        inner: BaseException = error.orig
        # the asyncio dialects wrap once more where they translate classes
        return inner.__cause__ if isinstance(inner.__cause__, (psycopg.Error, sqlite3.Error)) else inner
    return error


def is_row_error(error: BaseException) -> bool:
    """Whether the database refused a row for its data, so that the others may go on without it."""
    cause = driver_error(error)
    if isinstance(cause, psycopg.Error):
        if cause.sqlstate is None:
            return isinstance(cause, (psycopg.DataError, psycopg.IntegrityError))
        return cause.sqlstate[:2] in _ROW_CLASSES
    if isinstance(cause, sqlite3.Error):
        code = getattr(cause, "sqlite_errorcode", None)
        if code is None:  # raised by the module itself while binding
            return isinstance(cause, (sqlite3.DataError, sqlite3.IntegrityError, sqlite3.InterfaceError))
        return code & 0xFF in _SQLITE_ROW
    if isinstance(cause, (sqlalchemy.exc.DataError, sqlalchemy.exc.IntegrityError)):
        return True
    return isinstance(cause, (UnicodeError, OverflowError, ValueError))


def is_disconnect(error: BaseException) -> bool:
    """Whether the connection is of no more use, so that the pool's others are suspect too."""
    cause = driver_error(error)
    if isinstance(cause, psycopg.Error):
        if isinstance(cause, (psycopg.OperationalError, psycopg.InterfaceError)) and cause.sqlstate is None:
            return True
        return (cause.sqlstate or "")[:2] in _LOST or cause.sqlstate in _USELESS
    if isinstance(cause, sqlite3.Error):
        return getattr(cause, "sqlite_errorcode", 0) & 0xFF in _SQLITE_LOST
    return isinstance(cause, (OSError, TimeoutError))


def error_code(error: BaseException) -> str:
    """Class and code, and never a value: an error's text may quote the row."""
    cause = driver_error(error)
    code = getattr(cause, "sqlstate", None) or getattr(cause, "sqlite_errorname", None) or ""
    return f"{type(cause).__name__} {code}".strip()


def unavailable(error: BaseException) -> StoreUnavailable:
    """Ours, with the first line of the driver's message; where it is about a row it may quote a value, so
    there only the code is kept.
    """
    cause = driver_error(error)
    lines = [] if is_row_error(error) else str(cause).strip().splitlines()
    text = lines[0][:256] if lines else ""
    return StoreUnavailable(
        f"the database: {error_code(error)}: {text}" if text else f"the database: {error_code(error)}"
    )
