"""Tells systemd how the daemon is (sd_notify(3)): ready, starting, its state in a line, that its loop turns.

Datagrams to the socket that $NOTIFY_SOCKET names; without one nothing is said. Decides nothing: what ready
means is the health module's, what follows from silence is the unit's.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from syncd.app.daemon import Daemon
from syncd.app.health import ready
from syncd.core.resource import State
from syncd.logs import get

LOOK_EVERY = 1.0
"""Seconds between two looks at the daemon."""

EXTENSION = 30.0
"""Seconds that each look at a starting daemon asks for: many looks, so that a busy machine is no failure,
and far less than a person would wait for a loop that is stuck."""

ATTEMPT = 240.0
"""Seconds that one try to reach a database and to make its schema may take: a transaction ends within 180."""

_LONGEST_REASON = 200


class Notifier:
    """The service manager's end of a process; every method is cheap, none raises or blocks.

    Attributes:
        watchdog: seconds within which a ping has to come, None where nobody waits for one.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.watchdog = _watchdog(environ)
        self._socket = _connected(environ.get("NOTIFY_SOCKET", ""))

    @property
    def heard(self) -> bool:
        """Whether anybody listens."""
        return self._socket is not None

    def send(self, **values: object) -> bool:
        """One message of `NAME=value` lines; whether the service manager has it."""
        if self._socket is None:
            return False
        lines = (f"{name}={' '.join(str(value).split())}" for name, value in values.items())
        try:
            self._socket.send("\n".join(lines).encode())
        except OSError:  # a full queue or a service manager that restarts: the next message may pass
            return False
        return True

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


@asynccontextmanager
async def notifying(daemon: Daemon, environ: Mapping[str, str]) -> AsyncIterator[None]:
    """Keeps the service manager told inside the block, and says at its end that the daemon stops."""
    notifier = Notifier(environ)
    tasks = [asyncio.create_task(_tell(notifier, daemon), name="notify")] if notifier.heard else []
    if notifier.heard and notifier.watchdog is not None:
        tasks.append(asyncio.create_task(_ping(notifier, notifier.watchdog), name="watchdog"))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        notifier.send(STOPPING=1, STATUS="stopping")
        notifier.close()


def waiting(environ: Mapping[str, str], what: str, seconds: float) -> None:
    """Before there is a daemon: what is waited for, and how long until the next try."""
    notifier = Notifier(environ)
    notifier.send(EXTEND_TIMEOUT_USEC=round((seconds + ATTEMPT) * 1e6), STATUS=f"starting: {what}")
    notifier.close()


async def _tell(notifier: Notifier, daemon: Daemon) -> None:
    started, told = False, ""
    while True:
        readiness = ready(daemon, strict=False)
        if not started and readiness.ok:
            told = summary(daemon)
            started = notifier.send(READY=1, STATUS=told)
        elif not started:
            reason = readiness.reasons[0][:_LONGEST_REASON]
            status = f"starting: {summary(daemon)}; waiting for {reason}"
            notifier.send(EXTEND_TIMEOUT_USEC=round(EXTENSION * 1e6), STATUS=status)
        elif told != (now := summary(daemon)) and notifier.send(STATUS=now):
            told = now
        await asyncio.sleep(LOOK_EVERY)


async def _ping(notifier: Notifier, watchdog: float) -> None:
    """From the loop that everything runs on: when that is stuck, the pings end."""
    while True:
        notifier.send(WATCHDOG=1)
        await asyncio.sleep(watchdog / 2)


def summary(daemon: Daemon) -> str:
    """How many streams are in which state, and which clusters do not answer: one line."""
    counts = Counter(reflector.progress.state for reflector in daemon.reflectors)
    parts = [f"{counts[state]} {state.value}" for state in State if counts[state]]
    away = [supervisor.settings.name for supervisor in daemon.supervisors if supervisor.error]
    return f"streams: {', '.join(parts) or 'none yet'}" + (f"; out of reach: {', '.join(away)}" * bool(away))


def _connected(name: str) -> socket.socket | None:
    """The socket of a path, or of an abstract name, which begins with @."""
    if not name:
        return None
    if name[0] not in "/@":
        get("app").warning("the service manager cannot be told", socket=name, why="not a Unix socket")
        return None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    connection.setblocking(False)
    try:
        connection.connect("\0" + name[1:] if name[0] == "@" else name)
    except OSError as error:
        connection.close()
        get("app").warning("the service manager cannot be told", socket=name, why=error.strerror)
        return None
    return connection


def _watchdog(environ: Mapping[str, str]) -> float | None:
    """Seconds; None where the variables are absent, odd or meant for another process."""
    if environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    microseconds = environ.get("WATCHDOG_USEC", "")
    return int(microseconds) / 1e6 if microseconds.isdecimal() and int(microseconds) else None
