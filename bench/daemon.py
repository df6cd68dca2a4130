"""A `syncd run` under measurement: when it is there, what it used, and how late its rows were."""

from __future__ import annotations

import json
import socket
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import psutil
import psycopg

from bench.world import Cluster, Place
from bench.writes import Answers

PATIENCE = 300.0  # seconds
SYNCD = (sys.executable, "-m", "syncd")


@dataclass(frozen=True, slots=True)
class Usage:
    """Seconds of CPU, bytes of memory at present, times that the process was woken."""

    cpu: float
    memory: int
    wakes: int


class Daemon:
    """The process, and how to know that it is there."""

    def __init__(
        self,
        place: Place,
        cluster: Cluster,
        resources: Sequence[Any] = (),
        sinks: Sequence[Any] = (),
    ) -> None:
        self.place = place
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.config = place.configuration(cluster, f"127.0.0.1:{self.port}", resources, sinks)

    def __enter__(self) -> Daemon:
        self._begun = time.perf_counter()
        self._process = psutil.Popen([*SYNCD, "run", "-c", str(self.config)])
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()

    def wait(self) -> float:
        """Seconds from the start of the process until every stream is live."""
        return self._until(lambda: self._get("/readyz?strict") is not None)

    def usage(self) -> Usage:
        """What it has used so far."""
        with self._process.oneshot():
            times, switches = self._process.cpu_times(), self._process.num_ctx_switches()
            return Usage(times.user + times.system, self._process.memory_info().rss, switches.voluntary)

    def wait_version(self, version: str) -> float:
        """Seconds until the table holds that version."""

        def reached() -> bool:
            found = self._get("/status")
            streams = json.loads(found)["clusters"][0]["streams"] if found else []
            with psycopg.connect(self.place.url) as connection:
                newest = connection.execute(
                    f"SELECT 1 FROM {self.place.schema}.syncd_objects"
                    " WHERE resource_version_number >= %s LIMIT 1",
                    (int(version),),
                ).fetchone()
            return bool(streams) and newest is not None

        return self._until(reached)

    def _until(self, done: Callable[[], bool]) -> float:
        while not done():
            if self._process.poll() is not None or time.perf_counter() - self._begun > PATIENCE:
                raise SystemExit("syncd did not get there")
            time.sleep(0.02)
        return time.perf_counter() - self._begun

    def _get(self, path: str) -> bytes | None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=2) as answer:
                return bytes(answer.read())
        except OSError:
            return None


def lags(place: Place, table: str, answers: Answers) -> list[float]:
    """Milliseconds from the API's answer to each object's last write to the commit of its row.

    Below zero where the watch and the commit were quicker than the answer.
    """
    query = (
        f"SELECT resource_version, extract(epoch FROM pg_xact_commit_timestamp(xmin)) * 1e9 FROM {table}"
        " WHERE resource_version = ANY(%s)"
    )
    with psycopg.connect(place.url) as connection:
        found = connection.execute(query, (list(answers),))
        return [(float(done) - answers[version]) / 1e6 for version, done in found]


def reconciled(place: Place, arguments: str = "{}", *, drift: bool = False) -> None:
    """Asks the daemon for a reconcile and waits for its end.

    Args:
        arguments: JSON, as `syncd reconcile` leaves them.
        drift: whether some is expected.
    """
    table = f"{place.schema}.syncd_requests"
    with psycopg.connect(place.url, autocommit=True) as connection:
        asked = connection.execute(
            f"INSERT INTO {table} (command, arguments, created_at, progress, result, error)"
            " VALUES ('reconcile', %s, now(), '{}', '{}', '') RETURNING request_id",
            (arguments,),
        ).fetchone()
        done = f"SELECT result FROM {table} WHERE request_id = %s AND answered_at IS NOT NULL"
        while (answer := connection.execute(done, asked).fetchone()) is None:
            time.sleep(0.05)
    if any(report["drift"] for report in answer[0]["reports"]) != drift:
        raise SystemExit(f"a reconcile found what nobody made, or not what was made: {answer[0]}")
