"""The processes that run seeds, each one after another: the log, and the loop, are a process' own."""

from __future__ import annotations

import contextlib
import multiprocessing
import queue
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from multiprocessing.context import SpawnProcess
from multiprocessing.queues import Queue
from pathlib import Path

import syncd.store.engine
from tests.chaos.postgresql import Server
from tests.chaos.schedule import ON_POSTGRESQL, schedule
from tests.chaos.seed import Outcome, run

BUSY = 0.15
"""Seconds that a transaction of another process is waited for: few, so that giving up is seen too."""
PATIENCE = 150
"""Seconds for the next seed to end: no seed takes so long."""


def outcomes(seeds: range, jobs: int, directory: Path) -> Iterator[Outcome]:
    """How each seed went, as they end; fewer where a worker is lost."""
    context = multiprocessing.get_context("spawn")
    waiting: Queue[int | None] = context.Queue()
    done: Queue[Outcome] = context.Queue()
    for seed in seeds:
        waiting.put(seed)
    workers = [context.Process(target=_work, args=(waiting, done, directory / f"{n}")) for n in range(jobs)]
    for worker in workers:
        waiting.put(None)
        worker.start()
    try:
        for _ in seeds:
            yield _next(done, workers)
    except queue.Empty:
        print("a worker is gone, or hangs")
    finally:
        for worker in workers:
            worker.join(timeout=20.0)
            worker.terminate()
            worker.join(timeout=20.0)
            worker.kill()


def _next(done: Queue[Outcome], workers: Sequence[SpawnProcess]) -> Outcome:
    for _ in range(PATIENCE):
        with contextlib.suppress(queue.Empty):
            return done.get(timeout=1.0)
        if any(worker.exitcode for worker in workers):
            break
    return done.get(timeout=1.0)


def _work(waiting: Queue[int | None], done: Queue[Outcome], directory: Path) -> None:
    syncd.store.engine.BUSY_TIMEOUT = BUSY
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # one that hangs still stops its server
    server: Server | None = None
    try:
        while (seed := waiting.get()) is not None:
            planned = schedule(seed)
            if planned.dialect == ON_POSTGRESQL and server is None:
                server = Server(Path(tempfile.mkdtemp(prefix="chaos-pg-")))
            done.put(run(planned, directory / str(seed), server))
    finally:
        if server is not None:
            server.close()
