"""One simulated cluster, one database, and the product between them: in process or as real processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import httpx
import psycopg

from syncd.app.daemon import Daemon, running
from syncd.config import Config, load
from syncd.core.recovery import Timing
from syncd.simulator.record import Record
from syncd.simulator.server import SimulatorServer, write_kubeconfig
from syncd.simulator.simulator import Simulator
from syncd.simulator.workload import Workload
from tests.conftest import DatabasePlace
from tests.e2e.table import Glimpse, Row, Table

DEADLINE = 30.0  # seconds that anything may take on a slow machine
PODS, CONFIGMAPS = ("", "pods"), ("", "configmaps")
SECRETS, NAMESPACES = ("", "secrets"), ("", "namespaces")
DEPLOYMENTS, WIDGETS = ("apps", "deployments"), ("example.com", "widgets")

QUICK = replace(Timing().scaled(0.1), park_min=0.5, park_max=1.0)
"""Durations for tests in process: a tenth of the real ones, and less where a stream is parked."""


NO_TABLES = (sqlite3.OperationalError, psycopg.errors.UndefinedTable)
"""What is raised where a daemon has not come so far."""


async def until(condition: Callable[[], Any], what: str, *, deadline: float = DEADLINE) -> None:
    """Waits for a condition; `what` is said when it does not come. What takes a while to look at is looked at
    less often, so that most of the machine is left to what is waited for.
    """
    ends_at = time.monotonic() + deadline
    while True:
        began_at = time.monotonic()
        if condition():
            return
        looked_at = time.monotonic()
        assert looked_at < ends_at, f"not within {deadline:g} s: {what}"
        await asyncio.sleep(max(0.02, 4 * (looked_at - began_at)))


def plain_client(timeout: float = DEADLINE) -> httpx.AsyncClient:
    """For plain HTTP alone: to read the machine's authorities takes longer than most requests."""
    return httpx.AsyncClient(verify=False, trust_env=False, timeout=timeout)


class Process:
    """A real `syncd` process and what it wrote."""

    def __init__(self, process: asyncio.subprocess.Process, output: Path) -> None:
        self._process = process
        self._output = output
        self.started_at = time.monotonic()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def code(self) -> int | None:
        return self._process.returncode

    @property
    def text(self) -> str:
        """Everything on stdout and stderr so far."""
        return self._output.read_text(errors="replace")

    @property
    def events(self) -> list[dict[str, Any]]:
        """The log."""
        lines = self.text.splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def wait(self, deadline: float = DEADLINE) -> int:
        """The exit code."""
        try:
            async with asyncio.timeout(deadline):
                return await self._process.wait()
        except TimeoutError:
            raise AssertionError(f"it has not ended within {deadline:g} s:\n{self.text[-3000:]}") from None

    async def kill(self) -> None:
        """SIGKILL, and its end."""
        if self.code is None:
            self.send(signal.SIGKILL)
            await self._process.wait()

    async def stop(self) -> int:
        """SIGTERM, and the exit code; it must come within 5 s."""
        self.send(signal.SIGTERM)
        return await self.wait(5.0)

    async def url(self) -> str:
        """Where it serves HTTP."""
        await until(lambda: self._served() or self.code is not None, "it serves HTTP")
        assert self.code is None, self.text[-3000:]
        return self._served()

    def _served(self) -> str:
        return next((str(event["url"]) for event in self.events if event["event"] == "serving"), "")

    async def get(self, path: str) -> httpx.Response:
        url = await self.url()
        async with plain_client() as client:
            return await client.get(url + path)

    async def ready(self, *, deadline: float = DEADLINE) -> None:
        """Until every stream is live."""
        url, ends_at = await self.url(), time.monotonic() + deadline
        async with plain_client(deadline) as client:
            while True:
                assert self.code is None, self.text[-3000:]
                answer = await client.get(f"{url}/readyz?strict")
                if answer.status_code == 200:
                    return
                assert time.monotonic() < ends_at, f"not ready: {answer.text}\n{self.text[-3000:]}"
                await asyncio.sleep(0.02)


