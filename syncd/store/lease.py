"""The lease: one daemon a database, and the token that fences its every write (mirror.md §2).

Lease time is the database's clock. A lock beside the row (an OS lock on `<file>.lock`, a PostgreSQL
session lock) only makes a takeover quick: it proves nothing about a daemon that lives and has lost it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from syncd.core.errors import FenceLost, LeaseHeld
from syncd.store.column import time_text
from syncd.store.engine import Engine
from syncd.store.lock import FileLock, HolderLock, NoLock, SessionLock, alive
from syncd.store.schema import leases, streams

NAME = "daemon"
LAPSE = 15.0
"""Seconds without a heartbeat after which a holder has lost its lease."""

_END_WRITERS = sa.text(
    "SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a"
    " WHERE a.usename = current_user AND a.pid <> pg_backend_pid() AND EXISTS ("
    "SELECT 1 FROM pg_locks l WHERE l.pid = a.pid AND l.granted AND l.database ="
    " (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND l.relation IN (CAST('syncd_streams' AS regclass), CAST('syncd_leases' AS regclass))"
    " AND l.mode IN ('RowShareLock', 'RowExclusiveLock'))"
)
_TAKEN = "the lease of this database is not ours, or no longer"


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds, or wants, the lease."""

    host: str
    pid: int
    version: str


