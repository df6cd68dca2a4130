"""The lease: refusal, takeover when gone, when lapsed, when stopped, and the fence behind all of it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from syncd.core.errors import FenceLost, LeaseHeld, StoreUnavailable
from syncd.core.resource import Cause
from syncd.store.database import Database
from syncd.store.lease import Lease
from syncd.store.lock import alive
from tests.contract.mirror_case import STREAM, Mirror, Place, Ticking, item, look, opened

LONG_AGO = "2026-01-01 00:00:00.000000"


@pytest.fixture
async def mirror(place: Place) -> AsyncIterator[Mirror]:
    async with opened(place) as mirror:
        yield mirror


@asynccontextmanager
async def another(
    place: Place, host: str = "here", pid: int | None = None
) -> AsyncIterator[tuple[Database, Lease]]:
    """A second daemon on the database, on this machine unless it says otherwise."""
    database = Database(place.url, place.schema)
    lease = database.lease(host, os.getpid() + 1 if pid is None else pid, "test")
    try:
        yield database, lease
    finally:
        await lease.close()
        await database.close()


@asynccontextmanager
async def holder(place: Place) -> AsyncIterator[Process]:
    """A daemon in a process of its own, with the lease in hand."""
    database = Database(place.url, place.schema)
    await database.migrate()
    await database.close()
    script = str(Path(__file__).with_name("lease_holder.py"))
    process = await asyncio.create_subprocess_exec(
        sys.executable, script, place.url, place.schema, stdin=PIPE, stdout=PIPE
    )
    try:
        assert await said(process) == "ready"
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
        await process.wait()


async def said(process: Process) -> str:
    assert process.stdout is not None
    return (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip()


async def step(process: Process) -> str:
    """One commit and one heartbeat of the holder; what came of it."""
    assert process.stdin is not None
    process.stdin.write(b"\n")
    await process.stdin.drain()
    return await said(process)


async def acquire_soon(lease: Lease) -> None:
    """As a starting daemon does: a killed one's session takes the server a moment to notice."""
    async with asyncio.timeout(30):
        while True:
            try:
                await lease.acquire()
            except LeaseHeld:
                await asyncio.sleep(0.05)
            else:
                return


async def test_a_second_daemon_is_refused_by_name(mirror: Mirror) -> None:
    await mirror.lease.heartbeat()
    async with another(mirror.place) as (_, lease):
        with pytest.raises(LeaseHeld, match=rf"here, process {os.getpid()}, since 20\d\d-"):
            await lease.acquire()
    row = await mirror.open(item("a/x", 5))
    assert row.holder == mirror.lease.token


async def test_a_released_lease_is_free_at_once(mirror: Mirror) -> None:
    row = await mirror.open(item("a/x", 5))
    await mirror.lease.release()
    with pytest.raises(FenceLost):
        await mirror.store.open(STREAM)
    async with another(mirror.place) as (database, lease):
        await lease.acquire()
        opened = await database.store(lease).open(STREAM)
        assert (opened.resource_version, opened.epoch) == (row.resource_version, row.epoch)
    with pytest.raises(FenceLost):
        await mirror.put(row, item("a/x", 200))


async def test_a_lapsed_holder_is_fenced_off_wherever_it_writes(mirror: Mirror) -> None:
    row = await mirror.open(item("a/x", 5))
    look(mirror.place, f"UPDATE syncd_leases SET heartbeat_at = '{LONG_AGO}'")
    async with another(mirror.place, "there") as (_, lease):
        token = await lease.acquire()
        assert mirror.look("SELECT DISTINCT holder FROM syncd_streams") == [(token,)]
        with pytest.raises(FenceLost):
            await mirror.lease.heartbeat({row.stream_id: 9.0})
        for write in (
            mirror.put(row, item("a/x", 200)),
            mirror.store.open(STREAM),
            mirror.store.begin_epoch(row, "no"),
            mirror.store.retire(row.stream_id, cause=Cause.DESELECTED),
            mirror.store.mark_stream(row.stream_id, row.state, "no"),
            mirror.store.mark_cluster("prod", row.state, "no"),
            mirror.store.begin_reconciliation(row, deep=False, dry_run=True, request_id=None),
            mirror.store.answer(1, error="", result={}),
            mirror.database.purge(mirror.lease, keep=timedelta(0)),
        ):
            with pytest.raises(FenceLost):
                await write
        await mirror.lease.release()
        assert mirror.look("SELECT token FROM syncd_leases") == [(token,)]
    assert mirror.versions() == {"a/x": "5"}
    assert mirror.look("SELECT last_error, lag_seconds FROM syncd_streams") == [("", 0.0)]


async def test_a_heartbeat_keeps_it_and_writes_the_lags(mirror: Mirror) -> None:
    row = await mirror.open(item("a/x", 5))
    look(mirror.place, f"UPDATE syncd_leases SET heartbeat_at = '{LONG_AGO}'")
    await mirror.lease.heartbeat({row.stream_id: 1.52, 99: 3.0})
    status = await mirror.database.status()
    assert status.lease is not None
    assert status.database_now - status.lease.heartbeat_at < timedelta(seconds=15)
    assert status.streams[0].lag_seconds == 1.5
    async with another(mirror.place, "there") as (_, lease):
        with pytest.raises(LeaseHeld):
            await lease.acquire()


