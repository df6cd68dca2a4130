"""Writes to a cluster in the course of time, and when the server had answered each."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path

Answers = Mapping[str, int]
"""By the resource version of a write: when its answer came, in nanoseconds since 1970."""


def schedule(rate: float, seconds: float, others: float = 0.0) -> list[tuple[float, bool]]:
    """When each write is due, in seconds, and whether it is measured.

    Args:
        rate: of those that are, evenly.
        others: so many a second beside them, at random times, that are not; the same in each run.
    """
    rand = random.Random(0)
    measured = [(number / rate, True) for number in range(int(rate * seconds))]
    beside = [(rand.uniform(0, seconds), False) for _ in range(int(others * seconds))]
    return sorted(measured + beside)


def target(keys: list[str], number: int) -> str:
    """Whose turn it is: one after another, neighbours far apart, and each once in a round."""
    return keys[number * 7919 % len(keys)]


def save(path: Path, answers: Answers) -> None:
    path.write_text(json.dumps(answers), encoding="utf-8")


def saved(path: Path) -> Answers:
    found: Answers = json.loads(path.read_text(encoding="utf-8"))
    return found
