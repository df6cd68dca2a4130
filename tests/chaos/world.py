"""One seed: a cluster, a database and the product between them, and what the steps mean to them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import resource
import sqlite3
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psycopg

from syncd.simulator.custom import CRDS
from syncd.simulator.faults import WATCH_LISTS
from syncd.simulator.server import SimulatorServer, write_kubeconfig
from syncd.simulator.simulator import Simulator
from tests.chaos.checker import Checker, Picture, picture
from tests.chaos.daemon import Child, InProcess, Mirror
from tests.chaos.database import PostgresqlFaults, Server, Windows, locked_file
from tests.chaos.history import History, Scope, Type
from tests.chaos.schedule import Schedule, Step
from tests.conftest import DatabasePlace
from tests.e2e.table import Table
from tests.e2e.world import parts

TYPES: dict[str, Type] = {
    "configmaps": ("", "configmaps"),
    "pods": ("", "pods"),
    "widgets": ("example.com", "widgets"),
}
NAMESPACES = ("a", "ord", "ord-b", "zz")  # `ord-b/a` sorts before `ord/a`
SCOPES: dict[str, tuple[Scope, ...]] = {
    "configmaps": (Scope(), Scope(("a", "ord")), Scope(("ord-b", "zz", "a"))),
    "pods": (Scope(tier="gold"), Scope(), Scope(tier="tin"), Scope(("ord",), "gold")),
    "widgets": (Scope(),),
}
"""What may be configured; the first of each at the start."""
DEFINITION = "widgets.example.com"
REST = 25.0
"""Seconds for the table to become the cluster once all faults are gone; usually well under one."""
STRANGE = (
    "nul \0 in it",
    "back\\u0000slash",
    "\x01\x1f\x7f\x85",
    "ä€\u2028\u2029<>&",
    "\U0001f600\U00020000\U000e0001\U0010fffd",
    "\ufffd\ufeff\uffff",
    '{"nested": "\\"json\\""}',
)


class Failed(AssertionError):
    """Something did not hold; the message says what."""


class World:
    """Everything of one seed."""

    def __init__(self, schedule: Schedule, directory: Path, server: Server | None) -> None:
        self.schedule = schedule
        self.ran = 0
        self._directory = directory
        self._server = server
        self.simulator = Simulator(
            seed=schedule.seed, bookmark_interval=0.3, history=schedule.history, watch_buffer=100
        )
        scopes = {TYPES[name]: choice[0] for name, choice in SCOPES.items()}
        self.history = History(self.simulator, scopes)
        self.checker = Checker(self.simulator, self.history, tuple(TYPES.values()))
        self.place = (
            server.place()
            if server is not None
            else DatabasePlace("sqlite", f"sqlite:///{directory / 'mirror.db'}")
        )
        self.table = Table(self.place)
        self._postgresql = PostgresqlFaults(server, self.place) if server is not None else None
        self._windows = Windows()
        self._generation = 0
        self._rescoped = False
        self._wrong: list[str] = []
        self.mirror: Mirror

    # --- the whole of it --------------------------------------------------------------------------

    async def run(self) -> None:
        """All steps, then rest.

        Raises:
            Failed: something did not hold.
        """
        self._fill()
        async with SimulatorServer(self.simulator) as served:
            self._url = served.url
            config = self._configure()
            self.mirror = Child(config, self.table) if self.schedule.process else InProcess(config)
            reader = asyncio.create_task(self._read())
            try:
                await self.mirror.start()
                await self._begun()
                for step in self.schedule.steps:
                    self.ran += 1
                    await self._do(step)
                    await asyncio.sleep(step.pause)
                    self._judge()
                self.ran += 1
                await self._rest()
            finally:
                reader.cancel()
                await asyncio.gather(reader, return_exceptions=True)
                await self._windows.close()
                self.simulator.faults.clear()
                await self.mirror.close()
                if self._server is not None:
                    await asyncio.to_thread(self._server.drop, self.place)

    async def _begun(self) -> None:
        """A process takes a second to start: the steps are for what runs."""
        if self.schedule.process:
            ends_at = time.monotonic() + 10.0
            while await self._picture() is None and time.monotonic() < ends_at:
                await asyncio.sleep(0.03)

    def _configure(self) -> Path:
        kubeconfig = self._directory / "kubeconfig"
        write_kubeconfig(kubeconfig, self._url)
        document: dict[str, Any] = {
            "database": {"url": self.place.url, "schema": self.place.schema},
            "clusters": [{"name": "c", "kubeconfig": str(kubeconfig)}],
            "resources": [self._entry(type_, scope) for type_, scope in self.history.scopes.items()],
            "initial": self.schedule.initial,
            "limits": {"queue_bytes": self.schedule.queue},
            "reconcile": {"enabled": False},
            "server": {"listen": ""},
            "log": {"format": "json", "level": "debug"},
        }
        path = self._directory / "syncd.yaml"
        path.write_text(json.dumps(document))
        return path

    def _entry(self, type_: Type, scope: Scope) -> dict[str, Any]:
        name = f"{type_[1]}.{type_[0]}" if type_[0] else type_[1]
        entry: dict[str, Any] = {"name": name, "page_size": self.schedule.page_size}
        if scope.namespaces:
            entry["namespaces"] = list(scope.namespaces)
        if self._polled(type_):
            entry |= {"mode": "poll", "every": "1s"}
        if scope.tier:
            entry["label_selector"] = f"tier={scope.tier}"
        return entry

    def _polled(self, type_: Type) -> bool:
        return self.schedule.polls and type_ == TYPES["configmaps"]

    def _fill(self) -> None:
        rand = random.Random(self.schedule.seed)
        self.simulator.create_crd()
        for target in TYPES:
            for _ in range(self.schedule.objects):
                self._create(rand, target)
        self._oldest = self.simulator.resource_version  # nothing goes back beyond it

    # --- reading ----------------------------------------------------------------------------------

    async def _read(self) -> None:
        """Somebody who reads all the while."""
        while True:
            generation = self._generation
            taken = await self._picture()
            if taken is not None and generation == self._generation:
                self._wrong += self.checker.wrong(taken)
            await asyncio.sleep(0.04)

    async def _picture(self) -> Picture | None:
        try:
            return await asyncio.to_thread(picture, self.table)
        except (sqlite3.OperationalError, psycopg.errors.UndefinedTable, psycopg.OperationalError):
            return None  # not there yet, or not to be had at present

    def _judge(self) -> None:
        if self._wrong:
            raise Failed("; ".join(self._wrong[:5]))
        failure = self.mirror.failure()
        if failure:
            raise Failed(f"the daemon: {failure}")

    # --- rest -------------------------------------------------------------------------------------

    async def _rest(self) -> None:
        """Without faults the table becomes the cluster, and a reconcile finds what could not be told."""
        await self._windows.close()
        self.simulator.faults.clear()
        left = await self._until_level()
        reports = await self._reconcile(left)
        await self._until_level(exactly=True)
        found = [f"{report['stream']}: {report['error']}" for report in reports if report["error"]]
        found += self.checker.documents(self.table)
        taken = await self._picture()
        assert taken is not None
        found += self.checker.wrong(taken)
        found += self.checker.tombstones(self.table, taken, rescoped=self._rescoped)
        found += [
            f"quarantined: {row}" for row in self.table.ask("SELECT object_key, error FROM syncd_quarantine")
        ]
        found += self._faults_of_our_own()
        self._judge()
        if found:
            raise Failed("at rest: " + "; ".join(found[:5]))

    def _served(self) -> set[str]:
        return {kind.name for kind in self.simulator.kinds if (kind.group, kind.name) in TYPES.values()}

    def _wanted(self) -> list[tuple[str, str]]:
        """The streams that there should be: (resource, namespace)."""
        served, scopes = self._served(), self.history.scopes
        return [
            (type_[1], namespace)
            for type_, scope in scopes.items()
            if type_[1] in served
            for namespace in scope.namespaces or ("",)
        ]

    async def _until_level(self, *, exactly: bool = False) -> dict[Type, dict[str, str]]:
        """Until streams are live and only what watchers were never told differs; that."""
        ends_at, before = time.monotonic() + REST, None
        while True:
            self._judge()
            taken = await self._picture()
            problem = "no picture can be had"
            if taken is not None:
                differs = self.checker.unlevel(taken)
                untold = {t: {} if self._polled(t) else keys for t, keys in self.history.untold.items()}
                unexplained = {
                    type_[1]: {k: what for k, what in found.items() if exactly or k not in untold[type_]}
                    for type_, found in differs.items()
                }
                states = {(s.type_[1], s.namespace): (s.state, s.error) for s in taken.streams}
                live = states == dict.fromkeys(self._wanted(), ("live", ""))
                if live and not any(unexplained.values()):
                    if not any(differs.values()) or differs == before:
                        return differs
                    before = differs  # what is still on its way differs too
                    await asyncio.sleep(0.5)
                    continue
                some = {name: list(found.items())[:4] for name, found in unexplained.items() if found}
                problem = f"streams {states}, differences {some}"
            if time.monotonic() > ends_at:
                raise Failed(f"not level within {REST:g} s of rest: {problem}")
            await asyncio.sleep(0.03)

    async def _reconcile(self, left: dict[Type, dict[str, str]]) -> list[dict[str, Any]]:
        """Reconciles until no stream says that it could not; the last reports."""
        ids = await self._newest_reconciliation()
        ends_at = time.monotonic() + REST
        lists = await self._lists()
        while True:
            reports = await self.mirror.reconcile()
            if not any(report["error"] for report in reports) or time.monotonic() > ends_at:
                break
            await asyncio.sleep(0.05)
        query = "SELECT api_group, resource, object_key, finding FROM syncd_drift WHERE reconciliation_id > ?"
        told: dict[Type, dict[str, str]] = {type_: {} for type_ in TYPES.values()}
        for group, name, key, finding in await asyncio.to_thread(self.table.ask, query, ids):
            told[group, name][key] = finding
        relisted = await self._lists() != lists
        for type_ in TYPES.values():
            if told[type_] == left.get(type_, {}) or self._polled(type_):
                continue
            if relisted and told[type_].items() <= left[type_].items():
                continue  # the relist brought the rest
            raise Failed(f"{type_[1]}: the reconcile found {told[type_]}, not {left[type_]}")
        return reports

    async def _newest_reconciliation(self) -> int:
        query = "SELECT coalesce(max(reconciliation_id), 0) FROM syncd_reconciliations"
        return int(await asyncio.to_thread(self.table.one, query))

    async def _lists(self) -> list[tuple[Any, ...]]:
        query = "SELECT stream_id, last_list_at FROM syncd_streams ORDER BY stream_id"
        return await asyncio.to_thread(self.table.ask, query)

    def _faults_of_our_own(self) -> list[str]:
        found = []
        for line in self.mirror.text.splitlines():
            ours = '"level": "error"' in line or "Traceback" in line or "never retrieved" in line
            if ours and "taken over" not in line:
                found.append(f"logged: {line[:1500]}")
        return found

    # --- steps ------------------------------------------------------------------------------------

    async def _do(self, step: Step) -> None:
        rand = random.Random(step.draw)
        method = getattr(self, f"_do_{step.kind}")
        await method(step, rand)

    def _create(self, rand: random.Random, target: str, name: str = "", size: int = 0) -> None:
        type_ = TYPES[target]
        if target not in self._served():
            return
        present = self.simulator.collection(*type_).current.records
        key = name or f"{rand.choice(NAMESPACES)}/{rand.choice('abc')}-{rand.randrange(60)}"
        if key in present:
            return
        namespace, plain = parts(key)
        metadata: dict[str, Any] = {
            "namespace": namespace,
            "name": plain,
            "labels": {"tier": self._tier(rand)},
        }
        content = self._content(rand, size)
        bodies = {
            "configmaps": {"data": {"n": content}},
            "pods": {"spec": {"nodeName": content}, "status": {"phase": "Running"}},
            "widgets": {"spec": {"size": content}},
        }
        manager = "kubelet" if rand.random() < 0.3 else ""
        self.simulator.create(*type_, {"metadata": metadata, **bodies[target]}, manager=manager)

    def _content(self, rand: random.Random, size: int) -> str:
        if size:
            return "".join(rand.choices('abcdefgh \n"é€', k=min(size, 4000))) * (size // 4000 + 1)
        return f"{rand.random()}"

    def _tier(self, rand: random.Random) -> str:
        return "gold" if rand.random() < 0.7 else "tin"

    def _any(self, rand: random.Random, target: str) -> str | None:
        keys = self.simulator.collection(*TYPES[target]).current.keys
        return rand.choice(keys) if keys and target in self._served() else None

    def _write_one(self, rand: random.Random, target: str) -> None:
        key = self._any(rand, target)
        what = rand.random()
        if key is None or what < 0.25:
            self._create(rand, target)
            return
        namespace, name = parts(key)
        type_ = TYPES[target]
        if what < 0.6:
            patch: dict[str, Any] = {"metadata": {"annotations": {"at": f"{rand.random()}"}}}
            self.simulator.patch(*type_, namespace, name, patch)
        elif what < 0.75:
            self.simulator.patch(
                *type_, namespace, name, {"metadata": {"labels": {"tier": self._tier(rand)}}}
            )
        elif what < 0.9:
            self.simulator.delete(*type_, namespace, name)
        else:
            self.simulator.delete(*type_, namespace, name)
            self._create(rand, target, key)

    async def _do_write(self, step: Step, rand: random.Random) -> None:
        for _ in range(step.amount):
            self._write_one(rand, step.target)
            if rand.random() < 0.2:
                await asyncio.sleep(0)

    async def _do_storm(self, step: Step, rand: random.Random) -> None:
        for _ in range(step.amount):
            self._write_one(rand, step.target)

    async def _do_odd(self, step: Step, rand: random.Random) -> None:
        for _ in range(step.amount):
            self._create(rand, step.target)
            key = self._any(rand, step.target)
            if key is not None:
                text = rand.choice(STRANGE)
                notes = {"strange": text, text.replace("\0", "0"): "key"}
                self.simulator.patch(*TYPES[step.target], *parts(key), {"metadata": {"annotations": notes}})

    async def _do_big(self, step: Step, rand: random.Random) -> None:
        key = self._any(rand, step.target)
        if key is not None:
            self.simulator.delete(*TYPES[step.target], *parts(key))
            self._create(rand, step.target, key, step.amount)

    _do_huge = _do_big

    async def _do_delete_together(self, step: Step, rand: random.Random) -> None:
        """Many at one version, as where a lease expires."""
        keys = list(self.simulator.collection(*TYPES[step.target]).current.keys)
        if keys and step.target in self._served():
            self.simulator.delete_many(*TYPES[step.target], rand.sample(keys, min(len(keys), step.amount)))

    async def _do_wipe(self, step: Step, rand: random.Random) -> None:
        inside = f"{rand.choice(NAMESPACES)}/"
        for key in [
            k for k in self.simulator.collection(*TYPES[step.target]).current.keys if k.startswith(inside)
        ]:
            self.simulator.delete(*TYPES[step.target], *parts(key))

    # the API

    async def _do_cut(self, step: Step, rand: random.Random) -> None:
        self.simulator.faults.cut_watches(step.target)

    async def _do_cut_mid_line(self, step: Step, rand: random.Random) -> None:
        self.simulator.faults.cut_watches(step.target, mid_line=True)
        self._write_one(rand, step.target)

    async def _do_cut_after(self, step: Step, rand: random.Random) -> None:
        self.simulator.faults.cut_watches(step.target, after_bytes=step.amount)

    async def _do_end(self, step: Step, rand: random.Random) -> None:
        self.simulator.faults.end_watches(step.target)

    async def _do_stall(self, step: Step, rand: random.Random) -> None:
        self.simulator.faults.stall_watches(step.target)

    async def _do_truncate(self, step: Step, rand: random.Random) -> None:
        self.simulator.faults.truncate(step.amount, resource=step.target, times=rand.randint(1, 3))
        self._maybe_cut(rand, step.target)

    def _maybe_cut(self, rand: random.Random, target: str) -> None:
        """So that a fault of requests meets one."""
        if rand.random() < 0.6:
            self._gap(rand, target, 3)

    async def _do_answer(self, step: Step, rand: random.Random) -> None:
        conditions: dict[str, Any] = {"times": step.amount, "plain": rand.random() < 0.3}
        if rand.random() < 0.85:
            conditions["resource"] = step.target
        if rand.random() < 0.5:
            conditions["verb"] = rand.choice(("list", "watch"))
        if step.status == 429:
            conditions["retry_after"] = 0
        self.simulator.faults.answer(step.status, **conditions)
        self._maybe_cut(rand, step.target)

    async def _do_error_event(self, step: Step, rand: random.Random) -> None:
        self.simulator.faults.fail_watches(rand.choice((410, 429, 500, 504)), step.target)

    async def _do_drop(self, step: Step, rand: random.Random) -> None:
        if step.target in self._served():
            self.simulator.faults.drop_events(step.amount, group=TYPES[step.target][0], resource=step.target)
            for _ in range(step.amount):
                self._write_one(rand, step.target)
            self.simulator.collection(*TYPES[step.target]).hide = 0

    async def _do_expire_tokens(self, step: Step, rand: random.Random) -> None:
        self.simulator.faults.expire_tokens(times=step.amount, resource=step.target)
        self._maybe_cut(rand, step.target)

    async def _do_compact(self, step: Step, rand: random.Random) -> None:
        self.simulator.compact()

    async def _do_gap(self, step: Step, rand: random.Random) -> None:
        self._gap(rand, step.target, step.amount)

    def _gap(self, rand: random.Random, target: str, amount: int) -> None:
        """What happened is forgotten before anybody was told: a relist."""
        self.simulator.faults.stall_watches(target)
        for _ in range(amount):
            self._write_one(rand, target)
        self.simulator.compact()
        self.simulator.faults.cut_watches(target)

    async def _do_slow(self, step: Step, rand: random.Random) -> None:
        self.simulator.faults.delay(step.amount / 1000, resource=step.target, times=rand.randint(1, 12))
        self._maybe_cut(rand, step.target)

    async def _do_empty(self, step: Step, rand: random.Random) -> None:
        """All of it goes, unseen: more than a list may delete unconfirmed."""
        self.simulator.faults.stall_watches(step.target)
        for key in list(self.simulator.collection(*TYPES[step.target]).current.keys):
            self.simulator.delete(*TYPES[step.target], *parts(key))
        self._gap(rand, step.target, rand.choice((0, 3, 30)))

    async def _do_starve(self, step: Step, rand: random.Random) -> None:
        """The server forgets more quickly than a snapshot is written."""
        if step.target in self._served():
            self._windows.open(lambda: self._starving(step, rand), 0.0)

    @contextlib.asynccontextmanager
    async def _starving(self, step: Step, rand: random.Random) -> AsyncIterator[None]:
        self.simulator.faults.delay(0.01, resource=step.target, verb="list", seconds=step.amount / 1000)
        self._gap(rand, step.target, 3)
        ends_at = time.monotonic() + step.amount / 1000
        while time.monotonic() < ends_at:
            self._write_one(rand, step.target)
            self.simulator.compact()
            await asyncio.sleep(0.02)
        yield

    async def _do_spoil_watch_list(self, step: Step, rand: random.Random) -> None:
        group = TYPES[step.target][0]
        self.simulator.faults.spoil_watch_lists(rand.choice(WATCH_LISTS), group=group, resource=step.target)
        self._maybe_cut(rand, step.target)

    async def _do_rollback(self, step: Step, rand: random.Random) -> None:
        self._roll_back(step, rand, masked=False)

    async def _do_masked_rollback(self, step: Step, rand: random.Random) -> None:
        self._roll_back(step, rand, masked=True)

    def _roll_back(self, step: Step, rand: random.Random, *, masked: bool) -> None:
        simulator = self.simulator
        lost = simulator.resource_version
        version = max(self._oldest, lost - step.amount)
        self._generation += 1
        self.checker.distrust()
        self.history.rolled_back(version)
        simulator.rollback(version, masked_past=lost + rand.randint(0, 3) if masked else None)
        if rand.random() < 0.5:
            simulator.compact()
        for _ in range(rand.choice((0, 0, 3, 30))):
            self._write_one(rand, rand.choice(tuple(TYPES)))

    async def _do_other_cluster(self, step: Step, rand: random.Random) -> None:
        self.simulator.set_cluster_uid(self.simulator.uid())
        self.simulator.compact()
        self.simulator.faults.cut_watches()

    async def _do_crd_change(self, step: Step, rand: random.Random) -> None:
        definitions = self.simulator.objects(*CRDS)
        if DEFINITION in definitions:
            crd = definitions[DEFINITION]
            crd["metadata"].pop("resourceVersion")
            [version] = crd["spec"]["versions"]
            default = {"type": "string", "default": f"{rand.choice('xyz')}"}
            version["schema"]["openAPIV3Schema"]["properties"] = {"mode": default}
            self.simulator.crd_warmup = rand.choice((0.0, 0.05, 0.2))
            self.simulator.update(*CRDS, crd)

    async def _do_crd_delete(self, step: Step, rand: random.Random) -> None:
        if DEFINITION in self.simulator.objects(*CRDS):
            self.simulator.delete(*CRDS, "", DEFINITION)

    async def _do_crd_create(self, step: Step, rand: random.Random) -> None:
        if DEFINITION not in self.simulator.objects(*CRDS):
            self.simulator.crd_warmup = rand.choice((0.0, 0.05, 0.2))
            self.simulator.create_crd()
            for _ in range(rand.randrange(20)):
                self._create(rand, "widgets")

    async def _do_stale_group(self, step: Step, rand: random.Random) -> None:
        self.simulator.faults.stale_group("example.com")

    async def _do_missing_group(self, step: Step, rand: random.Random) -> None:
        self.simulator.faults.missing_group("example.com")

    async def _do_clear(self, step: Step, rand: random.Random) -> None:
        self.simulator.faults.clear()

    # the database

    async def _do_end_sessions(self, step: Step, rand: random.Random) -> None:
        assert self._postgresql is not None
        await self._postgresql.end_sessions()

    async def _do_read_only(self, step: Step, rand: random.Random) -> None:
        assert self._postgresql is not None
        self._windows.open(self._postgresql.read_only, step.amount / 1000)

    async def _do_refuse_sessions(self, step: Step, rand: random.Random) -> None:
        assert self._postgresql is not None
        self._windows.open(self._postgresql.refused, step.amount / 1000)

    async def _do_lock_table(self, step: Step, rand: random.Random) -> None:
        assert self._postgresql is not None
        self._windows.open(self._postgresql.locked, step.amount / 1000)

    async def _do_restart_database(self, step: Step, rand: random.Random) -> None:
        assert self._postgresql is not None
        await self._postgresql.restart()

    async def _do_lock_file(self, step: Step, rand: random.Random) -> None:
        self._windows.open(lambda: locked_file(self.place), step.amount / 1000)

    async def _do_full(self, step: Step, rand: random.Random) -> None:
        self._windows.open(self._full, step.amount / 1000)

    @contextlib.asynccontextmanager
    async def _full(self) -> AsyncIterator[None]:
        """No room: by the file's own limit in this process, by a limit of its files in another one."""
        if isinstance(self.mirror, Child):
            pid, wal = self.mirror.process.pid, Path(f"{self.place.path}-wal")
            size = wal.stat().st_size if wal.exists() else 0
            unlimited = resource.RLIM_INFINITY
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (size + 40_000, unlimited))
            yield
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (unlimited, unlimited))
            return
        assert isinstance(self.mirror, InProcess)
        daemon = self.mirror.daemon
        if daemon is None:
            yield
            return
        engine = daemon.database.engine
        async with engine.raw() as connection:
            [(pages,)] = await connection.execute_fetchall("PRAGMA page_count")
            await connection.execute_fetchall(f"PRAGMA max_page_count = {pages}")
        yield
        if self.mirror.daemon is daemon:
            async with engine.raw() as connection:
                await connection.execute_fetchall("PRAGMA max_page_count = 1073741823")

    # the process

    async def _do_restart(self, step: Step, rand: random.Random) -> None:
        await self._windows.close()
        await self.mirror.stop()
        for _ in range(rand.randrange(20)):
            self._write_one(rand, rand.choice(tuple(TYPES)))
        await self.mirror.start()

    _do_terminate = _do_restart

    async def _do_reconfigure(self, step: Step, rand: random.Random) -> None:
        """Another scope; what is new adopts rows of what was."""
        await self._windows.close()
        await self.mirror.stop()
        self._generation += 1
        self._rescoped = True
        self.checker.distrust()
        for name, choice in SCOPES.items():
            self.history.scopes[TYPES[name]] = rand.choice(choice)
        self._configure()
        for _ in range(rand.randrange(20)):
            self._write_one(rand, rand.choice(tuple(TYPES)))
        await self.mirror.start()

    async def _do_kill(self, step: Step, rand: random.Random) -> None:
        assert isinstance(self.mirror, Child)
        await asyncio.sleep(rand.random() * 1.2)
        await self._windows.close()
        await self.mirror.kill()
        for _ in range(rand.randrange(20)):
            self._write_one(rand, rand.choice(tuple(TYPES)))
        await self.mirror.start()
        await asyncio.sleep(rand.random() * 1.2)

    async def _do_freeze(self, step: Step, rand: random.Random) -> None:
        assert isinstance(self.mirror, Child)
        await asyncio.sleep(rand.random() * 1.2)
        await self._windows.close()
        await self.mirror.freeze(0.5)

    async def _do_reconcile(self, step: Step, rand: random.Random) -> None:
        """Beside all else; its findings are checked against what could be wrong."""
        if isinstance(self.mirror, InProcess) and self.mirror.daemon is not None:
            deep = rand.random() < 0.5
            self._windows.open(lambda: self._reconciling(self.mirror, deep), 0.0)

    @contextlib.asynccontextmanager
    async def _reconciling(self, mirror: Mirror, deep: bool) -> AsyncIterator[None]:
        generation, doubtful = self._generation, self.history.doubtful
        reports: list[dict[str, Any]] = []
        with contextlib.suppress(TimeoutError):  # where the stream's reflector is gone with its daemon
            reports = await asyncio.wait_for(mirror.reconcile(deep=deep), 3.0)
        for report in reports:
            if generation == self._generation and report["drift"]:
                type_ = next(t for t in TYPES.values() if report["resource"].split(".")[0] == t[1])
                if not doubtful[type_] and not (report["altered"] and type_ == TYPES["widgets"]):
                    self._wrong.append(f"a reconcile invented drift: {report}")
        yield