class Lease:
    """One daemon's claim on a database.

    Args:
        timeout: seconds without a heartbeat after which another may take over.
        clock: this machine's time, aware UTC; `now` corrects it by the database's.
    """

    def __init__(
        self, engine: Engine, holder: Holder, *, timeout: float = LAPSE, clock: Callable[[], datetime]
    ) -> None:
        self._engine = engine
        self._holder = holder
        self._timeout = timedelta(seconds=timeout)
        self._clock = clock
        self._lock = _lock(engine)
        self.token = ""
        self.offset = timedelta(0)

    @property
    def required(self) -> str:
        """The token, for a statement that is conditional on it; raises FenceLost where there is none."""
        if not self.token:
            raise FenceLost(_TAKEN)
        return self.token

    def now(self) -> datetime:
        """Now, on the database's clock as the last heartbeat measured it; aware UTC."""
        return self._clock() + self.offset

    async def acquire(self) -> str:
        """Takes the lease and fences off whoever had it, in every stream's row; the new token.

        Raises:
            LeaseHeld: somebody has it and may be alive; the message names host, process and since when.
            StoreUnavailable: the database.
        """
        token = secrets.token_hex(16)
        locked = await self._lock.acquire()
        try:
            await self._end_stalled()
            async with self._engine.writing() as connection:
                await self._serialise(connection)
                moment = await database_now(connection, self._engine)
                found = (await connection.execute(sa.select(leases).where(leases.c.name == NAME))).first()
                if found is not None:
                    self._refuse(found, moment, locked)
                    await connection.execute(sa.delete(leases).where(leases.c.name == NAME))
                await connection.execute(
                    sa.insert(leases).values(
                        name=NAME,
                        token=token,
                        host=self._holder.host,
                        pid=self._holder.pid,
                        version=self._holder.version,
                        lock_held=locked,
                        since=moment,
                        heartbeat_at=moment,
                    )
                )
                # Nothing is known to be level any more: each is stale until its watch is open again.
                await connection.execute(sa.update(streams).values(holder=token, deadline_at=moment))
        except BaseException:
            await self._lock.release()
            raise
        self.token = token
        self.offset = moment - self._clock()
        return token

    async def heartbeat(self, lags: Mapping[int, float] | None = None) -> None:
        """Renews the lease and measures the clock's offset; writes each stream's lag, in seconds.

        Raises:
            FenceLost: another daemon has the lease: stop writing.
            StoreUnavailable: not renewed; try again.
        """
        locked = await self._lock.acquire()
        async with self._engine.writing() as connection:
            moment = await database_now(connection, self._engine)
            renewed = await connection.execute(
                sa.update(leases)
                .where(leases.c.name == NAME, leases.c.token == self.token)
                .values(heartbeat_at=moment, lock_held=locked)
            )
        if renewed.rowcount != 1:
            raise FenceLost(_TAKEN)
        self.offset = moment - self._clock()
        if lags:
            await self._write_lags(lags)

    async def release(self) -> None:
        """Gives the lease back, where it is still ours, so that the next daemon need not wait."""
        try:
            async with self._engine.writing() as connection:
                await connection.execute(
                    sa.delete(leases).where(leases.c.name == NAME, leases.c.token == self.token)
                )
        finally:
            self.token = ""
            await self._lock.release()

    async def close(self) -> None:
        """Lets go of the lock without giving the lease back."""
        await self._lock.release()

    async def hold(self, connection: AsyncConnection) -> None:
        """Makes this transaction depend on the lease: a takeover waits for it, or it is refused.

        Raises:
            FenceLost: the lease is another's.
        """
        query = sa.select(leases.c.token).where(leases.c.name == NAME, leases.c.token == self.token)
        if not self.token or (await connection.execute(query.with_for_update(read=True))).first() is None:
            raise FenceLost(_TAKEN)

    def _refuse(self, found: Any, moment: datetime, locked: bool) -> None:
        age = moment - found.heartbeat_at
        if age > self._timeout or (locked and self._gone(found)):
            return
        wait = max(0.0, (self._timeout - age).total_seconds())
        raise LeaseHeld(
            f"this database belongs to a syncd on {found.host}, process {found.pid}, since "
            f"{time_text(found.since)[:19]} UTC; stop it; if it is dead, try again in {wait:.0f} s"
        )

    def _gone(self, found: Any) -> bool:
        """Whether the holder is provably gone, given that its lock is free. A file lock is never lost by
        a live process; a session is, so there the process itself must be seen to be gone.
        """
        if found.lock_held and self._lock.proves:
            return True
        same = found.host == self._holder.host
        return same and (found.pid == self._holder.pid or not alive(found.pid))

    async def _end_stalled(self) -> None:
        """Ends the sessions of a lapsed holder that still lock what a takeover must write: a stopped
        process keeps the locks of its transaction.
        """
        if self._engine.is_sqlite:
            return  # there is no session to end: such a process is waited for
        async with self._engine.writing() as connection:
            moment = await database_now(connection, self._engine)
            query = sa.select(leases.c.heartbeat_at).where(leases.c.name == NAME)
            beat: datetime | None = (await connection.execute(query)).scalar_one_or_none()
            if beat is not None and moment - beat > self._timeout:
                await connection.execute(_END_WRITERS)

    async def _serialise(self, connection: AsyncConnection) -> None:
        if not self._engine.is_sqlite:
            # two that come at once: the table is tiny, and nobody else locks it
            await connection.execute(sa.text("LOCK TABLE syncd_leases IN SHARE ROW EXCLUSIVE MODE"))

    async def _write_lags(self, lags: Mapping[int, float]) -> None:
        """To a tenth of a second: an event is always on its way, and a stream's row that is written here
        is one that its commits meet.
        """
        rounded = {stream_id: round(lag, 1) for stream_id, lag in lags.items()}
        query = sa.select(streams.c.stream_id, streams.c.lag_seconds).where(streams.c.holder == self.token)
        async with self._engine.reading() as connection:
            known = await connection.execute(query.where(streams.c.stream_id.in_(list(lags))))
            changed = [stream_id for stream_id, lag in known if lag != rounded[stream_id]]
        if not changed:
            return
        async with self._engine.writing() as connection:
            # a commit in flight has its row locked and is not waited for: the next heartbeat will tell
            free = query.where(streams.c.stream_id.in_(changed)).with_for_update(skip_locked=True)
            for stream_id, _ in (await connection.execute(free)).all():
                await connection.execute(
                    sa.update(streams)
                    .where(streams.c.stream_id == stream_id)
                    .values(lag_seconds=rounded[stream_id])
                )


def _lock(engine: Engine) -> HolderLock:
    if not engine.is_sqlite:
        return SessionLock(engine)
    return FileLock(engine.path.with_name(engine.path.name + ".lock")) if engine.path else NoLock()


async def database_now(connection: AsyncConnection, engine: Engine) -> datetime:
    """The database's clock, aware UTC."""
    if engine.is_sqlite:
        text = (await connection.execute(sa.text("SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')"))).scalar_one()
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    moment: datetime = (await connection.execute(sa.text("SELECT clock_timestamp()"))).scalar_one()
    return moment.astimezone(UTC)
