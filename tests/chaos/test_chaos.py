"""One seed, so that the harness itself cannot rot; chaos proper is a run of many."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from tests.chaos import seed
from tests.chaos.schedule import KINDS, ON_POSTGRESQL, ON_SQLITE, THEMES, schedule
from tests.chaos.world import World

SEED = 4  # on SQLite, in this process, in a second or two


@pytest.fixture
def logging_again() -> Iterator[None]:
    """A seed takes the log of the process for itself."""
    root, ours = logging.getLogger(), logging.getLogger("syncd")
    before = list(root.handlers), root.level, ours.level
    yield
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    ours.setLevel(before[2])
    structlog.reset_defaults()


def test_a_schedule_is_the_same_for_the_same_seed() -> None:
    assert schedule(7) == schedule(7)
    assert schedule(7) != schedule(8)
    assert {schedule(seed).dialect for seed in range(20)} == {ON_SQLITE, ON_POSTGRESQL}
    assert {schedule(seed).process for seed in range(20)} == {True, False}


def test_every_kind_of_step_means_something(tmp_path: Path) -> None:
    world = World(schedule(SEED), tmp_path, None)
    names = [kind.name for kind in KINDS]
    assert len(set(names)) == len(names)
    assert {name for theme in THEMES for name in theme} <= set(names)
    assert all(callable(world.meaning(name)) for name in names)


@pytest.mark.usefixtures("logging_again")
def test_one_seed_ends_as_the_cluster(tmp_path: Path) -> None:
    planned = schedule(SEED)
    assert (planned.dialect, planned.process) == (ON_SQLITE, False)
    outcome = seed.run(planned, tmp_path / "seed", None)
    assert outcome.passed, outcome.text
    assert sum(outcome.kinds.values()) == len(planned.steps)
