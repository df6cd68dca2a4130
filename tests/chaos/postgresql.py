"""PostgreSQL for the seeds of a run, and what can be done to one schema's sessions."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import secrets
import subprocess
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import psycopg

from tests.conftest import DatabasePlace, start_postgres

ROLE = "chaos"
SEGMENT = 1 << 20  # bytes of the write-ahead log's files: what may not grow past it are tables alone


class Server:
    """One server, with a role that is no superuser, so that it can be refused."""

    def __init__(self, directory: Path) -> None:
        self._server = start_postgres(directory)
        self._admin = self._server.get_uri()
        self._telling = threading.Lock()  # two windows may open at once, and alter the same role
        socket = self._server.get_postmaster_info().socket_dir
        self._ctl("stop")
        programs, data = self._server.bin_path, Path(self._server.pgdata)
        self._run(programs / "pg_resetwal", f"--wal-segsize={SEGMENT >> 20}", data)
        self._ctl("start", "-o", f'-h "" -k {socket}', "-l", data / "log")
        self.tell(f"CREATE ROLE {ROLE} LOGIN", f"GRANT CREATE ON DATABASE postgres TO {ROLE}")

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
        self.tell(f'DROP SCHEMA IF EXISTS "{place.schema}" CASCADE')

    def end_sessions(self) -> None:
        """All but a reader's."""
        self.tell(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            f" WHERE usename = '{ROLE}' AND application_name <> 'reader'"
        )

    def tell(self, *statements: str) -> None:
        """As a superuser, one after another."""
        with self._telling, self.admin() as connection:
            for statement in statements:
                connection.execute(statement)

    def restart(self, mode: str) -> None:
        """`fast`, or `immediate` as after a crash. What goes on in a superuser's session ends first."""
        with self._telling:
            self._ctl("restart", "-m", mode)

    def limit_files(self, size: int) -> None:
        """No process of the server may let a file grow past so many bytes. Where this process is root's the
        server is another user's, and it has to be that user who says so.
        """
        master = int((Path(self._server.pgdata) / "postmaster.pid").read_text().splitlines()[0])
        with contextlib.suppress(psutil.NoSuchProcess):
            for each in (psutil.Process(master), *psutil.Process(master).children()):
                self._limit(each.pid, size)

    def _limit(self, pid: int, size: int) -> None:
        with contextlib.suppress(ProcessLookupError, subprocess.CalledProcessError):  # a session that ended
            if self._server.system_user is None:
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
            else:
                soft = "unlimited" if size == resource.RLIM_INFINITY else size
                self._run("prlimit", f"--fsize={soft}:unlimited", f"--pid={pid}")

    def close(self) -> None:
        self._server.cleanup()

    def _ctl(self, verb: str, *arguments: Any) -> None:
        self._run(self._server.bin_path / "pg_ctl", "-D", self._server.pgdata, "-w", *arguments, verb)

    def _run(self, *command: Any) -> None:
        user = self._server.system_user
        words = [str(word) for word in command]
        nowhere = subprocess.DEVNULL
        subprocess.run(words, check=True, user=user, stdout=nowhere, stderr=nowhere, timeout=60, cwd="/")


class PostgresqlFaults:
    """What can be done to one schema's sessions. A window is closed by leaving it."""

    def __init__(self, server: Server, place: DatabasePlace) -> None:
        self._server = server
        self._place = place

    async def end_sessions(self) -> None:
        await asyncio.to_thread(self._server.end_sessions)

    async def restart(self, mode: str) -> None:
        await asyncio.to_thread(self._server.restart, mode)

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
                await asyncio.to_thread(connection.execute, "SET lock_timeout = '2s'")
                await asyncio.to_thread(connection.execute, "BEGIN")
                await asyncio.to_thread(
                    connection.execute, "LOCK TABLE syncd_objects, syncd_streams IN SHARE ROW EXCLUSIVE MODE"
                )
            yield
        finally:
            connection.close()  # in no thread: they may all be waiting for this lock

    @contextlib.asynccontextmanager
    async def full(self) -> AsyncIterator[None]:
        """No file of the server may grow past a mebibyte, or past what it has."""
        size = max(SEGMENT, await asyncio.to_thread(self._largest))
        await asyncio.to_thread(self._server.limit_files, size)
        try:
            yield
        finally:
            await asyncio.to_thread(self._server.limit_files, resource.RLIM_INFINITY)

    def _largest(self) -> int:
        with self._server.admin() as connection:
            query = "SELECT coalesce(max(pg_relation_size(oid)), 0) FROM pg_class WHERE relfilenode <> 0"
            [(size,)] = connection.execute(query).fetchall()
        return int(size)

    @contextlib.asynccontextmanager
    async def failing(self, state: str, table: str, *, chance: float, deferred: bool) -> AsyncIterator[None]:
        """Statements that write to the table fail with a SQLSTATE, so many of a hundred; at their commit
        where `deferred`.
        """
        when = f"DEFERRABLE INITIALLY {'DEFERRED' if deferred else 'IMMEDIATE'}"
        body = f"IF random() < {chance} THEN RAISE EXCEPTION 'chaos' USING ERRCODE = '{state}'; END IF;"
        events = "AFTER INSERT OR UPDATE OR DELETE"
        async with self._trigger(f"CONSTRAINT TRIGGER {{name}} {events} ON {table} {when}", body):
            yield

    @contextlib.asynccontextmanager
    async def refusing(self, pattern: str) -> AsyncIterator[None]:
        """Rows whose key is like the pattern are refused, as by a constraint."""
        refused = f"NEW.object_key LIKE '{pattern}'"
        body = f"IF {refused} THEN RAISE EXCEPTION 'chaos' USING ERRCODE = '23514'; END IF;"
        async with self._trigger("TRIGGER {name} BEFORE INSERT OR UPDATE ON syncd_objects", body):
            yield

    @contextlib.asynccontextmanager
    async def _trigger(self, head: str, body: str) -> AsyncIterator[None]:
        name = f"chaos_{secrets.token_hex(4)}"
        path = f'SET search_path TO "{self._place.schema}"'
        function = (
            f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} RETURN NEW; END $$"
        )
        trigger = f"CREATE {head.format(name=name)} FOR EACH ROW EXECUTE FUNCTION {name}()"
        with contextlib.suppress(psycopg.Error):  # no table yet, a deadlock, a restart: then there is none
            await asyncio.to_thread(self._server.tell, path, "SET lock_timeout = '1s'", function, trigger)
        try:
            yield
        finally:
            await asyncio.to_thread(self._insist, path, f"DROP FUNCTION IF EXISTS {name}() CASCADE")

    def _insist(self, *statements: str) -> None:
        """Whatever else happens to the server meanwhile; nobody else is kept from telling it something."""
        for _ in range(100):
            try:
                return self._server.tell("SET lock_timeout = '100ms'", *statements)
            except psycopg.errors.InvalidSchemaName:
                return None
            except psycopg.Error:  # a lock, a deadlock, a restart
                time.sleep(0.05)
        return self._server.tell(*statements)
