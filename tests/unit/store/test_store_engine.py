"""URLs and settings; nothing here connects."""

from __future__ import annotations

import sqlite3

import pytest

from syncd.core.errors import ConfigError
from syncd.store.engine import Engine, SqliteConnection
from syncd.store.lease import LAPSE
from syncd.store.merge import Tally


@pytest.mark.parametrize(
    ("url", "driver"),
    [
        ("sqlite:///mirror.db", "sqlite+aiosqlite"),
        ("sqlite://", "sqlite+aiosqlite"),
        ("postgresql://host/db", "postgresql+psycopg"),
        ("postgresql:///db?host=/run/postgresql", "postgresql+psycopg"),
        ("postgresql+psycopg://host/db", "postgresql+psycopg"),
        ("postgres://host/db", "postgresql+psycopg"),
        ("postgresql://", "postgresql+psycopg"),  # all of it from libpq's environment
    ],
)
async def test_urls_that_are_understood(url: str, driver: str) -> None:
    engine = Engine(url)
    assert engine.url.drivername == driver
    assert engine.is_sqlite == driver.startswith("sqlite")
    await engine.close()


@pytest.mark.parametrize("url", ["", "mirror.db", "mysql://host/db", "://", "sqlite:mirror.db"])
def test_urls_that_are_not(url: str) -> None:
    with pytest.raises(ConfigError, match=r"database\.url"):
        Engine(url)


@pytest.mark.parametrize("schema", ["", 'a"b', "a b", "1a", "a;b", "x" * 64])
def test_schema_names_that_are_not(schema: str) -> None:
    with pytest.raises(ConfigError, match=r"database\.schema"):
        Engine("postgresql://host/db", schema)


def test_a_password_is_not_in_the_error() -> None:
    with pytest.raises(ConfigError) as caught:
        Engine("mysql://me:hunter2@host/db")
    assert "hunter2" not in str(caught.value)


async def test_a_file_has_a_path_and_memory_has_none() -> None:
    for url, path in (("sqlite:////var/lib/mirror.db", "/var/lib/mirror.db"), ("sqlite://", None)):
        engine = Engine(url)
        assert (engine.path and str(engine.path)) == path
        await engine.close()


def test_a_connection_can_be_closed_twice() -> None:
    """As where a task is cancelled while it closes one: its thread would never end."""
    connection = sqlite3.connect(":memory:", factory=SqliteConnection, isolation_level=None)
    connection.execute("BEGIN")
    connection.close()
    connection.close()


def test_the_lease_lapses_after_what_the_status_calls_stale() -> None:
    assert LAPSE == 15.0


def test_tallies_add_up() -> None:
    one, two = Tally(inserted=1, gained=1, left={7: 1}), Tally(updated=2, skipped=3, left={7: 2, 8: 1})
    one.add(two)
    assert one == Tally(inserted=1, updated=2, skipped=3, gained=1, left={7: 3, 8: 1})
