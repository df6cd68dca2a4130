"""The database is read-only, away, locked or full, under churn: nothing is lost, nobody restarts syncd."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import resource
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
import sqlalchemy as sa

from syncd.store.engine import Engine
from tests.conftest import DatabasePlace, start_postgres
from tests.e2e.world import CONFIGMAPS, PODS, World, until


@pytest.fixture
def own_postgres() -> Iterator[Any]:
    """A server of this test's own, which it may break."""
    directory = Path(tempfile.mkdtemp(prefix="syncd-pg-"))
    server = start_postgres(directory)
    try:
        yield server
    finally:
        pg_ctl(server, "-w", "-m", "fast", "stop")  # the package knows only the process that it started
        with contextlib.suppress(psutil.NoSuchProcess):  # which may go just as it looks at it
            server.cleanup()
        shutil.rmtree(directory, ignore_errors=True)


def pg_ctl(server: Any, *arguments: str) -> None:
    command = [server.bin_path / "pg_ctl", "-D", server.pgdata, *arguments]
    subprocess.run(command, check=True, user=server.system_user, stdout=subprocess.DEVNULL, timeout=60)


def held(status: dict[str, Any]) -> list[str]:
    """What streams say of the database: a batch is held, or the stream cannot even be opened."""
    streams = [stream for cluster in status["clusters"] for stream in cluster["streams"]]
    return [said for stream in streams for said in (stream["held"], stream["error"]) if "database" in said]


async def told(process: Any) -> list[str]:
    return held((await process.get("/status")).json())


async def holding(process: Any) -> None:
    """Waits until it says that it holds commits back."""
    for _ in range(600):
        if await told(process):
            return
        await asyncio.sleep(0.05)
    raise AssertionError("nothing is held")


@pytest.mark.postgres
async def test_postgresql_read_only_then_restarted(own_postgres: Any, tmp_path: Path) -> None:
    url = own_postgres.get_uri()
    async with World(DatabasePlace("postgresql", url), tmp_path) as world:
        world.workload.pods(150)
        world.workload.configmaps(50)
        world.write_config("pods", "configmaps")
        process = await world.spawn(scale=0.2)
        await process.ready()
        world.table.watch_writes()
        async with world.churn(150):
            await asyncio.sleep(0.5)
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("ALTER SYSTEM SET default_transaction_read_only = on")
                connection.execute("SELECT pg_reload_conf()")
                await asyncio.sleep(0.3)  # until the postmaster has read it
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
                )
            await asyncio.sleep(2.0)
            await holding(process)
            count = len(world.table.writes())
            await asyncio.sleep(1.0)
            assert len(world.table.writes()) == count
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("SET default_transaction_read_only = off")
                connection.execute("ALTER SYSTEM RESET default_transaction_read_only")
                connection.execute("SELECT pg_reload_conf()")
            await until(lambda: len(world.table.writes()) > count, "what was held is written")
            await asyncio.to_thread(pg_ctl, own_postgres, "-w", "-m", "fast", "restart")
            await asyncio.sleep(1.0)
        await world.level(PODS, CONFIGMAPS)
        await process.ready()
        assert process.code is None
        assert await told(process) == []
        assert await process.stop() == 0


@pytest.mark.postgres
async def test_sigterm_while_postgresql_is_away(own_postgres: Any, tmp_path: Path) -> None:
    async with World(DatabasePlace("postgresql", own_postgres.get_uri()), tmp_path) as world:
        world.workload.pods(50)
        world.write_config("pods")
        process = await world.spawn()
        await process.ready()
        await asyncio.to_thread(pg_ctl, own_postgres, "-w", "-m", "fast", "stop")
        async with world.churn(50):
            await asyncio.sleep(1.0)
            assert process.code is None
            assert await process.stop() == 0, process.text
        again = await world.spawn()  # and one that starts meanwhile waits for it
        await until(lambda: "no database yet" in again.text, "it waits")
        await asyncio.to_thread(
            pg_ctl,
            own_postgres,
            "-w",
            "-o",
            f'-h "" -k {_socket(own_postgres)}',
            "-l",
            str(own_postgres.pgdata / "log"),
            "start",
        )
        await again.ready()
        await world.level(PODS)
        assert await again.stop() == 0


def _socket(server: Any) -> str:
    return str(server.get_postmaster_info().socket_dir)


@contextlib.asynccontextmanager
async def locked(path: Path) -> AsyncIterator[None]:
    """Another process' writing transaction, which never seems to end."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=20)
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")
    finally:
        connection.close()


async def test_sqlite_locked_by_another(sqlite_place: DatabasePlace, tmp_path: Path) -> None:
    async with World(sqlite_place, tmp_path) as world:
        world.workload.pods(100)
        world.write_config("pods")
        process = await world.spawn(scale=0.2)
        await process.ready()
        async with world.churn(100):
            async with locked(sqlite_place.path):
                await asyncio.sleep(12.5)  # longer than a connection waits
                await holding(process)
            await asyncio.sleep(0.5)
        await world.level(PODS)
        async with locked(sqlite_place.path), world.churn(100):
            await asyncio.sleep(0.5)
            assert await process.stop() == 0, process.text
        again = await world.spawn()
        await again.ready()
        await world.level(PODS)
        assert await again.stop() == 0


async def test_sqlite_on_a_full_disk(sqlite_place: DatabasePlace, tmp_path: Path) -> None:
    """A process whose files may not grow: the write fails as on a full disk, until there is room."""
    async with World(sqlite_place, tmp_path) as world:
        world.workload.pods(100)
        world.write_config("pods")
        process = await world.spawn(scale=0.2, PYTHONFAULTHANDLER="")
        await process.ready()
        wal = Path(f"{sqlite_place.path}-wal")
        unlimited = resource.RLIM_INFINITY
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (wal.stat().st_size + 20_000, unlimited))
        async with world.churn(200):
            for _ in range(200):
                if await told(process):
                    break
                await asyncio.sleep(0.1)
            assert await told(process)
            await asyncio.sleep(1.0)
            assert process.code is None, process.text
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (unlimited, unlimited))
            await asyncio.sleep(0.5)
        await world.level(PODS)
        assert await told(process) == []
        assert await process.stop() == 0
        assert world.table.one("PRAGMA integrity_check") == "ok"


async def test_a_cancelled_transaction_locks_nobody_out(sqlite_place: DatabasePlace) -> None:
    """Whatever statement it is cut in; what still refers to the statement must not matter."""
    engine = Engine(sqlite_place.url)
    async with engine.writing() as connection:
        await connection.execute(sa.text("CREATE TABLE t (a)"))

    async def write() -> None:
        async with engine.writing() as connection:
            for _ in range(5):
                await connection.execute(sa.text("INSERT INTO t VALUES (1) RETURNING a"))

    gc.disable()
    cancelled = []
    try:
        for number in range(60):
            task = asyncio.create_task(write())
            await asyncio.sleep(0.0005 * (number % 20))
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            cancelled.append(task)  # and with it the traceback and its cursors
            async with asyncio.timeout(5.0), engine.writing() as connection:
                await connection.execute(sa.text("INSERT INTO t VALUES (2)"))
    finally:
        gc.enable()
        await engine.close()
