"""Locks that a dying process lets go of: what tells a dead holder of the lease from a slow one."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
from pathlib import Path
from typing import Protocol

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from syncd.core.errors import StoreUnavailable
from syncd.store.engine import CONNECT_TIMEOUT, Engine
from syncd.store.errors import DRIVER_ERRORS, unavailable


class HolderLock(Protocol):
    """Held as long as its process lives. `proves`: a live holder cannot lose it, so that a free lock
    proves its holder gone.
    """

    proves: bool

    async def acquire(self) -> bool:
        """Takes it, or keeps it where it is already ours; False where another has it."""
        ...

    async def release(self) -> None: ...


class NoLock:
    """For a database in memory, which no other process can see."""

    proves = False

    async def acquire(self) -> bool:
        return True

    async def release(self) -> None:
        pass


class FileLock:
    """An OS lock on a file beside the SQLite database; the system drops it with the process."""

    proves = True

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    async def acquire(self) -> bool:
        if self._descriptor is not None:
            return True
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreUnavailable(f"{self._path}: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    async def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class SessionLock:
    """A PostgreSQL advisory lock on a session of its own; the server drops it with the session.

    A live holder can lose its session, so a free lock alone proves nothing.
    """

    proves = False

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._own: AsyncEngine | None = None
        self._connection: AsyncConnection | None = None
        digest = hashlib.sha256(f"syncd lease {engine.schema}".encode()).digest()
        self._key = int.from_bytes(digest[:8], "big", signed=True)

    async def acquire(self) -> bool:
        if self._connection is not None:
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT):
                    await self._connection.execute(sa.text("SELECT 1"))
            except DRIVER_ERRORS:
                await self.release()
            else:
                return True
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                return await self._take()
        except DRIVER_ERRORS as error:
            await self.release()
            raise unavailable(error) from error

    async def _take(self) -> bool:
        self._own = self._engine.dedicated()
        self._connection = await self._own.connect()
        await self._connection.execution_options(isolation_level="AUTOCOMMIT")
        query = sa.text("SELECT pg_try_advisory_lock(:key)")
        if (await self._connection.execute(query, {"key": self._key})).scalar_one():
            return True
        await self.release()
        return False

    async def release(self) -> None:
        connection, self._connection = self._connection, None
        own, self._own = self._own, None
        if connection is not None:
            try:
                await connection.invalidate()  # the session ends, and the lock with it
                await connection.close()
            except DRIVER_ERRORS:
                pass  # it was broken already
        if own is not None:
            await own.dispose()


def alive(pid: int) -> bool:
    """Whether a process of this machine lives; a zombie does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[:1] != ["Z"]