class World:
    """The cluster `c` and a database to mirror it into.

    Attributes:
        simulator, workload: the cluster.
        place, table: the database.
        deadline: seconds that anything may take.
    """

    deadline = DEADLINE

    def __init__(self, place: DatabasePlace, directory: Path, simulator: Simulator | None = None) -> None:
        self.place = place
        self.table = Table(place)
        self.directory = directory
        self.simulator = simulator or Simulator(bookmark_interval=1.0)
        self.workload = Workload(self.simulator, seed=1)
        self.kubeconfig = directory / "kubeconfig"
        self._stack = AsyncExitStack()
        self._processes: list[Process] = []
        self._client = plain_client()
        self.url = ""

    async def __aenter__(self) -> Self:
        server = await self._stack.enter_async_context(self.served())
        self.url = server.url
        write_kubeconfig(self.kubeconfig, self.url)
        await self._stack.enter_async_context(self._client)
        return self

    def served(self) -> SimulatorServer:
        """The server of the simulator, not yet started."""
        return SimulatorServer(self.simulator)

    async def __aexit__(self, *_: object) -> None:
        for process in self._processes:
            if process.code is None:
                process.send(signal.SIGCONT)
            await process.kill()
        await self._stack.aclose()

    # --- the product ------------------------------------------------------------------------------

    @property
    def entry(self) -> dict[str, str]:
        """The cluster, as a configuration names it."""
        return {"name": "c", "kubeconfig": str(self.kubeconfig)}

    def write_config(self, *resources: Any, name: str = "syncd.yaml", **more: Any) -> Path:
        """A configuration file; JSON is YAML. `more` replaces or adds top-level keys."""
        document: dict[str, Any] = {
            "database": {"url": self.place.url, "schema": self.place.schema},
            "clusters": [self.entry],
            "resources": list(resources),
            "reconcile": {"enabled": False},
            "server": {"listen": "127.0.0.1:0"},
            "log": {"format": "json"},
        }
        path = self.directory / name
        path.write_text(json.dumps({**document, **more}))
        return path

    def config(self, *resources: Any, **more: Any) -> Config:
        return load(self.write_config(*resources, **more), {"HOME": str(self.directory)})

    @asynccontextmanager
    async def running(
        self, *resources: Any, timing: Timing = QUICK, live: bool = True, **more: Any
    ) -> AsyncIterator[Daemon]:
        """The mirror in this process; with `live`, once every stream is."""
        async with running(self.config(*resources, **more), timing=timing) as daemon:
            if live:
                await self.live(daemon)
            yield daemon

    async def live(self, daemon: Daemon) -> None:
        """Until every cluster is planned and every stream live."""

        def done() -> bool:
            assert daemon.failure is None, daemon.failure
            planned = all(supervisor.planned.is_set() for supervisor in daemon.supervisors)
            return planned and all(reflector.live for reflector in daemon.reflectors)

        try:
            await until(done, "every stream is live", deadline=self.deadline)
        except AssertionError as error:
            shown = [(str(r.stream), r.progress, r.held) for r in daemon.reflectors]
            raise AssertionError(f"{error}: {shown}, {[s.error for s in daemon.supervisors]}") from error

    async def spawn(self, command: str = "run", *arguments: str, scale: float = 1.0, **env: str) -> Process:
        """`syncd <command>` as a process of its own, with the configuration last written."""
        output = self.directory / f"output-{len(self._processes)}"
        environment = {
            **os.environ,
            "HOME": str(self.directory),
            "SYNCD_CONFIG": str(self.directory / "syncd.yaml"),
            "SYNCD_TIME_SCALE": str(scale),
            **env,
        }
        with output.open("wb") as file:
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "syncd", command, *arguments, stdout=file, stderr=file, env=environment
            )
        process = Process(child, output)
        self._processes.append(process)
        return process

    async def syncd(self, command: str, *arguments: str, **env: Any) -> tuple[int, str]:
        """Runs a command to its end: (exit code, output)."""
        process = await self.spawn(command, *arguments, **env)
        return await process.wait(60.0), process.text

    # --- the truth --------------------------------------------------------------------------------

    async def api(self, group: str, resource: str, **query: str) -> dict[str, dict[str, Any]]:
        """What the API lists, by key: each object less managedFields, kind and apiVersion in place."""
        kind = self.simulator.kind(group, resource)
        root = f"/apis/{group}" if group else "/api"
        url, log = f"{self.url}{root}/{kind.version}/{kind.name}", self.simulator.requests
        while True:
            answer = await self._client.get(url, params=query, headers={"Authorization": "Bearer test"})
            if answer.status_code != 429:  # a changed type's storage is being filled
                break
            await asyncio.sleep(0.05)
        answer.raise_for_status()
        log[:] = [request for request in log if request.token != "test"]  # ours are not the product's
        found: dict[str, dict[str, Any]] = {}
        for item in answer.json()["items"]:
            item["metadata"].pop("managedFields", None)
            item.setdefault("apiVersion", f"{group}/{kind.version}" if group else kind.version)
            item.setdefault("kind", kind.kind)
            metadata = item["metadata"]
            key = "/".join(filter(None, (metadata.get("namespace", ""), metadata["name"])))
            found[key] = item
        return found

    async def differences(self, group: str, resource: str, **query: str) -> list[str]:
        """How the table differs from the API; Secrets as the table may hold them."""
        expected = await self.api(group, resource, **query)
        return differing(expected, await asyncio.to_thread(self.table.rows, group, resource))

    async def level(self, *types: tuple[str, str], deadline: float = DEADLINE) -> None:
        """Until the table equals the API."""
        ends_at = time.monotonic() + deadline
        while True:
            try:
                found = [f"{type_[1]}: {line}" for type_ in types for line in await self.differences(*type_)]
            except NO_TABLES as error:
                found = [str(error)]
            if not found:
                return
            said = self._processes[-1].text[-3000:] if self._processes else ""
            assert time.monotonic() < ends_at, f"{len(found)} differ: {found[:5]}\n{said}"
            await asyncio.sleep(0.05)

    @asynccontextmanager
    async def churn(self, rate: float) -> AsyncIterator[None]:
        """Changes at a rate while the block runs."""
        task = asyncio.create_task(self.workload.churn(rate))
        try:
            yield
            assert not task.done() or task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def differing(expected: dict[str, dict[str, Any]], rows: dict[str, Row]) -> list[str]:
    """How rows differ from what an API listed, by key."""
    found = [f"missing {key}" for key in expected.keys() - rows.keys()]
    found += [f"ghost {key}" for key in rows.keys() - expected.keys()]
    for key in expected.keys() & rows.keys():
        row, wanted = rows[key], expected[key]
        metadata = wanted["metadata"]
        names = (metadata.get("namespace", ""), metadata["name"])
        versions = (metadata["uid"], metadata["resourceVersion"])
        if (row.namespace, row.name, row.uid, row.version) != (*names, *versions):
            found.append(f"stale {key}: {row.uid} {row.version}, not {versions}")
        elif row.document != stored(wanted):
            found.append(f"altered {key}")
    return found


