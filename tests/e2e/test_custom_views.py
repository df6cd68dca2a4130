"""Custom resources' views by the product: they come, change and go with their definitions while it runs."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import AsyncIterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import psycopg
import pytest

from syncd.simulator.definitions import definition
from syncd.views.view import IDENTITY, TRAILING
from tests.conftest import DatabasePlace
from tests.e2e.world import DEADLINE, QUICK, World

CRDS = ("apiextensions.k8s.io", "customresourcedefinitions")
NAME = "gadgets.example.com"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "color": {"type": "string", "description": "Its color. Any will do."},
                "size": {"type": "integer"},
                "until": {"type": "string", "format": "date-time"},
                "parts": {"type": "array"},
            },
        },
        "status": {"type": "object", "properties": {"phase": {"type": "string"}, "size": {"type": "number"}}},
    },
}
COLOR = ("Color", "string", ".spec.color")
NO_RELATION = (
    sqlite3.OperationalError,
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.UndefinedObject,
)
Rows = list[tuple[Any, ...]]


def gadgets(
    *printed: tuple[str, str, str], schema: dict[str, Any] = SCHEMA, group: str = "example.com"
) -> dict[str, Any]:
    """The definition, with printer columns (name, type, path)."""
    made = definition(group, "gadgets", "Gadget", schema=deepcopy(schema))
    columns = [{"name": name, "type": kind, "jsonPath": path} for name, kind, path in printed]
    made["spec"]["versions"][0]["additionalPrinterColumns"] = columns
    return made


def gadget(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "shop"}, "spec": spec, "status": {"phase": "Ready"}}


class Asking:
    """A session of somebody else. It waits for locks, so it must not hold up the product in this process."""

    def __init__(self, place: DatabasePlace) -> None:
        self._place = place

    async def __call__(self, query: str) -> Rows | None:
        """The rows; None where the relation, or the column, is not there."""
        return await asyncio.to_thread(self._ask, query)

    def _ask(self, query: str) -> Rows | None:
        place = self._place
        try:
            if place.dialect == "sqlite":
                connection = sqlite3.connect(place.path, timeout=10)
                try:
                    return connection.execute(query).fetchall()
                finally:
                    connection.close()
            options = f"-c search_path={place.schema}"
            with psycopg.connect(place.url, options=options, autocommit=True) as session:
                cursor = session.execute(query.encode())
                return cursor.fetchall() if cursor.description else []
        except NO_RELATION:
            return None

    async def until(self, query: str, rows: Rows | None) -> None:
        """Until these are the rows."""
        ends_at = time.monotonic() + DEADLINE
        while (found := await self(query)) != rows:
            assert time.monotonic() < ends_at, f"{query}: {found}, not {rows}"
            await asyncio.sleep(0.05)

    async def columns(self, view: str) -> dict[str, str]:
        """Types by name in their order, of the view's own ones, as the dictionary tells."""
        query = "SELECT column_name, type FROM dictionary WHERE relation = '{}' AND place > 0 ORDER BY place"
        fixed = {name for name, _ in await self(query.format("deployments")) or []}
        own = [(name, kind) for name, kind in await self(query.format(view)) or [] if name not in FIXED]
        assert fixed >= FIXED
        return dict(own)


FIXED = frozenset(column.name for column in (*IDENTITY, *TRAILING))


@pytest.fixture
def ask(world: World) -> Asking:
    return Asking(world.place)


@pytest.fixture
async def other(world: World, tmp_path: Path) -> AsyncIterator[World]:
    """A second cluster."""
    (tmp_path / "other").mkdir()
    async with World(world.place, tmp_path / "other") as made:
        yield made


async def test_a_type_comes_changes_and_goes_while_syncd_runs(world: World, ask: Asking) -> None:
    """Whether definitions are mirrored or not: here they are not."""
    async with world.running("pods", NAME, timing=QUICK, live=False):
        assert await ask("SELECT 1 FROM gadgets") is None
        world.simulator.create(*CRDS, gadgets(COLOR))
        world.simulator.create("example.com", "gadgets", gadget("one", color="red", size=3))
        await ask.until("SELECT name, color FROM gadgets", [("one", "red")])
        long = "SELECT cluster, namespace, name, size, phase FROM gadgets_example_com"
        assert await ask(long) == [("c", "shop", "one", 3, "Ready")]
        before = {
            "color": "text",
            "spec_color": "text",
            "parts": "jsonb",
            "size": "bigint",
            "until": "timestamptz",
            "phase": "text",
            "status_size": "double precision",
        }
        assert await ask.columns("gadgets") == before
        assert list(await ask.columns("gadgets")) == list(before)
        said = "SELECT description FROM dictionary WHERE relation = 'gadgets' AND column_name = 'spec_color'"
        assert await ask(said) == [("Its color.",)]

        await ask("CREATE VIEW mine AS SELECT name, color FROM gadgets")
        changed = gadgets(COLOR, ("Ready", "string", ".status.phase"))
        del changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
        world.simulator.update(*CRDS, changed)
        await ask.until("SELECT name, ready, phase FROM gadgets", [("one", "Ready", None)])
        assert await ask("SELECT * FROM mine") == [("one", "red")]
        assert await ask.columns("gadgets") == {**before, "ready": "text"}

        world.simulator.delete(*CRDS, "", NAME)
        noted = "SELECT count(*) FROM dictionary WHERE relation = 'gadgets' AND place = 0 AND note <> ''"
        await ask.until(noted, [(1,)])
        assert await ask("SELECT * FROM mine") == []
        assert await ask("SELECT count(*) FROM syncd_definitions") == [(0,)]

        # It comes again, and is what it was to whoever relied on it.
        world.simulator.create(*CRDS, gadgets(COLOR))
        world.simulator.create("example.com", "gadgets", gadget("two", color="blue"))
        await ask.until("SELECT * FROM mine", [("two", "blue")])
        await ask.until(noted, [(0,)])
        await ask("DROP VIEW mine")
        world.simulator.delete(*CRDS, "", NAME)
        await ask.until("SELECT 1 FROM gadgets", None)
        await ask.until("SELECT 1 FROM gadgets_example_com", None)


