"""The world of one test: a simulated cluster on a port, and a fresh database of each dialect in turn."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.conftest import DatabasePlace
from tests.e2e.world import World


@pytest.fixture
async def world(place: DatabasePlace, tmp_path: Path) -> AsyncIterator[World]:
    """An empty cluster, and a database that does not exist yet."""
    async with World(place, tmp_path) as made:
        yield made
