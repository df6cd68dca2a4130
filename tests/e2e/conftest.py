"""The world of one test: a simulated cluster on a port, and a fresh database of each dialect in turn."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.conftest import Begin, DatabasePlace
from tests.e2e.world import World


@pytest.fixture
def begin() -> Begin:
    """A daemon makes the views where it finds none, a third of a second each time."""
    return Begin.VIEWS


@pytest.fixture
async def world(place: DatabasePlace, tmp_path: Path) -> AsyncIterator[World]:
    """An empty cluster, and an empty mirror."""
    async with World(place, tmp_path) as made:
        yield made
