"""A bench on a fresh SQLite database for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.fakes.bench import Bench


@pytest.fixture
async def bench(sqlite_place: Any) -> AsyncIterator[Bench]:
    made = Bench(sqlite_place.url)
    try:
        await made.open()
        yield made
        assert "stream failed" not in made.log.events("error"), made.log.lines[-5:]
        assert "a watch failed" not in made.log.events("error"), made.log.lines[-5:]
    finally:
        await made.close()
