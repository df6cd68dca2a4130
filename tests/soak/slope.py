"""How much something grows: slopes of samples, and when they mean it. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

WARMING = 0.2
"""Of all samples, the first: caches fill, pools open, the allocator finds its size."""
BUCKETS = 20
"""Of the rest. Of each the least counts: work under way comes and goes, what leaks stays."""
MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Sample:
    """What the process has at a moment, `at` in seconds; bytes of memory and of the database."""

    at: float
    memory: int
    descriptors: int
    connections: int
    threads: int
    tasks: int
    database: int


@dataclass(frozen=True, slots=True)
class Slope:
    """A line through samples: growth an hour, what is uncertain of it (two standard errors), and how much it
    comes to over the time that was looked at.
    """

    hourly: float
    doubt: float
    first: float
    last: float
    hours: float

    @property
    def surely(self) -> float:
        """The least growth an hour that the samples allow for; 0 where they allow for none."""
        return max(0.0, self.hourly - self.doubt)


NAMES = tuple(field.name for field in fields(Sample) if field.name != "at")
COUNTS = ("descriptors", "connections", "threads", "tasks")
MOST = 1.0 * MEBIBYTE
"""Of memory, growth an hour that is allowed for. A count may not rise by one while it is looked at."""
NOISE = 0.5 * MEBIBYTE
"""What an allocator may keep of a while, however short the soak."""


def slopes(samples: Sequence[Sample]) -> dict[str, Slope]:
    """The slope of each figure, by name, once it was warm."""
    warm = samples[int(len(samples) * WARMING) :]
    return {name: slope([(each.at, float(getattr(each, name))) for each in warm]) for name in NAMES}


def slope(points: Sequence[tuple[float, float]]) -> Slope:
    """Least squares through the floor of the points, which are (seconds, value).

    Raises:
        ValueError: fewer than three.
    """
    if len(points) < 3:
        raise ValueError("a slope needs three samples")
    floor = _floor(points)
    count = len(floor)
    middle = sum(at for at, _ in floor) / count
    mean = sum(value for _, value in floor) / count
    spread = sum((at - middle) ** 2 for at, _ in floor)
    each = sum((at - middle) * (value - mean) for at, value in floor) / spread
    left = sum((value - mean - each * (at - middle)) ** 2 for at, value in floor)
    error = math.sqrt(left / max(1, count - 2) / spread)
    hours = (points[-1][0] - points[0][0]) / 3600
    return Slope(each * 3600, 2 * error * 3600, floor[0][1], floor[-1][1], hours)


def _floor(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The least of each bucket, at the bucket's middle."""
    buckets = min(BUCKETS, len(points))
    edges = [round(number * len(points) / buckets) for number in range(buckets + 1)]
    parts = [points[low:high] for low, high in itertools.pairwise(edges)]
    return [((part[0][0] + part[-1][0]) / 2, min(value for _, value in part)) for part in parts]


def faults(found: dict[str, Slope]) -> list[str]:
    """What grows, in words."""
    said = []
    memory = found["memory"]
    if memory.surely > MOST and memory.surely * memory.hours > NOISE:
        said.append(f"memory grows by at least {memory.surely / MEBIBYTE:.2f} MiB an hour")
    for name in COUNTS:
        risen = found[name].surely * found[name].hours
        if risen >= 1.0:
            said.append(f"{name} rise: by at least {risen:.1f} in {found[name].hours * 60:.0f} minutes")
    return said


def table(found: dict[str, Slope]) -> str:
    """The slopes as lines."""
    lines = [f"{'':12} {'first':>10} {'last':>10} {'an hour':>12} {'±':>8}"]
    for name, each in found.items():
        unit, form = (MEBIBYTE, "10.1f") if name in ("memory", "database") else (1, "10.0f")
        label = f"{name} MiB" if unit != 1 else name
        lines.append(
            f"{label:12} {each.first / unit:{form}} {each.last / unit:{form}}"
            f" {each.hourly / unit:12.2f} {each.doubt / unit:8.2f}"
        )
    return "\n".join(lines)
