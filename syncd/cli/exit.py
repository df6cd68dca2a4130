"""From an error to a message and an exit code; from a coroutine to a process that signals can stop."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, NoReturn

import typer

from syncd.core.errors import ConfigError, SyncdError

DONE = 0
FAILED = 1
USAGE = 2
FINDINGS = 3


def perform(work: Callable[[], Coroutine[Any, Any, int]]) -> NoReturn:
    """Runs a command's work and exits with its code; errors of our tree become a line on stderr."""
    try:
        code = asyncio.run(work())
    except* ConfigError as group:
        _complain(group)
        code = USAGE
    except* SyncdError as group:
        _complain(group)
        code = FAILED
    except* KeyboardInterrupt:
        code = FAILED
    raise typer.Exit(code)


def _complain(group: BaseExceptionGroup[SyncdError]) -> None:
    for error in _leaves(group):
        typer.echo(f"syncd: {error}", err=True)


def _leaves(group: BaseExceptionGroup[Any]) -> list[BaseException]:
    leaves: list[BaseException] = []
    for error in group.exceptions:
        leaves += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return leaves


def stop_on_signals() -> asyncio.Event:
    """An event that SIGTERM and SIGINT set. The second one of them kills at once."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def asked() -> None:
        stop.set()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError):  # not a Unix
            loop.add_signal_handler(number, asked)
    return stop


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
