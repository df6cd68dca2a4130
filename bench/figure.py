"""What a benchmark says: figures as ratios, pair by pair, their table, and one result beside another."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil


@dataclass(slots=True)
class Figure:
    """One line of the table: what was measured over its floor, pair by pair."""

    name: str
    floor: str
    ratios: list[float] = field(default_factory=list)
    measured: list[float] = field(default_factory=list)
    floors: list[float] = field(default_factory=list)
    unit: str = "s"

    def pair(self, measured: float, floor: float) -> None:
        self.measured.append(measured)
        self.floors.append(floor)
        self.ratios.append(measured / floor)

    @property
    def median(self) -> float:
        return statistics.median(self.ratios)


def percentile(values: Sequence[float], percent: int) -> float:
    return statistics.quantiles(values, n=100)[percent - 1]


def report(figures: Sequence[Figure], server: str, speed: Mapping[str, float], pairs: int) -> str:
    """The table."""
    lines = [
        f"{server}: {speed['list_mb_s']:.0f} MB/s of list, {speed['events_s']:.0f} events/s;"
        f" {psutil.cpu_count()} cores shared; medians of {pairs} pairs, ratios from least to most",
        "",
        "| what | ratio | spread | measured | floor | the floor |",
        "|---|---|---|---|---|---|",
    ]
    lines.extend(
        f"| {each.name} | {each.median:.2f} | {min(each.ratios):.2f}–{max(each.ratios):.2f}"
        f" | {statistics.median(each.measured):.2f} {each.unit}"
        f" | {statistics.median(each.floors):.2f} {each.unit} | {each.floor} |"
        for each in figures
    )
    return "\n".join(lines)


def write(path: Path, figures: Sequence[Figure], speed: Mapping[str, float]) -> None:
    """The same as JSON, for `bench.compare`."""
    found = [asdict(figure) | {"median": figure.median} for figure in figures]
    path.write_text(json.dumps({"speed": speed, "figures": found}, indent=2) + "\n", encoding="utf-8")


def compared(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Two results side by side. A difference counts where the pairs of the one all lie beyond the other's."""
    old = {figure["name"]: figure for figure in before["figures"]}
    new = {figure["name"]: figure for figure in after["figures"]}
    lines = ["| what | A | B | B / A | |", "|---|---|---|---|---|"]
    for name in [*old, *(name for name in new if name not in old)]:
        if name not in old or name not in new:
            lines.append(f"| {name} | | | | only in {'A' if name in old else 'B'} |")
            continue
        a, b = old[name], new[name]
        verdict = "no difference that this shows"
        if max(b["ratios"]) < min(a["ratios"]):
            verdict = "better"
        elif min(b["ratios"]) > max(a["ratios"]):
            verdict = "worse"
        ratio = b["median"] / a["median"]
        lines.append(f"| {name} | {a['median']:.2f} | {b['median']:.2f} | {ratio:.2f} | {verdict} |")
    return "\n".join(lines)
