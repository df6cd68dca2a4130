"""`python -m tests.chaos --seeds 20`: seeds one after another; 1 where one fails."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import syncd.store.engine
from tests.chaos.database import Server
from tests.chaos.schedule import ON_POSTGRESQL, Schedule, schedule
from tests.chaos.world import World

LINES = 40  # of the daemon's log, below a failure
LONGEST = 90.0  # seconds that a seed may take before it counts as hanging


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="how many")
    parser.add_argument("--seed", type=int, help="this one alone, or the first of them")
    parser.add_argument("--keep", action="store_true", help="go on after a failure")
    arguments = parser.parse_args()
    first = arguments.seed if arguments.seed is not None else 1
    count = 1 if arguments.seed is not None and "--seeds" not in " ".join(sys.argv) else arguments.seeds
    # A transaction of another process is waited for so long: shorter, so that giving up is seen too.
    syncd.store.engine.BUSY_TIMEOUT = 0.15
    with tempfile.TemporaryDirectory(prefix="chaos-") as directory:
        os.environ.setdefault("XDG_RUNTIME_DIR", directory)
        return _run(range(first, first + count), Path(directory))


def _run(seeds: range, directory: Path) -> int:
    kinds: Counter[str] = Counter()
    passed = failed = 0
    server: Server | None = None
    try:
        for seed in seeds:
            planned = schedule(seed)
            if planned.dialect == ON_POSTGRESQL and server is None:
                server = Server(Path(tempfile.mkdtemp(prefix="chaos-pg-")))
            if one(planned, directory / str(seed), server, kinds):
                passed += 1
            else:
                failed += 1
    finally:
        if server is not None:
            server.close()
    total = sum(kinds.values()) or 1
    print("steps: " + ", ".join(f"{kind} {100 * n / total:.1f} %" for kind, n in kinds.most_common()))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def one(planned: Schedule, directory: Path, server: Server | None, kinds: Counter[str]) -> bool:
    """Runs a seed and says how it went."""
    directory.mkdir(parents=True)
    began = time.monotonic()
    world = World(planned, directory, server if planned.dialect == ON_POSTGRESQL else None)
    error: Exception | None = None
    try:
        asyncio.run(_within(world))
    except Exception as problem:
        error = problem
    kinds.update(step.kind for step in planned.steps[: world.ran])
    place = f"{planned.dialect}, {'a process' if planned.process else 'in process'}, {planned.initial}"
    said = f"seed {planned.seed}: {place}, {len(planned.steps)} steps, {world.checker.pictures} pictures"
    print(f"{said}, {time.monotonic() - began:.1f} s: {'failed' if error else 'passed'}", flush=True)
    if error is not None:
        _tell(world, error)
    return error is None


async def _within(world: World) -> None:
    problems: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(str(context)))
    async with asyncio.timeout(LONGEST):
        await world.run()
    if problems:
        raise AssertionError(f"left behind: {problems[:3]}")


def _tell(world: World, error: Exception) -> None:
    planned = world.schedule
    where = "at rest" if world.ran > len(planned.steps) else f"at step {world.ran}"
    print(f"  seed {planned.seed} failed {where}: {error!r}")
    kept = f"{planned.history} events kept, queues of {planned.queue >> 20} MiB"
    polls = ", configmaps polled" if planned.polls else ""
    print(f"  {planned.objects} objects of each, pages of {planned.page_size}, {kept}{polls}")
    for number, step in enumerate(planned.steps[: world.ran], 1):
        print(f"  {number:3d} {step}")
    text = world.mirror.text if hasattr(world, "mirror") else ""
    for line in text.splitlines()[-LINES:]:
        print(f"  | {line[:600]}")


if __name__ == "__main__":
    sys.exit(main())
