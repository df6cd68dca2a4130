"""PostgreSQL's own comparison of documents is that of syncd.core.history, whatever they hold."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from syncd.core.history import changed_paths
from tests.contract.mirror_case import Mirror, Place, opened
from tests.unit.core.test_history import CASES

pytestmark = pytest.mark.postgres
KEYS = [
    "metadata",
    "resourceVersion",
    "status",
    "a",
    "b",
    "A_1",
    "1",
    "ä",
    'q"',
    "app/name",
    "\U0001f600",
    "",
]
QUERY = "SELECT syncd_changed_paths(%s::jsonb, %s::jsonb, %s)"


@pytest.fixture
async def mirror(postgres_place: Place) -> AsyncIterator[Mirror]:
    async with opened(postgres_place) as mirror:
        yield mirror


def value(rand: random.Random, depth: int) -> Any:
    kind = rand.randrange(9 if depth else 6)
    if kind < 6:
        return rand.choice([None, True, False, 0, 1, 1.0, 1.5, 100, 1e2, "", "x", "1", -0.0, 10**20, 0.1])
    if kind == 6:
        return [value(rand, depth - 1) for _ in range(rand.randrange(4))]
    return {rand.choice(KEYS): value(rand, depth - 1) for _ in range(rand.randrange(5))}


def altered(rand: random.Random, old: Any, depth: int) -> Any:
    """The same with something else here and there."""
    new = copy.deepcopy(old)
    if isinstance(new, dict) and new and rand.random() < 0.9:
        for key in list(new):
            if rand.random() < 0.4:
                new[key] = altered(rand, new[key], depth - 1)
        return new
    if isinstance(new, list) and new and rand.random() < 0.8:
        place = rand.randrange(len(new))
        new[place] = altered(rand, new[place], depth - 1)
        return new
    return value(rand, max(depth, 0))


async def test_both_say_the_same(mirror: Mirror) -> None:
    rand = random.Random(5)
    pairs: list[tuple[Any, Any]] = [(old, new) for old, new, _ in CASES]
    for _ in range(1500):
        old = {rand.choice(KEYS): value(rand, 4) for _ in range(4)}
        pairs.append((old, altered(rand, old, 4)))
    differing = 0
    with psycopg.connect(mirror.place.url, options=f"-c search_path={mirror.place.schema}") as session:
        for old, new in pairs:
            texts = json.dumps(old), json.dumps(new, ensure_ascii=False)
            for status in (True, False):
                [(found,)] = session.execute(QUERY, (*texts, status)).fetchall()
                assert found == changed_paths(*texts, status=status), texts
                differing += found is not None
    assert differing > 500
