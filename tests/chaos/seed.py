"""One seed, run and told."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.postgresql import Server
from tests.chaos.schedule import ON_POSTGRESQL, Schedule
from tests.chaos.world import World

LINES = 40  # of the daemon's log, below a failure
LONGEST = 90.0  # seconds that a seed may take before it counts as hanging
THREADS = 32  # faults wait for each other in them
CLOSING = "_terminate_graceful_close"
"""SQLAlchemy's own task, which closes a connection to SQLite. Cancelled, it leaves the rest to the driver's
thread, which may have ended; nothing is left open but the task.
"""


@dataclass(slots=True)
class Outcome:
    """How a seed went.

    Attributes:
        seconds: it took.
        text: what is said of it, lines; where it failed with the schedule up to the step that did.
        kinds: of the steps that ran, how many of each.
    """

    seed: int
    passed: bool
    seconds: float
    text: str
    kinds: Counter[str] = field(default_factory=Counter)


def run(planned: Schedule, directory: Path, server: Server | None) -> Outcome:
    """Runs a seed in a directory of its own; `server` for those on PostgreSQL."""
    directory.mkdir(parents=True)
    began = time.monotonic()
    world = World(planned, directory, server if planned.dialect == ON_POSTGRESQL else None)
    error: Exception | None = None
    try:
        asyncio.run(_within(world))
    except Exception as problem:
        error = problem
    seconds = time.monotonic() - began
    place = f"{planned.dialect}, {'a process' if planned.process else 'in process'}, {planned.initial}"
    seen = f"{len(planned.steps)} steps, {world.site.checker.pictures} pictures"
    lines = [f"seed {planned.seed}: {place}, {seen}, {seconds:.1f} s: {'failed' if error else 'passed'}"]
    if error is not None:
        lines += _told(world, error)
    kinds = Counter(step.kind for step in planned.steps[: world.ran])
    return Outcome(planned.seed, error is None, seconds, "\n".join(lines), kinds)


async def _within(world: World) -> None:
    problems: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: problems.append(str(context)))
    loop.set_default_executor(ThreadPoolExecutor(THREADS))
    async with asyncio.timeout(LONGEST):
        await world.run()
    problems = [problem for problem in problems if CLOSING not in problem]
    if problems:
        raise AssertionError(f"left behind: {problems[:3]}")


def _told(world: World, error: Exception) -> list[str]:
    planned = world.schedule
    where = "at rest" if world.ran > len(planned.steps) else f"at step {world.ran}"
    kept = f"{planned.history} events kept, queues of {planned.queue >> 20} MiB"
    polls = f", {planned.record} recorded{', configmaps polled' if planned.polls else ''}"
    lines = [
        f"  seed {planned.seed} failed {where}: {error!r}",
        f"  {planned.objects} objects of each, pages of {planned.page_size}, {kept}{polls}",
    ]
    lines += [f"  {number:3d} {step}" for number, step in enumerate(planned.steps[: world.ran], 1)]
    text = world.site.mirror.text if hasattr(world.site, "mirror") else ""
    return lines + [f"  | {line[:600]}" for line in text.splitlines()[-LINES:]]
