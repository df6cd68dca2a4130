"""What the audience sees: acts in words, and below them a live table; plain lines where nobody looks."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from syncd.demo.mirror import Reading

PLAIN_EVERY = 2.0  # seconds between two lines about the streams
WIDEST = 96
_WINDOW = 2.0  # seconds over which events are counted
_COLOURS = {"live": "green", "syncing": "yellow", "backoff": "yellow", "parked": "magenta", "pending": "dim"}


class Stage:
    """Writes to a console; while entered on a terminal, its last lines are the live table."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._width = min(console.width, WIDEST)
        self._live: Live | None = None
        self._said_at = 0.0
        self._acts = 0
        self._past: deque[tuple[float, Counter[str]]] = deque()
        self._last = Reading(0.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.rest()

    # --- words ------------------------------------------------------------------------------------

    def open(self, title: str, text: str) -> None:
        """The very first line."""
        self._print(Text.assemble((title, "bold"), "  ", (text, "dim")))

    def close(self, title: str, text: str) -> None:
        """The last paragraph: the title begins its sentence."""
        self._print("")
        self._print(Text.assemble((title, "bold"), " ", (text, "dim")))

    def act(self, title: str, text: str) -> None:
        """A new act: what happens, and why it matters."""
        self._acts += 1
        self._print("")
        self._print(Text.assemble((f"{self._acts}  ", "bold cyan"), (title, "bold cyan")))
        self._print(self._indented(Text(text)))

    def say(self, text: str, *, good: bool = True) -> None:
        """What came of it. Text between backquotes is emphasised."""
        mark = ("→ ", "bold green") if good else ("✗ ", "bold red")
        line = Text.assemble(*(_emphasised(text)))
        grid = Table.grid(padding=0)
        grid.add_column(width=2)
        grid.add_column()
        grid.add_row(Text.assemble(mark), line)
        self._print(self._indented(grid))

    def note(self, text: str) -> None:
        """Something by the way."""
        self._print(self._indented(Text(text, "dim")))

    def code(self, text: str) -> None:
        """SQL."""
        if self._console.is_terminal:
            look = Syntax(text, "sql", theme="ansi_dark", background_color="default", word_wrap=True)
            self._print(self._indented(look))
        else:
            self._print(self._indented(Text(text)))

    def output(self, text: str) -> None:
        """What a command printed, its long lines cut."""
        lines = "\n".join(line.rstrip() for line in text.splitlines())
        self._print(self._indented(Text(lines, no_wrap=True, overflow="ellipsis")))

    def answer(self, headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """The answer to a query."""
        table = Table(
            *headers, box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold"
        )
        for row in rows:
            table.add_row(*map(_cell, row))
        self._print(self._indented(table))

    def commands(self, pairs: Iterable[tuple[str, str]]) -> None:
        """What to try, and what it does."""
        for command, meaning in pairs:
            comment = f"   # {meaning}" if meaning else ""
            self._print(self._indented(Text.assemble((command, "bold"), (comment, "dim"))))

    def _indented(self, what: RenderableType) -> RenderableType:
        return Padding(what, (0, 0, 0, 3))

    def _print(self, what: RenderableType) -> None:
        if self._console.is_terminal:
            self._console.print(what, width=self._width, highlight=False)
            return
        with self._console.capture() as captured:  # a log wants no blanks at the end of its lines
            self._console.print(what, width=self._width, highlight=False)
        for line in captured.get().splitlines():
            self._console.file.write(f"{line.rstrip()}\n")
        self._console.file.flush()

    # --- the streams ------------------------------------------------------------------------------

    def show(self, reading: Reading | None, *, pid: int | None, total: int | None = None) -> None:
        """Brings the picture up to date.

        Args:
            reading: None where the daemon does not answer: its streams are shown as they were, and down.
            total: objects in the cluster, while the first sync runs.
        """
        if reading is not None:
            if self._past and self._past[-1][1].total() > reading.events.total():
                self._past.clear()  # another process: its counters began anew
            self._past.append((reading.at, reading.events))
            while reading.at - self._past[0][0] > _WINDOW:
                self._past.popleft()
            self._last = reading
        if not self._console.is_terminal:
            self._line(reading, total)
            return
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        self._live.update(self._picture(reading, pid, total), refresh=True)

    def rest(self) -> None:
        """Takes the live table away."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def rate(self, resource: str | None = None) -> float:
        """Events a second over the last two."""
        if len(self._past) < 2:
            return 0.0
        (began, before), (ended, after) = self._past[0], self._past[-1]
        count = (after - before).total() if resource is None else after[resource] - before[resource]
        return max(0.0, count / (ended - began)) if ended > began else 0.0

    def _line(self, reading: Reading | None, total: int | None) -> None:
        if time.monotonic() - self._said_at < PLAIN_EVERY:
            return
        self._said_at = time.monotonic()
        if reading is None or not reading.streams:
            return
        live = sum(stream.state == "live" for stream in reading.streams)
        lag = max(stream.lag for stream in reading.streams)
        objects = f"{reading.objects:,}" + (f" of {total:,}" if total else "")
        self._print(
            self._indented(
                Text(
                    f"{live} of {len(reading.streams)} streams live, {objects} objects,"
                    f" {self.rate():.0f} events/s, lag {lag:.2f} s"
                )
            )
        )

    def _picture(self, reading: Reading | None, pid: int | None, total: int | None) -> RenderableType:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_footer=True)
        state = Text(f"daemon {pid}", "dim") if pid else Text("no daemon", "bold red")
        table.add_column("stream", footer=state, min_width=24, header_style="dim")
        table.add_column("state", min_width=9, header_style="dim")
        shown = f"{self._last.objects:,}"
        table.add_column("objects", shown, justify="right", min_width=9, header_style="dim")
        rate = f"{self.rate():,.0f}" if reading else "-"
        table.add_column("events/s", rate, justify="right", min_width=8, header_style="dim")
        lag = max((stream.lag for stream in self._last.streams), default=0.0)
        table.add_column(
            "lag", f"{lag:.2f} s" if reading else "-", justify="right", min_width=7, header_style="dim"
        )
        for stream in self._last.streams:
            look = _COLOURS.get(stream.state, "") if reading else "dim"
            table.add_row(
                stream.resource,
                Text(f"● {stream.state}" if reading else "○ down", look),
                f"{stream.objects:,}",
                f"{self.rate(stream.resource):,.0f}" if reading else "-",
                f"{stream.lag:.2f} s" if reading else "-",
            )
        parts: list[RenderableType] = [table]
        if total:
            bar = Table.grid(padding=(0, 1))
            count = Text(f"{self._last.objects:,} of {total:,} objects")
            bar.add_row(ProgressBar(total=total, completed=min(total, self._last.objects), width=40), count)
            parts.append(bar)
        return Padding(Group(*parts), (1, 0, 0, 3))


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,.1f}" if isinstance(value, float) else str(value)


def _emphasised(text: str) -> list[tuple[str, str]]:
    return [(part, "bold" if index % 2 else "") for index, part in enumerate(text.split("`"))]
