"""The reflectors of one cluster and the tasks that run them: begun, adapted, begun anew, ended. Which there
should be is the supervisor's to say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, fields

from syncd.core.resource import State, Stream
from syncd.sync.environment import Environment, Settings
from syncd.sync.plan import Identity, Plan
from syncd.sync.reflector import Reflector

IN_FLIGHT = frozenset(
    {
        "transform",
        "projection",
        "page_size",
        "custom",
        "ranges",
        "bookmarks",
        "watch_list",
        "deletion_share",
        "queue_bytes",
        "history",
    }
)
"""Settings that a running stream takes over where it stands: they shape its next snapshot, or its queue. Any
other one that changes begins the stream anew from its checkpoint."""


@dataclass(slots=True)
class Running:
    """A reflector and the task that runs it."""

    reflector: Reflector
    task: asyncio.Task[None]


class Streams:
    """What runs of one cluster.

    Attributes:
        running: by identity.
    """

    def __init__(self, environment: Environment) -> None:
        self.running: dict[Identity, Running] = {}
        self._environment = environment

    @property
    def reflectors(self) -> list[Reflector]:
        return [running.reflector for running in self.running.values()]

    @property
    def parked(self) -> bool:
        """Whether any rests because what it asks for cannot be had."""
        return any(reflector.progress.state is State.PARKED for reflector in self.reflectors)

    def follow(self, wanted: Plan, *, served_anew: bool) -> None:
        """Starts what is wanted and does not run, and adapts what runs. What is the same is left alone.

        Args:
            served_anew: the cluster serves other things than before, so that what is parked may be had now.
        """
        fresh = [identity for identity in wanted.streams if identity not in self.running]
        for identity, (stream, settings) in wanted.streams.items():
            running = self.running.get(identity)
            if running is None:
                reflector = Reflector(self._environment, stream, settings)
                task = asyncio.create_task(self._begin(reflector, len(fresh)), name=str(stream))
                self.running[identity] = Running(reflector, task)
            elif running.reflector.stream != stream or _begins_anew(running.reflector.settings, settings):
                self._replace(running, stream, settings)
            else:
                _adapt(running.reflector, settings, served_anew=served_anew)

    def restart(self, reason: str, *, but: Stream | None = None) -> None:
        """All of them, or all but one, begin anew from what is stored."""
        for reflector in self.reflectors:
            if reflector.stream != but:
                reflector.restart(reason)

    async def halt(self, identities: Iterable[Identity]) -> dict[Identity, int]:
        """Ends these, commits in flight included, and forgets them; the id of each that had a row by then."""
        halted = [
            (identity, self.running.pop(identity)) for identity in identities if identity in self.running
        ]
        await _ended(running for _, running in halted)
        ids: dict[Identity, int] = {}
        for identity, running in halted:
            self._environment.metrics.forget(running.reflector.stream)
            if running.reflector.row is not None:
                ids[identity] = running.reflector.row.stream_id
        return ids

    async def stop(self) -> None:
        """Ends all of them, commits in flight included."""
        await _ended(self.running.values())

    def _replace(self, running: Running, stream: Stream, settings: Settings) -> None:
        """The same stream under another path, where the served version changed (list-watch.md §13.46), or
        with settings that a reflector has for life.
        """
        old, ended = running.reflector, running.task
        ended.cancel()
        reflector = Reflector(self._environment, stream, settings)

        async def follow() -> None:
            try:
                await asyncio.wait({ended})
            finally:
                await asyncio.wait({ended})  # its last commit comes first, though this is cancelled meanwhile
                old.inbox.refuse("the stream began anew")
            await reflector.run()

        running.reflector = reflector
        running.task = asyncio.create_task(follow(), name=str(stream))

    async def _begin(self, reflector: Reflector, together: int) -> None:
        """Starts spread out where there are many: fifty at once are a storm, five are not."""
        environment = self._environment
        spread = environment.timing.start_jitter * min(1.0, together / 50)
        await environment.clock.sleep(environment.random() * spread)
        await reflector.run()


def _adapt(reflector: Reflector, settings: Settings, *, served_anew: bool) -> None:
    reflector.inbox.resize(settings.queue_bytes)
    if reflector.settings.projection != settings.projection:
        reflector.change_settings(settings)
        return
    recorded, reflector.settings = reflector.settings.history, settings
    if recorded != settings.history:
        reflector.record()
    if served_anew and reflector.progress.state is State.PARKED:
        reflector.wake()


async def _ended(ending: Iterable[Running]) -> None:
    """Ends them; who waits for something between their batches is told that it does not come."""
    ending = list(ending)
    for running in ending:
        running.task.cancel()
    await asyncio.gather(*(running.task for running in ending), return_exceptions=True)
    for running in ending:
        running.reflector.inbox.refuse("the stream was let go of")


def _begins_anew(old: Settings, new: Settings) -> bool:
    return any(
        getattr(old, field.name) != getattr(new, field.name)
        for field in fields(Settings)
        if field.name not in IN_FLIGHT
    )