@pytest.mark.postgres
async def test_a_heartbeat_leaves_the_rows_of_busy_streams_alone(postgres_place: Place) -> None:
    async with opened(postgres_place) as mirror:
        row = await mirror.open(item("a/x", 5))
        before = mirror.look("SELECT xmin::text, ctid::text FROM syncd_streams")
        await mirror.lease.heartbeat({row.stream_id: 0.004})  # an event on its way to the table
        assert mirror.look("SELECT xmin::text, ctid::text FROM syncd_streams") == before
        await mirror.lease.heartbeat({row.stream_id: 2.0})
        await mirror.lease.heartbeat({row.stream_id: 0.0})
        assert mirror.look("SELECT lag_seconds FROM syncd_streams") == [(0.0,)]


async def test_time_is_the_databases(place: Place) -> None:
    clock = Ticking(now=datetime(2001, 1, 1, tzinfo=UTC))
    async with opened(place, clock=clock) as mirror:
        status = await mirror.database.status()
        assert abs(mirror.lease.now() - status.database_now) < timedelta(minutes=1)
        clock.pass_by(timedelta(days=3))
        await mirror.lease.heartbeat()
        assert abs(mirror.lease.now() - status.database_now) < timedelta(minutes=1)


async def test_two_that_come_at_once_are_one(place: Place) -> None:
    database = Database(place.url, place.schema)
    await database.migrate()
    leases = [database.lease(f"host-{n}", n, "test") for n in range(4)]
    try:
        outcomes = await asyncio.gather(*(lease.acquire() for lease in leases), return_exceptions=True)
        assert sorted(type(one).__name__ for one in outcomes) == ["LeaseHeld"] * 3 + ["str"]
    finally:
        for lease in leases:
            await lease.close()
        await database.close()


async def test_a_killed_holder_is_followed_at_once(place: Place) -> None:
    async with holder(place) as process, another(place) as (database, lease):
        assert await step(process) == "committed"
        with pytest.raises(LeaseHeld):
            await lease.acquire()
        process.kill()
        await process.wait()
        await acquire_soon(lease)  # its heartbeat is younger than the lapse
        row = await database.store(lease).open(STREAM)
        assert row.resource_version == "1001"


async def test_a_killed_holder_elsewhere_must_lapse_on_postgresql(postgres_place: Place) -> None:
    """A session that ended says nothing about a process that we cannot see."""
    async with holder(postgres_place) as process, another(postgres_place, "there") as (_, lease):
        process.kill()
        await process.wait()
        with pytest.raises(LeaseHeld):
            await lease.acquire()
        look(postgres_place, f"UPDATE syncd_leases SET heartbeat_at = '{LONG_AGO}'")
        await lease.acquire()


async def test_a_stopped_holder_wakes_up_fenced(place: Place) -> None:
    async with holder(place) as process, another(place) as (database, lease):
        assert await step(process) == "committed"
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(LeaseHeld):
            await lease.acquire()
        look(place, f"UPDATE syncd_leases SET heartbeat_at = '{LONG_AGO}'")
        await lease.acquire()
        process.send_signal(signal.SIGCONT)
        assert await step(process) == "fenced"
        assert look(place, "SELECT resource_version FROM syncd_objects") == [("1001",)]
        row = await database.store(lease).open(STREAM)
        assert row.resource_version == "1001"


async def test_a_holder_stopped_inside_a_transaction_cannot_block_a_takeover(postgres_place: Place) -> None:
    async with opened(postgres_place) as mirror, another(postgres_place, "there") as (_, lease):
        row = await mirror.open(item("a/x", 5))
        options = f"-c search_path={postgres_place.schema}"
        with psycopg.connect(postgres_place.url, options=options) as stopped:
            stopped.execute("UPDATE syncd_streams SET resource_version = '9'")
            look(postgres_place, f"UPDATE syncd_leases SET heartbeat_at = '{LONG_AGO}'")
            await asyncio.wait_for(lease.acquire(), 20)
            with pytest.raises(psycopg.OperationalError):
                stopped.execute("SELECT 1")
        found = await mirror.store.read(row.stream_id)
        assert found is not None
        assert (found.resource_version, found.holder) == ("100", lease.token)


async def test_a_daemon_that_lost_its_session_is_not_followed(postgres_place: Place) -> None:
    async with opened(postgres_place) as mirror, another(postgres_place) as (_, lease):
        killer = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
            f" AND application_name = '{postgres_place.application}'"
        )
        look(postgres_place, killer)
        with pytest.raises(LeaseHeld):
            await acquire_once(lease)
        await heartbeat_soon(mirror.lease)
        assert mirror.look("SELECT lock_held FROM syncd_leases") == [(True,)]
        await mirror.open(item("a/x", 5))


async def acquire_once(lease: Lease) -> None:
    """The first attempt may meet the session that was ended."""
    try:
        await lease.acquire()
    except StoreUnavailable:
        await lease.acquire()


async def heartbeat_soon(lease: Lease) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                return await lease.heartbeat()
            except StoreUnavailable:
                await asyncio.sleep(0.05)


async def test_a_file_lock_that_was_not_held_proves_nothing(sqlite_place: Place) -> None:
    """One that took over from a stopped daemon had no lock; the stopped one may die before it gets it."""
    async with opened(sqlite_place) as mirror, another(sqlite_place, pid=os.getppid()) as (_, lease):
        await mirror.lease.close()  # lets go of the file lock alone
        look(sqlite_place, "UPDATE syncd_leases SET lock_held = 0, pid = 1")
        with pytest.raises(LeaseHeld):
            await lease.acquire()
        await mirror.lease.heartbeat()
        assert mirror.look("SELECT lock_held FROM syncd_leases") == [(1,)]


async def test_alive_is_about_processes() -> None:
    assert alive(os.getpid())
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
    await process.wait()
    assert not alive(process.pid)
    assert not alive(2**22 + 1)
