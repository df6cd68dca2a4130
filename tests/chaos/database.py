"""One seed's database, and what is done to it. A window closes by itself, or when it is asked to."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import sqlite3
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psycopg

from tests.conftest import DatabasePlace, start_postgres

ROLE = "chaos"


class Windows:
    """Faults that last: each is opened, and closed after its time or all together."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._close = asyncio.Event()

    def open(
        self, window: Callable[[], contextlib.AbstractAsyncContextManager[None]], seconds: float
    ) -> None:
        """Opens one beside those that are open."""

        async def hold() -> None:
            async with window():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._close.wait(), seconds)

        self._tasks.add(asyncio.create_task(hold()))

    async def close(self) -> None:
        """Closes all, and raises what went wrong in one."""
        self._close.set()
        tasks, self._tasks = self._tasks, set()
        for task in tasks:
            await task
        self._close.clear()


class Server:
    """PostgreSQL for all seeds of a run, with a role that is no superuser, so that it can be refused."""

    def __init__(self, directory: Path) -> None:
        self._server = start_postgres(directory)
        self._admin = self._server.get_uri()
        self._telling = threading.Lock()  # two windows may open at once, and alter the same role
        with self.admin() as connection:
            connection.execute(f"CREATE ROLE {ROLE} LOGIN")
            connection.execute(f"GRANT CREATE ON DATABASE postgres TO {ROLE}")

    def admin(self) -> psycopg.Connection[Any]:
        """A superuser's session; a server that restarts is waited for."""
        for _ in range(100):
            with contextlib.suppress(psycopg.OperationalError):
                return psycopg.connect(self._admin, autocommit=True)
            time.sleep(0.05)
        return psycopg.connect(self._admin, autocommit=True)

    def place(self) -> DatabasePlace:
        """A schema that does not exist yet."""
        url = self._admin.replace("postgresql://postgres:", f"postgresql://{ROLE}:")
        return DatabasePlace("postgresql", url, f"chaos_{secrets.token_hex(4)}")

    def drop(self, place: DatabasePlace) -> None:
        self.end_sessions()
        with self.admin() as connection:
            connection.execute(f'DROP SCHEMA IF EXISTS "{place.schema}" CASCADE')

    def end_sessions(self) -> None:
        with self._telling, self.admin() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s"
                " AND application_name <> 'reader'",
                (ROLE,),
            )

    def tell(self, *statements: str) -> None:
        with self._telling, self.admin() as connection:
            for statement in statements:
                connection.execute(statement)

    def restart(self) -> None:
        """What goes on in a superuser's session ends first."""
        with self._telling:
            self._restart()

    def _restart(self) -> None:
        server = self._server
        command = [server.bin_path / "pg_ctl", "-D", server.pgdata, "-w", "-m", "fast", "restart"]
        subprocess.run(command, check=True, user=server.system_user, stdout=subprocess.DEVNULL, timeout=60)

    def close(self) -> None:
        self._server.cleanup()


class PostgresqlFaults:
    """What can be done to one schema's sessions."""

    def __init__(self, server: Server, place: DatabasePlace) -> None:
        self._server = server
        self._place = place

    async def end_sessions(self) -> None:
        await asyncio.to_thread(self._server.end_sessions)

    async def restart(self) -> None:
        await asyncio.to_thread(self._server.restart)

    @contextlib.asynccontextmanager
    async def read_only(self) -> AsyncIterator[None]:
        """New sessions can only read; there are none but new ones."""
        tell = self._server.tell
        await asyncio.to_thread(tell, f"ALTER ROLE {ROLE} SET default_transaction_read_only = on")
        await self.end_sessions()
        try:
            yield
        finally:
            await asyncio.to_thread(tell, f"ALTER ROLE {ROLE} RESET default_transaction_read_only")
            await self.end_sessions()

    @contextlib.asynccontextmanager
    async def refused(self) -> AsyncIterator[None]:
        """No new session is let in, as where connections are exhausted, and the old ones are ended."""
        tell = self._server.tell
        await asyncio.to_thread(tell, f"ALTER ROLE {ROLE} CONNECTION LIMIT 0")
        await self.end_sessions()
        try:
            yield
        finally:
            await asyncio.to_thread(tell, f"ALTER ROLE {ROLE} CONNECTION LIMIT -1")

    @contextlib.asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Somebody else's transaction has the objects."""
        connection = await asyncio.to_thread(self._server.admin)
        try:
            with contextlib.suppress(psycopg.Error):  # no table yet, a deadlock, a restart: then it has none
                await asyncio.to_thread(connection.execute, f'SET search_path TO "{self._place.schema}"')
                await asyncio.to_thread(connection.execute, "BEGIN")
                await asyncio.to_thread(
                    connection.execute, "LOCK TABLE syncd_objects, syncd_streams IN SHARE ROW EXCLUSIVE MODE"
                )
            yield
        finally:
            await asyncio.to_thread(connection.close)


@contextlib.asynccontextmanager
async def locked_file(place: DatabasePlace) -> AsyncIterator[None]:
    """Another connection's writing transaction."""
    if not place.path.exists():
        yield
        return
    connection = sqlite3.connect(place.path, isolation_level=None, timeout=5, check_same_thread=False)
    try:
        with contextlib.suppress(sqlite3.OperationalError):  # it is locked as it is
            await asyncio.to_thread(connection.execute, "BEGIN IMMEDIATE")
        yield
    finally:
        connection.close()
