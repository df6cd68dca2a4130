"""Runs one child process to its end, or ends it. No shell, no terminal, nothing kept but what it said.

It knows nothing of what the child is for. The event loop is never blocked, the child is reaped on every
way out, and where it is cut short its whole process group goes with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_STDOUT_LIMIT = 1024 * 1024  # bytes; a credential with a chain of certificates is some 10 KB
_STDERR_KEPT = 16 * 1024  # bytes at the end: a long-winded child must neither block nor fill memory
_PIPE_GRACE = 1.0  # seconds for the pipes of a child that has ended: something it started may hold them
_REAP_SECONDS = 5.0  # a killed process that does not go then hangs in the kernel


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of a child.

    Attributes:
        code: its exit code, negative for a signal; None where it was killed for `killed`.
        stderr: the last 16 KB.
        killed: "" or why it was killed.
    """

    code: int | None
    stdout: bytes = field(repr=False)
    stderr: bytes = field(repr=False)
    killed: str = ""


class _Child(asyncio.SubprocessProtocol):
    """Collects a child's output.

    Not `asyncio.subprocess`: its `wait` also waits for the pipes, which a daemon that the child left
    behind may hold for ever.
    """

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self.flooded: asyncio.Future[None] = loop.create_future()
        self.stdout = bytearray()
        self.stderr = bytearray()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self.stderr += data
            del self.stderr[:-_STDERR_KEPT]
        elif len(self.stdout) + len(data) <= _STDOUT_LIMIT:
            self.stdout += data
        else:
            _settle(self.flooded)

    def process_exited(self) -> None:
        _settle(self.exited)

    def connection_lost(self, exc: Exception | None) -> None:
        _settle(self.closed)


async def run(command: Sequence[str], environ: Mapping[str, str], *, timeout: float) -> Ended:
    """Runs a command in a session of its own, with /dev/null for stdin, for at most `timeout` seconds.

    Cancelled, it kills the child's process group and waits for it.

    Raises:
        OSError, ValueError: it could not be started.
    """
    transport, child = await asyncio.get_running_loop().subprocess_exec(
        _Child,
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=dict(environ),
        start_new_session=True,
    )
    killed = ""
    try:
        await asyncio.wait(
            (child.exited, child.flooded), timeout=timeout, return_when=asyncio.FIRST_COMPLETED
        )
        if child.exited.done():
            await asyncio.wait(
                (child.closed, child.flooded), timeout=_PIPE_GRACE, return_when=asyncio.FIRST_COMPLETED
            )
        if child.flooded.done():
            killed = f"wrote more than {_STDOUT_LIMIT // 1024} KiB"
        elif not child.exited.done():
            killed = f"did not end within {timeout:g} s"
    finally:
        await _end(transport, child)
    code = None if killed else transport.get_returncode()
    return Ended(code, bytes(child.stdout), bytes(child.stderr), killed)


async def _end(transport: asyncio.SubprocessTransport, child: _Child) -> None:
    """Kills what still runs, waits until it is reaped, closes the pipes."""
    try:
        if transport.get_returncode() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(transport.get_pid(), signal.SIGKILL)  # its session's leader leads its group
            await asyncio.wait((child.exited,), timeout=_REAP_SECONDS)
    finally:
        with contextlib.suppress(PermissionError):  # it kills too, and the child may be another user by now
            transport.close()


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
