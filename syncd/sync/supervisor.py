"""A supervisor runs one cluster: it asks what is served, decides which streams there are, and keeps one
reflector for each. A sick cluster never stops another, and nothing is forgotten because of an error: a type
counts as removed only when a complete discovery lacks it and its definition is gone (mirror.md §7).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import random

from syncd.core import recovery
from syncd.core.errors import ConfigError, FenceLost, StoreUnavailable, SyncdError
from syncd.core.ports import Clock, ClusterApi, ClusterSeen, Discovery, KnownStream, Mirror
from syncd.core.recovery import Timing
from syncd.core.resource import Cause, State, Stream
from syncd.core.selection import Selection
from syncd.metrics import Metrics
from syncd.sync.definitions import Definitions
from syncd.sync.environment import Environment, Log, Settings
from syncd.sync.identity import Identity
from syncd.sync.plan import Identity as StreamIdentity
from syncd.sync.plan import Knobs, Plan, World, plan
from syncd.sync.reflector import Reflector
from syncd.sync.removal import type_removed

EAGER = 30.0  # seconds of asking discovery often after a definition changed: it follows late
_EAGER_SHARE = 60  # of the usual interval: each second


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """One cluster, as configured. `snapshots`: how many may be under way at a time."""

    name: str
    entries: Sequence[Selection]
    exclude: Sequence[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    snapshots: int = 4
    knobs: Knobs = field(default_factory=Knobs)


@dataclass(frozen=True, slots=True)
class Shared:
    """What all clusters of one process share."""

    clock: Clock
    metrics: Metrics
    log: Log
    lease_lost: Callable[[], None]
    timing: Timing = field(default_factory=Timing)
    random: Callable[[], float] = random


@dataclass(slots=True)
class Running:
    """A reflector and the task that runs it."""

    reflector: Reflector
    task: asyncio.Task[None]


class Supervisor:
    """One cluster's reflectors.

    Attributes:
        error: why the cluster cannot be had at all, '' when it answers.
        problems: what the configuration asks for and the cluster does not give.
        planned: set once the streams are known and started.
        running: the reflectors by identity.
    """

    def __init__(self, settings: ClusterSettings, api: ClusterApi, mirror: Mirror, shared: Shared) -> None:
        self.settings = settings
        self.error = ""
        self.problems: tuple[str, ...] = ()
        self.planned = asyncio.Event()
        self.running: dict[StreamIdentity, Running] = {}
        self._api = api
        self._mirror = mirror
        self._shared = shared
        self._changed = asyncio.Event()
        self._eager_until = float("-inf")
        self._applied: tuple[Discovery, World] | None = None
        self._kept = False  # something unwanted is there still, for it may come back
        seen = ClusterSeen(settings.name, "", api.server, "", settings.labels)
        self._identity = Identity(api, mirror, shared.log, seen)
        self._definitions = Definitions(
            settings.name, api, shared.clock, shared.timing, shared.log, self._look_again
        )
        self.environment = Environment(
            api=api,
            store=mirror,
            clock=shared.clock,
            metrics=shared.metrics,
            log=shared.log,
            verify=self._identity.verify,
            missed=lambda stream: self._look_again(),
            distrusted=self._distrusted,
            lease_lost=shared.lease_lost,
            snapshots=asyncio.Semaphore(settings.snapshots),
            timing=shared.timing,
            random=shared.random,
        )

    @property
    def reflectors(self) -> list[Reflector]:
        return [running.reflector for running in self.running.values()]

    async def run(self) -> None:
        """Until cancelled.

        Raises:
            ConfigError: two entries mean the same rows; only before the first plan.
        """
        watching = asyncio.create_task(self._definitions.run(self._shared.random))
        try:
            await self._supervise()
        finally:
            tasks = [watching, *(running.task for running in self.running.values())]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._identity.stop()

    async def _supervise(self) -> None:
        shared, attempt = self._shared, 0
        while True:
            try:
                await self._identity.verify()
                await self._identity.follow_version()
                discovery = await self._api.discover()
                await self._definitions.ready()
                await self._apply(discovery)
                self.error, attempt = "", 0
                self.planned.set()
                await self._wait()
            except ConfigError as error:
                if not self.planned.is_set():
                    raise
                await self._failed(error, attempt)
                attempt += 1
            except FenceLost as error:
                shared.log.info("looking again", cluster=self.settings.name, why=str(error))
                self._distrusted(None)
                await shared.clock.sleep(recovery.backoff(0, shared.random, shared.timing))
            except SyncdError as error:
                await self._failed(error, attempt)
                attempt += 1

    async def _wait(self) -> None:
        """Until something changed, or it is time to ask."""
        shared, interval = self._shared, self._shared.timing.discovery
        if shared.clock.monotonic() < self._eager_until:
            interval /= _EAGER_SHARE
        try:
            async with asyncio.timeout(interval):
                await self._changed.wait()
        except TimeoutError:
            return
        self._changed.clear()
        # A definition is told before discovery has it; what follows at once is one change.
        await shared.clock.sleep(shared.timing.discovery / 300)

    async def _failed(self, error: SyncdError, attempt: int) -> None:
        shared = self._shared
        delay = recovery.backoff(attempt, shared.random, shared.timing)
        if str(error) != self.error:
            shared.log.warning("cluster out of reach", cluster=self.settings.name, error=str(error))
            self.error = str(error)
            if not self.running and not isinstance(error, StoreUnavailable):
                try:
                    await self._mirror.mark_cluster(self.settings.name, State.BACKOFF, str(error))
                except SyncdError as second:
                    shared.log.warning("cannot say so in the database", error=str(second))
        await shared.clock.sleep(delay)

    def _look_again(self) -> None:
        """A definition changed, or a path is gone: ask discovery, and for a while often."""
        self._eager_until = self._shared.clock.monotonic() + EAGER * self._shared.timing.discovery / 60
        self._changed.set()

    def _distrusted(self, by: Stream | None) -> None:
        for running in self.running.values():
            if running.reflector.stream != by:
                running.reflector.restart("a new epoch began")

    # --- applying a plan --------------------------------------------------------------------------

    async def _apply(self, discovery: Discovery) -> None:
        definitions = self._definitions
        world = World(self._identity.version, dict(definitions.known), definitions.readable)
        changed = self._applied != (discovery, world)
        if not changed and not self._unsettled():
            return
        settings = self.settings
        wanted = plan(settings.name, (settings.entries, settings.exclude), discovery, world, settings.knobs)
        self._tell(wanted)
        known = {stream.identity: stream for stream in await self._mirror.streams(settings.name)}
        self._applied = None  # what fails in between is done again
        self._kept = await self._drop(wanted, known, discovery)
        if changed:
            self._start(wanted)
        self._applied = (discovery, world)

    def _unsettled(self) -> bool:
        """Whether something that is gone may turn out to be gone for good."""
        parked = (running.reflector.progress.state is State.PARKED for running in self.running.values())
        return self._kept or any(parked)

    def _tell(self, wanted: Plan) -> None:
        problems = tuple(problem.message for problem in wanted.problems)
        for message in problems:
            if message not in self.problems:
                self._shared.log.warning("selection", cluster=self.settings.name, problem=message)
        self.problems = problems

    async def _drop(
        self, wanted: Plan, known: Mapping[StreamIdentity, KnownStream], discovery: Discovery
    ) -> bool:
        """Lets go of what is no longer wanted: rows of a type that is gone for good, or that the
        configuration no longer asks for. What merely cannot be had is parked with its rows, and True.
        """
        kept = False
        served = {(resource.group, resource.name) for resource in discovery.resources}
        for identity in {**known, **dict.fromkeys(self.running)}:
            if identity in wanted.streams:
                continue
            type_ = (identity[1], identity[2])
            if type_ in served:
                await self._take_over(identity, wanted, known)
                await self._retire(identity, known.get(identity), Cause.DESELECTED)
            elif await type_removed(self._api, type_, discovery):
                await self._retire(identity, known.get(identity), Cause.TYPE_REMOVED)
            else:
                kept = True
                if identity not in self.running and known[identity].state is not State.PARKED:
                    name = ".".join(filter(None, reversed(type_)))
                    reason = f"{name} is not served at present; its rows are kept"
                    await self._mirror.mark_stream(known[identity].stream_id, State.PARKED, reason)
        return kept

    async def _take_over(
        self, identity: StreamIdentity, wanted: Plan, known: Mapping[StreamIdentity, KnownStream]
    ) -> None:
        """New streams of the same resource adopt the rows in their scope before the old one goes."""
        if identity not in known:
            return
        for other, (stream, _) in wanted.streams.items():
            if other[1:3] == identity[1:3] and other not in known:
                await self._mirror.open(stream, adopt=(known[identity].stream_id,))

    async def _retire(self, identity: StreamIdentity, stream: KnownStream | None, cause: Cause) -> None:
        running = self.running.pop(identity, None)
        if running is not None:
            running.task.cancel()
            await asyncio.gather(running.task, return_exceptions=True)
            self._shared.metrics.forget(running.reflector.stream)
        opened = running.reflector.row if running is not None else None  # since the streams were read
        stream_id = stream.stream_id if stream is not None else opened.stream_id if opened else None
        if stream_id is not None:
            rows = await self._mirror.retire(stream_id, cause=cause)
            self._shared.log.info(
                "stream retired", cluster=identity[0], resource=identity[2], cause=cause.value, rows=rows
            )

    def _start(self, wanted: Plan) -> None:
        fresh = [each for each in wanted.streams.values() if each[0].identity not in self.running]
        for stream, settings in wanted.streams.values():
            running = self.running.get(stream.identity)
            if running is None:
                reflector = Reflector(self.environment, stream, settings)
                task = asyncio.create_task(self._begin(reflector, len(fresh)), name=str(stream))
                self.running[stream.identity] = Running(reflector, task)
            elif running.reflector.stream != stream:
                self._replace(running, stream, settings)
            elif running.reflector.settings.projection != settings.projection:
                running.reflector.change_settings(settings)
            elif running.reflector.progress.state is State.PARKED:
                running.reflector.wake()

    def _replace(self, running: Running, stream: Stream, settings: Settings) -> None:
        """The served version changed: the same stream under another path (list-watch.md §13.46)."""
        old = running.task
        old.cancel()
        reflector = Reflector(self.environment, stream, settings)

        async def follow() -> None:
            await asyncio.gather(old, return_exceptions=True)
            await reflector.run()

        running.reflector = reflector
        running.task = asyncio.create_task(follow(), name=str(stream))

    async def _begin(self, reflector: Reflector, together: int) -> None:
        """Starts spread out where there are many: fifty at once are a storm, five are not."""
        shared = self._shared
        await shared.clock.sleep(shared.random() * shared.timing.start_jitter * min(1.0, together / 50))
        await reflector.run()
