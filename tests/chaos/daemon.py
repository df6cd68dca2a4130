"""The product of one seed, in this process or as a real one: it can be started, ended and asked."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import sys
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from syncd import logs
from syncd.app.daemon import Daemon, running
from syncd.app.reconciling import Wanted, reconcile
from syncd.config import Config, load
from syncd.core.errors import StoreUnavailable
from syncd.core.recovery import Timing
from syncd.sync.reconcile import Order
from tests.e2e.table import Table

TIMING = replace(
    Timing().scaled(0.02),
    park_min=0.2,
    park_max=0.4,
    watch_min=1.0,
    watch_max=2.0,
    watch_margin=0.3,
    idle=0.8,
    initial_events=1.5,
    initial_silence=0.4,
    watch_list_refused=1.0,
    side_watch=1.0,
    catch_up=0.5,
    settle=0.6,
    discovery=0.5,
    heartbeat=0.1,
    lease=5.0,
    stop=1.0,
    server_error_relist=0.5,
)
PATIENCE = 20.0
"""Seconds for a daemon to get its database."""
SCALE = 0.02
"""Of a process' durations; its lease lasts 0.3 s."""


class Mirror(Protocol):
    """A daemon over one configuration file."""

    @property
    def text(self) -> str:
        """All that was logged, JSON lines."""
        ...

    def failure(self) -> str:
        """Why it is not running although nobody ended it, '' where it is."""
        ...

    async def start(self) -> None: ...

    async def stop(self) -> None:
        """As SIGTERM does."""
        ...

    async def close(self) -> None:
        """Whatever it takes."""
        ...

    async def reload(self) -> None:
        """Follow the configuration file, which says something else now."""
        ...

    async def reconcile(self, *, deep: bool = False, dry_run: bool = False) -> list[dict[str, Any]]:
        """The report of each stream. `deep` compares documents too; a dry run repairs nothing."""
        ...


class InProcess:
    """In this event loop. Only one at a time: the log is the process'."""

    def __init__(self, config: Path) -> None:
        self._config = config
        self._log = io.StringIO()
        self._stack: AsyncExitStack | None = None
        self.daemon: Daemon | None = None

    @property
    def text(self) -> str:
        return self._log.getvalue()

    def failure(self) -> str:
        if self.daemon is None:
            return "it is not running"
        return str(self.daemon.failure or "")

    async def start(self) -> None:
        logs.configure("json", "debug", stream=self._log)
        stack = AsyncExitStack()
        config = self._load()
        async with asyncio.timeout(PATIENCE):
            while self.daemon is None:
                try:
                    self.daemon = await stack.enter_async_context(running(config, timing=TIMING))
                except StoreUnavailable:  # the command waits for it too
                    await asyncio.sleep(0.05)
        self._stack = stack

    def _load(self) -> Config:
        return load(self._config, {"HOME": str(self._config.parent)})

    async def reload(self) -> None:
        if self.daemon is not None:
            self.daemon.config = self._load()
            [cluster] = self.daemon.config.clusters
            self.daemon.reconfigure(cluster)

    async def stop(self) -> None:
        stack, self._stack, self.daemon = self._stack, None, None
        if stack is not None:
            with suppress(StoreUnavailable):  # the lease stays, and lapses
                await stack.aclose()

    async def close(self) -> None:
        await self.stop()

    async def reconcile(self, *, deep: bool = False, dry_run: bool = False) -> list[dict[str, Any]]:
        assert self.daemon is not None
        wanted = Wanted(order=Order(deep=deep, dry_run=dry_run))
        return (await reconcile(self.daemon, wanted, lambda run: None)).reports


class Child:
    """A process of its own, asked through the table of requests."""

    def __init__(self, config: Path, table: Table) -> None:
        self._config = config
        self._table = table
        self._processes: list[asyncio.subprocess.Process] = []
        self._outputs: list[Path] = []

    @property
    def text(self) -> str:
        return "".join(path.read_text(errors="replace") for path in self._outputs)

    @property
    def process(self) -> asyncio.subprocess.Process:
        return self._processes[-1]

    def failure(self) -> str:
        code = self.process.returncode
        return "" if code is None else f"it ended with {code}"

    async def start(self) -> None:
        output = self._config.parent / f"output-{len(self._outputs)}"
        environment = {
            **os.environ,
            "HOME": str(self._config.parent),
            "SYNCD_CONFIG": str(self._config),
            "SYNCD_TIME_SCALE": str(SCALE),
        }
        with output.open("wb") as file:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "syncd", "run", stdout=file, stderr=file, env=environment
            )
        self._processes.append(process)
        self._outputs.append(output)

    async def stop(self) -> None:
        """SIGTERM, which must end it with 0 within 5 s."""
        await self._terminate(self.process)

    async def _terminate(self, process: asyncio.subprocess.Process) -> None:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(6.0):
            code = await process.wait()
        # Before Python has installed its handlers the signal is deadly, as for any process.
        assert code in (0, -signal.SIGTERM), f"SIGTERM ended it with {code}"

    async def kill(self) -> None:
        """SIGKILL."""
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()

    async def reload(self) -> None:
        """SIGHUP, where it listens already: it is deadly before. The file is looked at besides."""
        begun = "snapshot begins" in self._outputs[-1].read_text(errors="replace")
        if self.process.returncode is None and begun:
            self.process.send_signal(signal.SIGHUP)

    async def rival(self, *, asleep: float | None = None) -> None:
        """A second daemon comes, perhaps while the first one is stopped for some seconds and more. One of
        them must leave by itself, or be refused.
        """
        first = self.process
        if asleep is not None:
            if first.returncode is None:
                first.send_signal(signal.SIGSTOP)
            await asyncio.sleep(asleep)
        await self.start()
        if asleep is not None:
            await asyncio.sleep(1.5)
            if first.returncode is None:
                first.send_signal(signal.SIGCONT)
        second = self.process
        ends = {asyncio.ensure_future(first.wait()), asyncio.ensure_future(second.wait())}
        try:
            done, _ = await asyncio.wait(ends, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
            assert done, "two daemons run side by side"
        finally:
            for end in ends:
                end.cancel()
        if second.returncode is not None:  # the first one held on: it was stopped before it had the lease, or
            self._processes.append(first)  # in a transaction of SQLite, which is waited for

    async def close(self) -> None:
        for process in self._processes:
            if process.returncode is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                await process.wait()

    async def reconcile(self, *, deep: bool = False, dry_run: bool = False) -> list[dict[str, Any]]:
        arguments = json.dumps({"deep": deep, "dry_run": dry_run})
        request_id = await asyncio.to_thread(self._ask, arguments)
        async with asyncio.timeout(20.0):
            while True:
                query = "SELECT answered_at, result, error FROM syncd_requests WHERE request_id = ?"
                [(answered, result, error)] = await asyncio.to_thread(self._table.ask, query, request_id)
                if answered is not None:
                    assert not error, error
                    found = json.loads(result) if isinstance(result, str) else result
                    return list(found["reports"])
                await asyncio.sleep(0.03)

    def _ask(self, arguments: str) -> int:
        with self._table.transaction(write=True) as cursor:
            cursor.execute(
                "INSERT INTO syncd_requests (command, arguments, created_at, progress, result, error)"
                f" VALUES ('reconcile', '{arguments}', CURRENT_TIMESTAMP, '{{}}', '{{}}', '')"
                " RETURNING request_id"
            )
            return int(cursor.fetchone()[0])
