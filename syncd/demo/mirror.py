"""The daemon under demonstration: a `syncd run` of its own process, and what it says of itself."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families

from syncd.core.errors import SyncdError
from syncd.core.resource import State

STOP_SECONDS = 10.0
"""A daemon stops within five."""


@dataclass(frozen=True, slots=True)
class StreamReading:
    """One stream as `/status` shows it; lag in seconds."""

    resource: str
    state: str
    objects: int
    lag: float


@dataclass(frozen=True, slots=True)
class Reading:
    """A daemon at a moment (monotonic). Counters begin with its process.

    Attributes:
        events: received, bookmarks left out, by resource.
        written: rows of objects inserted, updated and deleted.
        relists: by reason.
    """

    at: float
    streams: tuple[StreamReading, ...] = ()
    events: Counter[str] = field(default_factory=Counter)
    written: int = 0
    relists: Counter[str] = field(default_factory=Counter)

    @property
    def objects(self) -> int:
        return sum(stream.objects for stream in self.streams)

    def live(self, count: int) -> bool:
        """Whether so many streams are there, and all of them live."""
        return len(self.streams) == count and all(stream.state == State.LIVE for stream in self.streams)


class Mirror:
    """Starts, reads, kills and stops one daemon at a time.

    Args:
        config: its configuration; JSON log lines are expected, and a free port to serve on.
        log: the file that gets its output.
    """

    def __init__(self, config: Path, log: Path) -> None:
        self._config = config
        self._log = log
        self._process: Process | None = None
        self._address: tuple[str, int] | None = None
        self._log_from = 0
        self.started_at = 0.0

    @property
    def pid(self) -> int | None:
        """Of the daemon, None while there is none."""
        return self._process.pid if self._process is not None else None

    async def start(self) -> None:
        """Starts the process; it is not ready yet."""
        self._log_from = self._log.stat().st_size if self._log.exists() else 0
        self._address, self.started_at = None, time.monotonic()
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *_command("run", self._config), stdin=DEVNULL, stdout=log, stderr=log, env=_environment()
            )

    async def kill(self) -> None:
        """`kill -9`."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
            self._process = None

    async def stop(self) -> None:
        """SIGTERM, and SIGKILL where that does not help."""
        if self._process is None:
            return
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.terminate()
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    await self._process.wait()
            except TimeoutError:
                await self.kill()
        self._process = None

    async def read(self) -> Reading | None:
        """How it is; None while there is none, or it does not answer.

        Raises:
            SyncdError: it ended by itself.
        """
        if self._process is not None and self._process.returncode is not None:
            raise SyncdError(
                f"the daemon ended with code {self._process.returncode}: {self._last_line()}; see {self._log}"
            )
        return await asyncio.to_thread(self._ask)

    def _ask(self) -> Reading | None:
        address = self._address = self._address or self._served()
        if address is None:
            return None
        connection = http.client.HTTPConnection(*address, timeout=5)
        try:
            status, metrics = (_get(connection, path) for path in ("/status", "/metrics"))
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
        return _reading(json.loads(status), metrics.decode())

    def _served(self) -> tuple[str, int] | None:
        """Where it serves, as its own log says."""
        for line in self._lines():
            with suppress(ValueError):
                entry = json.loads(line)
                if entry.get("event") == "serving":
                    url = urlsplit(entry["url"])
                    return url.hostname or "127.0.0.1", url.port or 0
        return None

    def _last_line(self) -> str:
        lines = self._lines()
        return lines[-1] if lines else "it said nothing"

    def _lines(self) -> list[str]:
        with self._log.open("rb") as log:
            log.seek(self._log_from)
            return log.read().decode(errors="replace").splitlines()


async def reconcile(config: Path) -> tuple[int, str]:
    """Runs `syncd reconcile`: its exit code and what it printed."""
    process = await asyncio.create_subprocess_exec(
        *_command("reconcile", config), stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, env=_environment()
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, output.decode(errors="replace")


def _command(name: str, config: Path) -> tuple[str, ...]:
    return (sys.executable, "-m", "syncd", name, "--config", str(config))


def _environment() -> dict[str, str]:
    """This process's, less what would lead a daemon away from the demo's own database and cluster."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SYNCD_")}
    return {**kept, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}


def _get(connection: http.client.HTTPConnection, path: str) -> bytes:
    connection.request("GET", path)
    return connection.getresponse().read()


def _reading(status: dict[str, Any], metrics: str) -> Reading:
    streams = tuple(
        StreamReading(stream["resource"], stream["state"], stream["objects"], stream["lag_seconds"])
        for cluster in status["clusters"]
        for stream in cluster["streams"]
    )
    events: Counter[str] = Counter()
    relists: Counter[str] = Counter()
    written = 0
    for family in text_string_to_metric_families(metrics):
        for sample in family.samples:
            labels, value = sample.labels, int(sample.value) if sample.name.endswith("_total") else 0
            if sample.name == "syncd_events_total" and labels["type"] != "BOOKMARK":
                events[labels["resource"]] += value
            elif sample.name == "syncd_rows_written_total" and labels["kind"] != "tombstone":
                written += value
            elif sample.name == "syncd_relists_total":
                relists[labels["reason"]] += value
    return Reading(time.monotonic(), streams, events, written, relists)
