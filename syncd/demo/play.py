"""The acts of the demo, in their order, and the clock that they keep."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from syncd.core.errors import ConfigError, SyncdError
from syncd.demo import mirror
from syncd.demo.mirror import Mirror, Reading
from syncd.demo.question import QUESTIONS
from syncd.demo.stage import Stage
from syncd.demo.table import SPOILING, Table
from syncd.simulator.server import SimulatorServer, write_kubeconfig
from syncd.simulator.simulator import Simulator
from syncd.simulator.workload import Workload
from syncd.store.lock import FileLock

CHURN = 36.0  # changes a second, of pods, configmaps and widgets
ROLLOUTS = 4.0  # changes a second, of deployments
PATIENCE = 90.0  # seconds for anything that is waited for
LOOK_EVERY = 0.2  # seconds between two looks at the daemon
OUTAGE = 1.0  # seconds that the daemon stays dead
FORGOTTEN = 100  # changes in the history that the server drops
SCRIPT = 30.0  # seconds over which the acts are spread; a longer demo goes on living after them

# When each pause between the acts ends, as shares of the script, and its least length in seconds.
_FIRST_SYNC, _RESUMED, _RELISTED, _REPAIRED = (0.30, 1.5), (0.52, 1.0), (0.70, 1.0), (0.90, 1.0)

MARK = "# Written by `syncd demo`, which will write it again."
RESOURCES = (
    ("", "namespaces"),
    ("", "pods"),
    ("", "configmaps"),
    ("", "secrets"),
    ("apps", "deployments"),
    ("example.com", "widgets"),
)
_CONFIG = """\
{mark}
database:
  url: sqlite:///demo.db
clusters:
  - name: demo
    kubeconfig: kubeconfig
resources: {resources}
server: {{listen: "127.0.0.1:0"}}  # a free port; daemon.log says which
log: {{format: json}}
"""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line says.

    Attributes:
        seconds: about how long it lasts; None: until it is stopped.
        directory: where its files go.
    """

    seconds: float | None = 30.0
    pods: int = 5_000
    directory: Path = Path(".demo")
    seed: int = 0


