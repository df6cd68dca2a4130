"""From an error to a message and an exit code; from a coroutine to a process that signals can stop."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, NoReturn

import typer

from syncd.cli.memory import give_back
from syncd.config import Config
from syncd.core.errors import ConfigError, SchemaMismatch, StoreUnavailable, SyncdError

DONE = 0
FAILED = 1
USAGE = 2
FINDINGS = 3


def perform(work: Callable[[], Coroutine[Any, Any, int]], config: Config | None = None) -> NoReturn:
    """Runs a command's work and exits with its code; errors of our tree become a line on stderr.

    Args:
        config: names the database where that is what failed: a driver's words seldom do.
    """
    if not gc.isenabled():  # as `__main__` left it: what was imported is never looked at again
        gc.freeze()
        gc.enable()
    give_back()
    try:
        code = asyncio.run(work())
    except* ConfigError as group:
        _complain(group, config)
        code = USAGE
    except* SyncdError as group:
        _complain(group, config)
        code = FAILED
    except* KeyboardInterrupt:
        code = FAILED
    raise typer.Exit(code)


def _complain(group: BaseExceptionGroup[SyncdError], config: Config | None) -> None:
    for error in _leaves(group):
        where = closer = ""
        if config is not None and isinstance(error, StoreUnavailable | SchemaMismatch):
            where = f"{config.database.shown}: "
        if isinstance(error, StoreUnavailable):
            closer = "; `syncd check` looks closer"
        typer.echo(f"syncd: {where}{error}{closer}", err=True)


def _leaves(group: BaseExceptionGroup[Any]) -> list[BaseException]:
    leaves: list[BaseException] = []
    for error in group.exceptions:
        leaves += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return leaves


GRACE = 4.5
"""Seconds from the first signal to the end: five are promised."""


def stop_on_signals(code: int = FAILED) -> asyncio.Event:
    """An event that SIGTERM and SIGINT set. The second one of them kills at once.

    A statement that hangs, in a database that is locked or cut off, cannot be cancelled: past the grace the
    process leaves with `code` all the same. What is committed is whole, and the next start goes on from it.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def leave() -> None:
        os.write(2, b"syncd: the database did not let go in time; leaving\n")
        os._exit(code)

    def asked() -> None:
        stop.set()
        timer = threading.Timer(GRACE, leave)  # a thread: the loop may be what hangs
        timer.daemon = True
        timer.start()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError):  # not a Unix
            loop.add_signal_handler(number, asked)
    return stop


def hangups() -> asyncio.Event:
    """An event that SIGHUP sets, each time; who has seen it clears it."""
    event = asyncio.Event()
    with suppress(NotImplementedError):  # not a Unix
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, event.set)
    return event


async def first(stop: asyncio.Event, *others: Awaitable[Any]) -> bool:
    """Waits for the stop or any of the others; whether it was the stop. What is left is cancelled."""
    stopping = asyncio.ensure_future(stop.wait())
    tasks = {stopping, *(asyncio.ensure_future(other) for other in others)}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks - {stopping}:
            if task.done():
                task.result()
        return stop.is_set()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def is_terminal() -> bool:
    """Whether somebody looks: bars and live tables there, plain lines elsewhere."""
    return sys.stderr.isatty() and sys.stdout.isatty()
