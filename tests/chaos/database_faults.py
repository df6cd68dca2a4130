"""What becomes of the database: away, read-only, locked, full, exhausted, or it will not have a row."""

from __future__ import annotations

import contextlib
import random
import resource
from collections.abc import AsyncIterator
from pathlib import Path

from tests.chaos.churn import Churn
from tests.chaos.daemon import Child, InProcess
from tests.chaos.file import locked_file, refusing_file
from tests.chaos.postgresql import PostgresqlFaults
from tests.chaos.schedule import Step
from tests.chaos.site import TYPES, Site

STATES = ("40001", "40P01", "53100", "53200", "53300", "55P03", "57014", "58030", "25006", "XX000")
"""SQLSTATE of what is no row's fault: serialization, deadlock, no room, no memory, no connection, a lock or
a statement that took too long, the disk, a transaction that may only read, the server's own."""


class DatabaseFaults:
    """Each public method of a step's name is what that step means."""

    def __init__(self, site: Site, churn: Churn) -> None:
        self._site = site
        self._churn = churn

    @property
    def _postgresql(self) -> PostgresqlFaults:
        assert self._site.postgresql is not None
        return self._site.postgresql

    async def end_sessions(self, step: Step, rand: random.Random) -> None:
        await self._postgresql.end_sessions()

    async def read_only(self, step: Step, rand: random.Random) -> None:
        self._site.windows.open(self._postgresql.read_only, step.amount / 1000)

    async def refuse_sessions(self, step: Step, rand: random.Random) -> None:
        self._site.windows.open(self._postgresql.refused, step.amount / 1000)

    async def lock_table(self, step: Step, rand: random.Random) -> None:
        self._site.windows.open(self._postgresql.locked, step.amount / 1000)

    async def restart_database(self, step: Step, rand: random.Random) -> None:
        await self._postgresql.restart("immediate" if rand.random() < 0.5 else "fast")

    async def fail_statements(self, step: Step, rand: random.Random) -> None:
        """Some of them, with an error that says nothing about a row; at once, or when they are committed."""
        state, table = rand.choice(STATES), rand.choice(("syncd_objects", "syncd_streams"))
        chance, deferred = rand.choice((0.2, 0.5, 1.0)), rand.random() < 0.5
        faults = self._postgresql
        self._site.windows.open(
            lambda: faults.failing(state, table, chance=chance, deferred=deferred), step.amount / 1000
        )

    async def lock_file(self, step: Step, rand: random.Random) -> None:
        self._site.windows.open(lambda: locked_file(self._site.place), step.amount / 1000)

    async def refuse_rows(self, step: Step, rand: random.Random) -> None:
        """Some rows are refused for what they say: they go to quarantine, and come back by a reconcile."""
        pattern, place = f"%{rand.choice('abc')}-{rand.randrange(6)}%", self._site.place
        if self._site.postgresql is not None:
            faults = self._postgresql
            self._site.windows.open(lambda: faults.refusing(pattern), step.amount / 1000)
        else:
            self._site.windows.open(lambda: refusing_file(place, pattern), step.amount / 1000)
        target = rand.choice(tuple(TYPES))
        for _ in range(rand.randrange(40)):
            self._churn.write_one(rand, target)

    async def full(self, step: Step, rand: random.Random) -> None:
        """No room: by the file's own limit in this process, by a limit of its files in another one."""
        window = self._full_file if self._site.postgresql is None else self._postgresql.full
        self._site.windows.open(window, step.amount / 1000)
        if self._site.postgresql is not None:  # whose files begin with room to spare
            target = rand.choice(tuple(TYPES))
            for _ in range(6):
                self._churn.create(rand, target, size=600_000)

    @contextlib.asynccontextmanager
    async def _full_file(self) -> AsyncIterator[None]:
        mirror = self._site.mirror
        if isinstance(mirror, Child):
            async with self._limited(mirror.process.pid):
                yield
            return
        assert isinstance(mirror, InProcess)
        daemon = mirror.daemon
        if daemon is None:
            yield
            return
        engine = daemon.database.engine
        async with engine.raw() as connection:
            [(pages,)] = await connection.execute_fetchall("PRAGMA page_count")
            await connection.execute_fetchall(f"PRAGMA max_page_count = {pages}")
        yield
        if mirror.daemon is daemon:
            async with engine.raw() as connection:
                await connection.execute_fetchall("PRAGMA max_page_count = 1073741823")

    @contextlib.asynccontextmanager
    async def _limited(self, pid: int) -> AsyncIterator[None]:
        wal = Path(f"{self._site.place.path}-wal")
        size = wal.stat().st_size if wal.exists() else 0
        unlimited = resource.RLIM_INFINITY
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (size + 40_000, unlimited))
        yield
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (unlimited, unlimited))
