"""How long work shows itself: bars on a terminal, a plain line every few seconds elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from syncd.app.daemon import Daemon
from syncd.app.quantity import counted
from syncd.app.reconciling import Run
from syncd.cli.exit import is_terminal
from syncd.core.resource import State
from syncd.sync.reflector import Reflector

PLAIN_EVERY = 2.0  # seconds between two plain lines


class SyncProgress:
    """The first sync of a daemon's streams: a bar for each that lists, or lines."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._bars = _bars() if is_terminal() else None
        self._tasks: dict[str, TaskID] = {}
        self._said_at = float("-inf")

    def __enter__(self) -> Self:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.show(last=True)
        if self._bars is not None:
            self._bars.stop()

    def show(self, *, last: bool = False) -> None:
        """Brings the picture up to date; plain lines no more often than every two seconds."""
        if self._bars is not None:
            for reflector in self._daemon.reflectors:
                self._bar(self._bars, reflector)
        elif last or time.monotonic() - self._said_at >= PLAIN_EVERY:
            self._said_at = time.monotonic()
            self._line()

    def _bar(self, bars: Progress, reflector: Reflector) -> None:
        progress, name = reflector.progress, str(reflector.stream)
        if name not in self._tasks:
            if progress.state is State.PENDING:
                return
            self._tasks[name] = bars.add_task(name, total=None, state="")
        total = None if progress.remaining is None else progress.listed + progress.remaining
        done = progress.state in (State.LIVE, State.PARKED)
        row = reflector.row
        count = row.object_count if row is not None and progress.state is State.LIVE else progress.listed
        bars.update(
            self._tasks[name],
            completed=count if done else progress.listed,
            total=count if done else total,
            state=progress.state.value + (f": {progress.error}" if progress.error else ""),
        )

    def _line(self) -> None:
        reflectors = self._daemon.reflectors
        live = sum(reflector.live for reflector in reflectors)
        rows = sum(reflector.row.object_count for reflector in reflectors if reflector.row)
        typer.echo(
            f"{live} of {counted(len(reflectors), 'stream')} live, {counted(rows, 'object')}", err=True
        )


class ReconcileProgress:
    """A reconcile's way through its streams."""

    def __init__(self) -> None:
        self._bars = _bars() if is_terminal() else None
        self._task: TaskID | None = None
        self._said_at = time.monotonic()

    def __enter__(self) -> Self:
        if self._bars is not None:
            self._bars.start()
            self._task = self._bars.add_task("reconcile", total=None, state="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def show(self, run: Run) -> None:
        """Brings the picture up to date."""
        if self._bars is not None and self._task is not None:
            state = f"{run.checked} objects  {run.current}"
            self._bars.update(self._task, completed=run.done, total=run.streams, state=state)
        elif time.monotonic() - self._said_at >= PLAIN_EVERY:
            self._said_at = time.monotonic()
            typer.echo(
                f"{run.done} of {counted(run.streams, 'stream')}, "
                f"{counted(run.checked, 'object')} checked  {run.current}",
                err=True,
            )


def _bars() -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:.0f}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[state]}", markup=False),
        console=Console(stderr=True, markup=False, emoji=False),
    )
