"""Whose fault an error is: the row's, or the database's. Every class of every driver has an answer."""

from __future__ import annotations

import inspect
import sqlite3
from collections.abc import Iterator

import aiosqlite
import psycopg
import psycopg.errors
import pytest
import sqlalchemy.exc

from syncd.core.errors import FenceLost, StoreUnavailable
from syncd.store.engine import Engine
from syncd.store.errors import (
    DRIVER_ERRORS,
    driver_error,
    error_code,
    is_disconnect,
    is_row_error,
    unavailable,
)

SQLSTATES = [
    one
    for one in vars(psycopg.errors).values()
    if inspect.isclass(one) and issubclass(one, psycopg.Error) and one.sqlstate
]


def subclasses(root: type[BaseException]) -> Iterator[type[BaseException]]:
    yield root
    for child in root.__subclasses__():
        yield from subclasses(child)


ROOTS = (sqlalchemy.exc.SQLAlchemyError, psycopg.Error, sqlite3.Error, aiosqlite.Error, OSError, TimeoutError)
EVERY = sorted(
    {one for root in ROOTS for one in subclasses(root)}, key=lambda one: f"{one.__module__}.{one.__name__}"
)


def made(kind: type[BaseException]) -> BaseException:
    """An instance, whatever its constructor asks for."""
    error = kind.__new__(kind)
    BaseException.__init__(error, "secret value")
    return error


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_no_class_of_a_driver_is_forgotten(kind: type[BaseException]) -> None:
    assert issubclass(kind, DRIVER_ERRORS)


@pytest.mark.parametrize("kind", SQLSTATES, ids=lambda kind: f"{kind.sqlstate}-{kind.__name__}")
def test_every_sqlstate_is_the_rows_fault_or_the_databases(kind: type[psycopg.Error]) -> None:
    error = kind("secret value")
    state = kind.sqlstate or ""
    assert is_row_error(error) == (state[:2] in ("22", "23", "54"))
    assert is_disconnect(error) == (state[:2] in ("08", "57") or state in ("25006", "26000"))
    assert error_code(error) == f"{kind.__name__} {state}"
    wrapped = sqlalchemy.exc.DBAPIError("INSERT", {"value": "secret"}, error)
    assert driver_error(wrapped) is error
    assert is_row_error(wrapped) == is_row_error(error)
    if is_row_error(error):
        assert "secret" not in str(unavailable(wrapped))


@pytest.mark.parametrize(
    ("statement", "rows_fault"),
    [
        ("INSERT INTO t VALUES (1)", True),  # taken: UNIQUE
        ("INSERT INTO t VALUES (NULL)", True),  # NOT NULL
        ("INSERT INTO t VALUES (99)", True),  # CHECK
        ("INSERT INTO missing VALUES (1)", False),
        ("not sql", False),
        ("SELECT zeroblob(2147483647) || zeroblob(2147483647)", True),  # too big
    ],
)
def test_what_sqlite_says_itself(statement: str, rows_fault: bool) -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (a INTEGER PRIMARY KEY NOT NULL CHECK (a < 50)) WITHOUT ROWID")
    connection.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(sqlite3.Error) as caught:
        connection.execute(statement).fetchall()
    connection.close()
    assert is_row_error(caught.value) == rows_fault


def test_what_a_driver_refuses_before_sending_is_the_rows_fault() -> None:
    connection = sqlite3.connect(":memory:")
    for value in (2**63, "\ud800"):
        with pytest.raises(Exception) as caught:
            connection.execute("SELECT ?", (value,))
        assert is_row_error(caught.value)
    connection.close()
    assert is_row_error(psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes"))


@pytest.mark.parametrize(
    "error",
    [
        psycopg.OperationalError("the connection is closed"),
        psycopg.errors.ReadOnlySqlTransaction("25006"),
        psycopg.errors.DiskFull("53100"),
        psycopg.errors.TooManyConnections("53300"),
        psycopg.errors.SerializationFailure("40001"),
        psycopg.errors.DeadlockDetected("40P01"),
        psycopg.errors.LockNotAvailable("55P03"),
        psycopg.errors.AdminShutdown("57P01"),
        psycopg.errors.QueryCanceled("57014"),
        sqlalchemy.exc.TimeoutError("QueuePool limit"),
        ConnectionRefusedError(),
        TimeoutError(),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_database_that_is_away_raises_store_unavailable(error: Exception) -> None:
    assert not is_row_error(error)
    engine = Engine("sqlite://")
    try:
        with pytest.raises(StoreUnavailable) as caught:
            async with engine.writing():
                raise error
        assert caught.value.__cause__ is error
    finally:
        await engine.close()


async def test_our_own_errors_pass() -> None:
    engine = Engine("sqlite://")
    with pytest.raises(FenceLost):
        async with engine.writing():
            raise FenceLost("moved")
    await engine.close()