class Play:
    """One performance.

    Attributes:
        complete: the whole script was played, and the table equals the cluster.

    Raises:
        ConfigError: the directory holds something that is not the demo's, or cannot be written.
        SyncdError: the daemon failed, or something that was waited for did not come.
    """

    def __init__(self, settings: Settings, console: Console) -> None:
        self._settings = settings
        self._stage = Stage(console)
        self._folder = settings.directory
        self._config = self._folder / "syncd.yaml"
        self._table = Table(self._folder / "demo.db")
        self._mirror = Mirror(self._config, self._folder / "daemon.log")
        self._simulator = Simulator(settings.seed, bookmark_interval=5.0, history=10_000, remember=False)
        self._workload = Workload(self._simulator, seed=settings.seed)
        self._churn: list[asyncio.Task[None]] = []
        self._began = time.monotonic()
        self.complete = False

    async def run(self) -> bool:
        """Performs; whether the table equals the cluster at the end. Leaves no process behind."""
        await self._prepare()
        try:
            with self._stage:
                self._open()
                async with SimulatorServer(self._simulator) as server:
                    equal = await self._perform(server.url)
        finally:
            self._hold_still()
        self._farewell()
        return equal

    async def _perform(self, url: str) -> bool:
        """All of it, while the cluster answers; its daemon goes before it."""
        try:
            write_kubeconfig(self._folder / "kubeconfig", url)
            await self._acts(url)
            equal = self.complete = await self._close()
            if self._settings.seconds is None and equal:
                await self._go_on()
            return equal
        finally:
            await self._mirror.stop()

    async def _acts(self, url: str) -> None:
        self._cluster(url)
        await self._first_sync()
        await self._live(*_FIRST_SYNC)
        await self._kill()
        await self._live(*_RESUMED)
        await self._expire()
        await self._live(*_RELISTED)
        await self._drift()
        await self._live(*_REPAIRED)
        await self._until(self._began + (self._settings.seconds or 0.0) * _REPAIRED[0])

    # --- before -----------------------------------------------------------------------------------

    async def _prepare(self) -> None:
        """An empty directory, as far as it is ours."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if self._config.exists() and not self._config.read_text(errors="replace").startswith(MARK):
                raise ConfigError(f"{self._config} is not the demo's; choose another --dir")
            lock = FileLock(self._folder / "demo.db.lock")  # whoever mirrors into this file holds it
            if not await lock.acquire():
                raise ConfigError(f"{self._table.path} is in use by a syncd; stop it or choose another --dir")
            await lock.release()
            for name in ("demo.db", "demo.db-wal", "demo.db-shm", "daemon.log"):
                (self._folder / name).unlink(missing_ok=True)
            names = [f"{resource}.{group}" if group else resource for group, resource in RESOURCES]
            text = _CONFIG.format(mark=MARK, resources=json.dumps(names))
            self._config.write_text(text, encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"{self._folder}: {error.strerror}; choose another --dir") from error

    def _open(self) -> None:
        seconds = self._settings.seconds
        length = "until Ctrl-C" if seconds is None else f"about {seconds:.0f} s"
        self._stage.open("syncd demo", f"a Kubernetes cluster, mirrored into SQL; {length}")

    # --- the acts ---------------------------------------------------------------------------------

    def _cluster(self, url: str) -> None:
        pods = self._settings.pods
        self._stage.act(
            "A cluster",
            f"A simulated Kubernetes API with {pods:,} pods of about 8 KB, and"
            f" {CHURN + ROLLOUTS:.0f} changes a second that never stop. Nothing here needs a real cluster.",
        )
        self._workload.fill(pods)
        self._workload.deployments(max(0, 20 - pods // 50))
        self._stage.note(f"It answers at {url}, to kubectl too.")
        self._move()

    async def _first_sync(self) -> None:
        self._stage.act(
            "The first sync",
            "A daemon, syncd run, lists everything in pages, then watches. Rows and the version they stand"
            " at are always committed in one transaction.",
        )
        await self._mirror.start()
        reading = await self._look_until(lambda seen: seen.live(len(RESOURCES)), total=True)
        seconds = reading.at - self._mirror.started_at
        self._stage.say(
            f"`{reading.objects:,} objects` in {len(RESOURCES)} streams, live {seconds:.1f} s after the"
            f" process was started; the file has {self._table.size / 1e6:,.0f} MB."
        )

    async def _kill(self) -> None:
        self._stage.act(
            "kill -9, and a resume",
            "The daemon dies without a word, and the cluster goes on. A mirror usually has to list everything"
            " again now. This one reads from the table which version it had reached.",
        )
        await self._mirror.kill()
        await self._until(time.monotonic() + OUTAGE)
        self._hold_still()  # so that what is written can be counted against what was missed
        missed, asked = self._differing(), len(self._simulator.requests)
        await self._mirror.start()
        reading = await self._level()
        seconds = reading.at - self._mirror.started_at
        lists, probes, watches = self._asked_since(asked)
        self._stage.say(
            f"Asked of the API after the restart: `{lists} lists`, {probes} probes of one object,"
            f" {watches} watches."
        )
        self._stage.say(
            f"{missed} objects had changed meanwhile; `{reading.written} rows written`, level again"
            f" {seconds:.1f} s after the process was started."
        )
        self._move()

    async def _expire(self) -> None:
        self._stage.act(
            "410 Gone",
            "All watches are cut, and the server forgets its history: there is nothing left to resume from,"
            " so syncd has to list again. It compares each page with the rows of its range.",
        )
        before = await self._look_until(lambda seen: True)
        moment, asked = self._table.now(), len(self._simulator.requests)
        self._simulator.faults.cut_watches()
        for _ in range(FORGOTTEN):  # nobody hears of these
            self._workload.change()
        self._simulator.compact()
        self._hold_still()
        wanted = before.relists["expired"] + len(RESOURCES)
        after = await self._level(lambda seen: seen.relists["expired"] >= wanted)
        lists, _, _ = self._asked_since(asked)
        self._stage.say(
            f"{lists} lists, {after.objects:,} objects compared: {after.written - before.written} rows"
            f" written, `{self._table.untouched_since(moment):,} not touched`. A relist compares; it does not"
            " reload."
        )
        self._move()

    async def _drift(self) -> None:
        self._stage.act(
            "Drift",
            "Somebody edits the table by hand: a row is deleted, one set back, one invented. No event will"
            " ever tell. A reconcile compares cluster and table beside the live stream.",
        )
        for statement in await asyncio.to_thread(self._table.spoil):
            head, *more = statement.splitlines()
            self._stage.code(f"{head}{' …' if more else ';'}")
        self._stage.commands([(f"$ {_program()} reconcile -c {self._config}", "")])
        reconciling = asyncio.create_task(mirror.reconcile(self._config))
        try:
            while not reconciling.done():
                await self._look()
            code, report = reconciling.result()
        finally:
            reconciling.cancel()
            await asyncio.gather(reconciling, return_exceptions=True)
        self._stage.output(report)
        if code:
            raise SyncdError(f"syncd reconcile ended with code {code}")
        self._stage.say(
            "`Found and repaired`, while the stream went on; each finding is a row of syncd_drift."
        )

    async def _close(self) -> bool:
        """The questions, and the proof."""
        self._stage.rest()
        self._stage.act("Questions", "What all this is for: the cluster answers SQL.")
        for question in QUESTIONS:
            self._stage.note(f"-- {question.text}")
            self._stage.code(question.query)
            self._stage.answer(*await asyncio.to_thread(self._table.ask, question.query))
        self._stage.act(
            "Proof",
            "The changes stop. Every row is compared with the simulator's own state: key, uid, version and"
            " document.",
        )
        self._hold_still()
        with suppress(SyncdError):
            await self._look_until(lambda seen: not self._differing(), seconds=15.0, show=False)
        differing = self._differing()
        unlike = self._table.unlike(self._simulator, RESOURCES)
        objects = sum(len(self._simulator.collection(*resource)) for resource in RESOURCES)
        if differing or unlike:
            self._stage.say(
                f"table ≡ cluster: `no`: of {objects:,} objects {differing} differ in key, uid or version,"
                f" {unlike} in content",
                good=False,
            )
            return False
        self._stage.say(f"table ≡ cluster: `yes` ({objects:,} objects in {len(RESOURCES)} streams)")
        return True

    async def _go_on(self) -> None:
        self._stage.act("And so on", "It goes on until Ctrl-C. Try the commands below in another terminal.")
        self._stage.commands(self._commands())
        self._move()
        while True:
            await self._look()

    def _farewell(self) -> None:
        self._stage.close("The table stays", "in a file that any program may read. Try:")
        self._stage.commands(self._commands())
        if self._settings.seconds is not None:
            self._stage.commands([('make demo ARGS="--forever"', "a cluster to play with, for kubectl too")])

    def _commands(self) -> list[tuple[str, str]]:
        query = "SELECT kind, count(*) FROM syncd_objects GROUP BY 1"
        commands = [(f'sqlite3 {self._table.path} "{query}"', "")]
        if self._settings.seconds is None:
            commands.append((f"kubectl --kubeconfig {self._folder}/kubeconfig get pods -A", "the cluster"))
        return [*commands, (f"{_program()} status -c {self._config}", "how fresh each stream is")]

    # --- what the acts share ----------------------------------------------------------------------

    def _move(self) -> None:
        if not self._churn:
            workloads = (self._workload.churn(CHURN), self._roll_out())
            self._churn = [asyncio.create_task(changes) for changes in workloads]

    def _hold_still(self) -> None:
        for task in self._churn:
            task.cancel()
        self._churn = []

    async def _roll_out(self) -> None:
        """Deployments change too, save those whose rows are going to be spoiled: an event would mend them."""
        for replicas in itertools.cycle(range(1, 10)):
            keys = self._simulator.collection("apps", "deployments").current.keys[len(SPOILING) :]
            namespace, _, name = self._workload.random.choice(keys).partition("/")
            self._simulator.patch("apps", "deployments", namespace, name, {"spec": {"replicas": replicas}})
            await asyncio.sleep(1 / ROLLOUTS)

    def _differing(self) -> int:
        return self._table.differing(self._simulator, RESOURCES)

    def _asked_since(self, index: int) -> tuple[int, int, int]:
        """(lists, probes, watches) of the mirrored resources since the log had so many entries."""
        asked = [r for r in self._simulator.requests[index:] if (r.group, r.resource) in RESOURCES]
        lists = sum(r.verb == "list" and not r.probes and "continue" not in r.query for r in asked)
        return lists, sum(r.probes for r in asked), sum(r.verb == "watch" for r in asked)

    async def _live(self, share: float, least: float) -> None:
        """Lets the audience watch, until the script goes on."""
        script = min(SCRIPT, self._settings.seconds or SCRIPT)
        await self._until(max(self._began + share * script, time.monotonic() + least))

    async def _until(self, moment: float) -> None:
        while time.monotonic() < moment:
            await self._look()

    async def _look(self, *, total: bool = False, show: bool = True) -> Reading | None:
        """One look at the daemon, shown; a moment later."""
        reading = await self._mirror.read() if self._mirror.pid else None
        objects = sum(len(self._simulator.collection(*resource)) for resource in RESOURCES)
        if show:
            self._stage.show(reading, pid=self._mirror.pid, total=objects if total else None)
        await asyncio.sleep(LOOK_EVERY / 4 if total else LOOK_EVERY)
        return reading

    async def _level(self, reached: Callable[[Reading], bool] = lambda seen: True) -> Reading:
        """Waits until every stream is live and the table equals a cluster that holds still."""

        def level(seen: Reading) -> bool:
            return reached(seen) and seen.live(len(RESOURCES)) and not self._differing()

        await self._look_until(level)
        return await self._look_until(reached)  # the counters after the last commit

    async def _look_until(
        self,
        reached: Callable[[Reading], bool],
        *,
        seconds: float = PATIENCE,
        total: bool = False,
        show: bool = True,
    ) -> Reading:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            reading = await self._look(total=total, show=show)
            if reading is not None and reached(reading):
                return reading
        raise SyncdError(f"the daemon was not where it should be after {seconds:.0f} s; see its log")


def _program() -> str:
    """The command as it was called, so that what is shown can be copied."""
    called = sys.argv[0]
    return called if Path(called).name == "syncd" else "syncd"
