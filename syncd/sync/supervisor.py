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
from syncd.core.errors import ConfigError, FenceLost, ProtocolError, StoreUnavailable, SyncdError
from syncd.core.ports import Clock, ClusterApi, ClusterSeen, Discovery, KnownStream, Mirror
from syncd.core.recovery import Timing
from syncd.core.resource import Cause, State, Stream
from syncd.core.selection import NOT_ALL, ProblemKind, Selection, select
from syncd.metrics import Metrics
from syncd.sync.definitions import Definitions
from syncd.sync.description import Descriptions
from syncd.sync.environment import Environment, Log
from syncd.sync.identity import Identity
from syncd.sync.plan import Identity as StreamIdentity
from syncd.sync.plan import Knobs, Plan, World, plan
from syncd.sync.reflector import Reflector
from syncd.sync.removal import type_removed
from syncd.sync.streams import Running, Streams

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


class Supervisor:
    """One cluster's reflectors.

    Args:
        patient: entries that contradict each other are told, where they would end `run`: a configuration that
            was reloaded must not end what ran under the one before.

    Attributes:
        settings: as last configured; what runs follows soon after.
        error: why the cluster cannot be had at all, '' when it answers.
        problems: what the configuration asks for and the cluster does not give.
        descriptions: what is kept of its custom types.
        planned: set once the streams are known and started.
    """

    def __init__(
        self,
        settings: ClusterSettings,
        api: ClusterApi,
        mirror: Mirror,
        shared: Shared,
        *,
        patient: bool = False,
    ) -> None:
        self.settings = settings
        self.error = ""
        self.problems: tuple[str, ...] = ()
        self.planned = asyncio.Event()
        self._api = api
        self._mirror = mirror
        self._shared = shared
        self._patient = patient
        self._changed = asyncio.Event()
        self._reconfigured = asyncio.Event()
        self._eager_until = float("-inf")
        self._planned_with: tuple[Discovery, World] | None = None
        self._applied: tuple[Discovery, World, ClusterSettings] | None = None
        self._said: str | None = ""  # of the cluster in the database; None: not known
        self._kept = False  # something unwanted is there still, for it may come back
        seen = ClusterSeen(settings.name, "", api.server, "", settings.labels)
        self._identity = Identity(api, mirror, shared.log, seen)
        self._definitions = Definitions(
            settings.name, api, shared.clock, shared.timing, shared.log, self._redefined
        )
        self.descriptions = Descriptions(
            self._definitions, api, mirror, shared.clock, shared.timing, shared.log
        )
        self.environment = Environment(
            api=api,
            store=mirror,
            clock=shared.clock,
            metrics=shared.metrics,
            log=shared.log,
            verify=self._verify,
            missed=lambda stream: self._look_again(),
            distrusted=self._distrusted,
            lease_lost=shared.lease_lost,
            snapshots=asyncio.Semaphore(settings.snapshots),
            timing=shared.timing,
            random=shared.random,
        )
        self._streams = Streams(self.environment)

    @property
    def running(self) -> Mapping[StreamIdentity, Running]:
        """The reflectors and their tasks."""
        return self._streams.running

    @property
    def reflectors(self) -> list[Reflector]:
        return self._streams.reflectors

    def check(self, settings: ClusterSettings) -> None:
        """Raises ConfigError where these entries contradict each other in what the cluster served last, and
        those in force do not; nothing is known of a cluster that has not answered yet.
        """
        if self._planned_with is None:
            return
        discovery, _ = self._planned_with
        before = self.settings
        standing = select(before.name, before.entries, before.exclude, discovery, strict=False).contested
        wanted = select(settings.name, settings.entries, settings.exclude, discovery, strict=False)
        messages = [problem.message for problem in wanted.problems if problem.kind is ProblemKind.CONTESTED]
        for contested, message in zip(wanted.contested, messages, strict=True):
            if contested not in standing:
                raise ConfigError(message)

    def reconfigure(self, settings: ClusterSettings) -> None:
        """From now on this is what is configured, of the same cluster. Streams that it does not touch run on
        without a request of theirs.
        """
        if settings.snapshots != self.settings.snapshots:
            # Those under way hold on to the old bound: for a moment there may be more than either allows.
            self.environment.snapshots = asyncio.Semaphore(settings.snapshots)
        self._patient = True
        self.settings = settings
        self._identity.labels = settings.labels
        self._said = None  # other labels are a new row
        self._reconfigured.set()
        self._changed.set()

    async def run(self) -> None:
        """Until cancelled.

        Raises:
            ConfigError: two entries mean the same rows; only for a cluster of which nothing is mirrored yet,
                and not if patient.
        """
        random = self._shared.random
        watching = [asyncio.create_task(each.run(random)) for each in (self._definitions, self.descriptions)]
        try:
            await self._supervise()
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, self._streams.stop(), return_exceptions=True)
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
                await self._say("")
                attempt = 0
                self.planned.set()
                await self._wait()
            except ConfigError as error:
                if not self.planned.is_set() and not self._patient:
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
            except Exception as error:  # a fault of our own: its streams would end with it, and nobody know
                shared.log.error("supervision failed", cluster=self.settings.name, error=repr(error))
                await self._failed(ProtocolError(repr(error)), attempt)
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
            usable = not isinstance(error, ConfigError)
            event = "cluster out of reach" if usable else "the entries cannot be applied"
            shared.log.warning(event, cluster=self.settings.name, error=str(error))
            if isinstance(error, StoreUnavailable):
                self.error = str(error)
            else:
                await self._say(str(error))
        await self._rest(delay)

    async def _say(self, error: str) -> None:
        """Keeps what `syncd status` says of the cluster true; streams that run say theirs by themselves."""
        self.error = error
        said = error or (NOT_ALL + "; ".join(self.problems) if self.problems else "")
        if said == self._said:
            return
        self._said = said
        try:
            state = State.BACKOFF if error and not self.running else None
            await self._mirror.mark_cluster(self.settings.name, state, said)
        except SyncdError as problem:
            self._shared.log.warning("cannot say so in the database", error=str(problem))

    async def _rest(self, seconds: float) -> None:
        """Until the time is over, or the configuration is another: it may be what was wrong."""
        waits = [
            asyncio.ensure_future(self._shared.clock.sleep(seconds)),
            asyncio.ensure_future(self._reconfigured.wait()),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    def _redefined(self) -> None:
        self.descriptions.look()
        self._look_again()

    def _look_again(self) -> None:
        """A definition changed, or a path is gone: ask discovery, and for a while often."""
        self._eager_until = self._shared.clock.monotonic() + EAGER * self._shared.timing.discovery / 60
        self._changed.set()

    async def _verify(self) -> None:
        try:
            await self._identity.verify()
        except FenceLost:
            self._distrusted(None)
            raise

    def _distrusted(self, by: Stream | None) -> None:
        self._definitions.forget()
        self._streams.restart("a new epoch began", but=by)

    # --- applying a plan --------------------------------------------------------------------------

    async def _apply(self, discovery: Discovery) -> None:
        definitions, settings = self._definitions, self.settings
        self._reconfigured.clear()
        world = World(self._identity.version, dict(definitions.known), definitions.readable)
        served_anew = self._planned_with != (discovery, world)
        changed = self._applied != (discovery, world, settings)
        if not changed and not self._unsettled():
            return
        known = {stream.identity: stream for stream in await self._mirror.streams(settings.name)}
        there = {*known, *self.running}
        lenient = self._patient or self.planned.is_set() or there
        wanted = plan(
            settings.name,
            (settings.entries, settings.exclude),
            discovery,
            world,
            settings.knobs,
            there if lenient else None,
        )
        self._tell(wanted)
        self._applied = None  # what fails in between is done again
        self._kept = await self._drop(wanted, known, discovery)
        if changed:
            self._streams.follow(wanted, served_anew=served_anew)
        self._planned_with = discovery, world
        self._applied = discovery, world, settings

    def _unsettled(self) -> bool:
        """Whether something that is gone may turn out to be gone for good."""
        return self._kept or self._streams.parked

    def _tell(self, wanted: Plan) -> None:
        problems = tuple(problem.message for problem in wanted.problems)
        for message in problems:
            if message not in self.problems:
                self._shared.log.warning("selection", cluster=self.settings.name, problem=message)
        self.problems = problems
        self._shared.metrics.lacking(self.settings.name, len(problems))

    async def _drop(
        self, wanted: Plan, known: Mapping[StreamIdentity, KnownStream], discovery: Discovery
    ) -> bool:
        """Lets go of what is no longer wanted: rows of a type that is gone for good, or that the
        configuration no longer asks for. What merely cannot be had is parked with its rows, and True.
        """
        kept = False
        deselected: list[StreamIdentity] = []
        served = {(resource.group, resource.name) for resource in discovery.resources}
        for identity in {**known, **dict.fromkeys(self.running)}:
            if identity in wanted.streams:
                continue
            type_ = (identity[1], identity[2])
            if type_ in wanted.contested:
                await self._leave(identity, known, "two entries mean it; its rows are kept")
            elif type_ in served:
                deselected.append(identity)
            elif await type_removed(self._api, type_, discovery):
                await self._retire(await self._halt([identity], known), Cause.TYPE_REMOVED)
            else:
                kept = True
                name = ".".join(filter(None, reversed(type_)))
                await self._leave(identity, known, f"{name} is not served at present; its rows are kept")
        await self._deselect(deselected, wanted, known)
        return kept

    async def _leave(
        self, identity: StreamIdentity, known: Mapping[StreamIdentity, KnownStream], reason: str
    ) -> None:
        """Leaves a stream as it is; one that does not run says why."""
        if identity not in self.running and known[identity].state is not State.PARKED:
            await self._mirror.mark_stream(known[identity].stream_id, State.PARKED, reason)

    async def _deselect(
        self,
        identities: Sequence[StreamIdentity],
        wanted: Plan,
        known: Mapping[StreamIdentity, KnownStream],
    ) -> None:
        """New streams of a resource adopt the rows in their scope, from all old ones in the transaction that
        makes them, before any of those goes: no row leaves the table in between. The old ones write no more
        by then, or they would take rows back.
        """
        ids = await self._halt(identities, known)
        for identity, (stream, _) in wanted.streams.items():
            adopt = [stream_id for old, stream_id in ids.items() if old[1:3] == identity[1:3]]
            if adopt and identity not in known:
                await self._mirror.open(stream, adopt=adopt)
        await self._retire(ids, Cause.DESELECTED)

    async def _halt(
        self, identities: Sequence[StreamIdentity], known: Mapping[StreamIdentity, KnownStream]
    ) -> dict[StreamIdentity, int]:
        """Ends what runs of these; the ids of those that have a row."""
        opened = await self._streams.halt(identities)  # some of them since the streams were read
        return opened | {identity: known[identity].stream_id for identity in identities if identity in known}

    async def _retire(self, ids: Mapping[StreamIdentity, int], cause: Cause) -> None:
        for identity, stream_id in ids.items():
            rows = await self._mirror.retire(stream_id, cause=cause)
            self._shared.log.info(
                "stream retired", cluster=identity[0], resource=identity[2], cause=cause.value, rows=rows
            )
