"""Waiting until a mirror stands; it starts and stops nothing but the lists that `sync` needs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from syncd.app.daemon import Daemon
from syncd.core.resource import State
from syncd.sync.reflector import Reflector

_EVERY = 0.05  # seconds between two looks


async def settled(
    daemon: Daemon, patience: float, show: Callable[[], None] = lambda: None, *, listed: bool = False
) -> None:
    """Until every stream is live or parked, and every cluster planned, or given up after `patience`
    seconds without one more of them.

    Args:
        show: called while it waits.
        listed: every stream must have been listed by this process too. One that resumes is live as soon as
            its watch is open, but only a list says when what happened meanwhile has arrived. And what shapes
            the views of custom types must be known.

    Raises:
        SyncdError: the daemon had to stop.
    """
    count, since = -1, daemon.clock.monotonic()
    asked: set[Reflector] = set()
    while not daemon.stopped.is_set():
        reflectors = daemon.reflectors
        if listed:
            resumed = {each for each in reflectors if each.live and not each.progress.level}
            for reflector in resumed - asked:
                reflector.relist("sync")
            asked = {each for each in asked if each.live} | resumed
        done = sum(_stands(reflector, listed) for reflector in reflectors)
        planned = sum(
            supervisor.planned.is_set() and (supervisor.descriptions.level or not listed)
            for supervisor in daemon.supervisors
        )
        if planned == len(daemon.supervisors) and done == len(reflectors):
            return
        # objects listed count as progress: a large first sync is not failing
        moved = done + planned + sum(reflector.progress.listed for reflector in reflectors)
        if moved != count:
            count, since = moved, daemon.clock.monotonic()
        elif daemon.clock.monotonic() - since > patience:
            return
        show()
        await asyncio.sleep(_EVERY)
    if daemon.failure is not None:
        raise daemon.failure


def _stands(reflector: Reflector, listed: bool) -> bool:
    state = reflector.progress.state
    return state is State.PARKED or (state is State.LIVE and (reflector.progress.level or not listed))
