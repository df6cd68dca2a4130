"""The figures of a soak, and a soak of seconds so that it cannot rot."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.soak.__main__ import soak
from tests.soak.site import site
from tests.soak.slope import MEBIBYTE, Sample, faults, slope, slopes, table


def samples(memory: float = 0.0, descriptors: float = 0.0) -> list[Sample]:
    """Half an hour of a process that grows by so many MiB an hour, and so many descriptors, among noise."""
    rand = random.Random(1)
    return [
        Sample(
            at=float(at),
            memory=int((100 + memory * at / 3600 + rand.random() * 5) * MEBIBYTE),
            descriptors=int(20 + descriptors * at / 3600 + rand.randrange(4)),
            connections=8,
            threads=5,
            tasks=rand.randrange(30, 40),
            database=MEBIBYTE * (100 + at),
        )
        for at in range(0, 1800, 2)
    ]


def test_a_line_has_its_slope() -> None:
    found = slope([(float(at), 3.0 * at) for at in range(100)])
    assert found.hourly == pytest.approx(3 * 3600)
    assert found.doubt == pytest.approx(0, abs=1e-6)
    with pytest.raises(ValueError, match="three"):
        slope([(0.0, 1.0), (1.0, 2.0)])


def test_noise_is_no_growth() -> None:
    assert faults(slopes(samples())) == []


def test_a_leak_of_memory_is_found() -> None:
    assert "memory grows" in faults(slopes(samples(memory=6)))[0]


def test_a_leak_of_descriptors_is_found() -> None:
    assert "descriptors rise" in faults(slopes(samples(descriptors=20)))[0]


def test_the_table_names_every_figure() -> None:
    text = table(slopes(samples()))
    assert all(name in text for name in ("memory MiB", "descriptors", "tasks", "database MiB"))


async def test_a_soak_of_seconds(tmp_path: Path) -> None:
    taken = await soak(site(tmp_path, None, pods=100, rate=50), 3.0)
    assert len(taken) > 5
    assert all(each.memory and each.descriptors and each.tasks and each.database for each in taken[-3:])