async def test_one_view_serves_all_clusters(world: World, other: World, ask: Asking) -> None:
    """Its columns are the union of theirs, and one that they have with different types is text."""
    world.simulator.create(*CRDS, gadgets(COLOR))
    world.simulator.create("example.com", "gadgets", gadget("one", color="red", size=3))
    second = deepcopy(SCHEMA)
    second["properties"]["spec"]["properties"] |= {"size": {"type": "string"}, "weight": {"type": "number"}}
    clusters = [world.entry, {**other.entry, "name": "d"}]
    async with world.running(NAME, timing=QUICK, live=False, clusters=clusters):
        await ask.until("SELECT name, size FROM gadgets", [("one", 3)])
        await ask("CREATE VIEW mine AS SELECT name, color FROM gadgets_example_com")
        other.simulator.create(*CRDS, gadgets(COLOR, schema=second))
        other.simulator.create("example.com", "gadgets", gadget("two", color="blue", size="L", weight=0.5))
        await ask.until(
            "SELECT cluster, name, size, weight FROM gadgets ORDER BY name",
            [("c", "one", "3", None), ("d", "two", "L", 0.5)],
        )
        assert (await ask.columns("gadgets"))["size"] == "text"
        # Where something is built on the view, its columns keep their types.
        kept = [("3",), ("L",)] if world.place.dialect == "sqlite" else [(3,), (None,)]
        await ask.until("SELECT size FROM gadgets_example_com ORDER BY name", kept)
        assert await ask("SELECT * FROM mine ORDER BY name") == [("one", "red"), ("two", "blue")]


async def test_a_single_sync_leaves_views_that_can_be_asked(world: World, ask: Asking) -> None:
    world.simulator.create(*CRDS, gadgets(COLOR))
    world.simulator.create("example.com", "gadgets", gadget("one", color="red", size=3))
    world.write_config("pods", NAME)
    code, text = await world.syncd("sync")
    assert code == 0, text
    assert await ask("SELECT name, color, size FROM gadgets_example_com") == [("one", "red", 3)]
    code, text = await world.syncd("migrate", "--rebuild-views")
    assert code == 0, text
    assert await ask("SELECT name, color, size FROM gadgets") == [("one", "red", 3)]


async def test_the_first_keeps_the_short_name_while_it_is_there(world: World, ask: Asking) -> None:
    async with world.running("*.other.io", timing=QUICK, live=False):
        world.simulator.create(*CRDS, gadgets(COLOR, group="other.io"))
        world.simulator.create("other.io", "gadgets", gadget("theirs", color="red"))
        await ask.until("SELECT name FROM gadgets", [("theirs",)])
    world.simulator.create(*CRDS, gadgets(COLOR))
    world.simulator.create("example.com", "gadgets", gadget("ours", color="red"))
    async with world.running("gadgets.example.com", "*.other.io", timing=QUICK):
        await ask.until("SELECT name FROM gadgets_example_com", [("ours",)])
        assert await ask("SELECT name FROM gadgets") == [("theirs",)]
        subjects = "SELECT relation, subject FROM dictionary WHERE relation LIKE 'gadgets%' AND place = 0"
        assert dict(await ask(subjects) or []) == {
            "gadgets": "other.io/gadgets",
            "gadgets_other_io": "other.io/gadgets",
            "gadgets_example_com": "example.com/gadgets",
        }
        world.simulator.delete(*CRDS, "", "gadgets.other.io")
        await ask.until("SELECT name FROM gadgets", [("ours",)])


async def test_a_type_without_a_definition_that_can_be_seen_has_a_view(world: World, ask: Asking) -> None:
    world.simulator.create(*CRDS, gadgets(COLOR))
    world.simulator.create("example.com", "gadgets", gadget("one", color="red", size=3))
    world.simulator.faults.answer(403, resource="customresourcedefinitions", times=None)
    async with world.running(NAME, timing=QUICK):
        await ask.until("SELECT name FROM gadgets", [("one",)])
        assert await ask.columns("gadgets") == {}
        [(document,)] = await ask("SELECT object FROM gadgets_example_com") or []
        found = json.loads(document) if isinstance(document, str) else document
        assert found["spec"] == {"color": "red", "size": 3}