def stored(value: dict[str, Any]) -> Any:
    """An object as the table may hold it: NULs replaced, the values of a Secret redacted."""
    if value["kind"] == "Secret":
        value = {**value, **{key: _redacted(value[key]) for key in ("data", "stringData") if key in value}}
        notes = dict(value["metadata"].get("annotations") or {})
        if notes.pop("kubectl.kubernetes.io/last-applied-configuration", None) is not None:
            value["metadata"] = {**value["metadata"], "annotations": notes}
    return _without_nuls(value)


def _redacted(data: dict[str, str]) -> dict[str, str]:
    return dict.fromkeys(data, "redacted")


def _without_nuls(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    if isinstance(value, dict):
        return {_without_nuls(key): _without_nuls(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_without_nuls(each) for each in value]
    return value


def parts(key: str) -> tuple[str, str]:
    """Namespace and name of a key."""
    namespace, _, name = key.rpartition("/")
    return namespace, name


class Reader:
    """Somebody who reads all the while, in transactions of their own, and checks each picture against the
    cluster's state at the version that the stream claims.
    """

    def __init__(self, world: World, type_: tuple[str, str]) -> None:
        self._world = world
        self._type = type_
        self.pictures = 0
        self.counts: list[int] = []
        self.wrong: list[str] = []
        self._known: dict[tuple[str, int], dict[str, Record]] = {}

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if kind is None:
            assert self.wrong == []
            assert self.pictures > 0

    async def _read(self) -> None:
        while True:
            try:
                glimpse = await asyncio.to_thread(self._world.table.glimpse, *self._type)
            except NO_TABLES:
                await asyncio.sleep(0.05)  # there is no table yet
                continue
            self.pictures += 1
            self.counts.append(len(glimpse.rows))
            for namespace, version in glimpse.checkpoints.items():
                if version is not None:
                    self.wrong += self._behind(glimpse, namespace, int(version))
            await asyncio.sleep(0.06)

    def _behind(self, glimpse: Glimpse, namespace: str, version: int) -> list[str]:
        """Where rows are behind the version that their stream claims."""
        collection = self._world.simulator.collection(*self._type)
        inside = f"{namespace}/" if namespace else ""
        if (namespace, version) not in self._known:
            past = collection.past(version)
            self._known[namespace, version] = {key: past[key] for key in past if key.startswith(inside)}
        then = self._known[namespace, version]
        found = []
        for key, record in then.items():
            row, later = glimpse.rows.get(key), collection.current.records.get(key)
            if row is None and later is not None and later.uid == record.uid:
                found.append(f"{key} of version {record.version} is missing at {version}")
            elif row is not None and row[1] < record.version:
                found.append(f"{key} is at {row[1]}, but at {version} it was at {record.version}")
        for key, (uid, at) in glimpse.rows.items():
            before = then.get(key)
            if key.startswith(inside) and at <= version and (before is None or before.uid != uid):
                found.append(f"{key} at {at} was gone at {version}")
        return found


def names(resources: Sequence[tuple[str, str]]) -> list[str]:
    """As a configuration spells them."""
    return [f"{resource}.{group}" if group else resource for group, resource in resources]
