"""One seed, so that the harness itself cannot rot; chaos proper is a run of many."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from tests.chaos.__main__ import one
from tests.chaos.schedule import ON_POSTGRESQL, ON_SQLITE, schedule

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


@pytest.mark.usefixtures("logging_again")
def test_one_seed_ends_as_the_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    planned = schedule(SEED)
    assert (planned.dialect, planned.process) == (ON_SQLITE, False)
    kinds: Counter[str] = Counter()
    assert one(planned, tmp_path / "seed", None, kinds), capsys.readouterr().out
    assert sum(kinds.values()) == len(planned.steps)
