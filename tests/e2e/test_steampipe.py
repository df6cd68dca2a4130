"""`views: {steampipe: true}` by the product's own commands, and custom types that come and go."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.conftest import DatabasePlace
from tests.e2e.world import QUICK, World, until

pytestmark = pytest.mark.postgres

RESOURCES = ("pods", "deployments", "widgets.example.com")
NAMES: dict[str, Any] = {"views": {"steampipe": True}}


@pytest.fixture
def place(postgres_place: DatabasePlace) -> DatabasePlace:
    """PostgreSQL alone has schemas."""
    return postgres_place


def ask(world: World, query: str) -> list[tuple[Any, ...]]:
    options = "-c search_path=kubernetes,public"
    with psycopg.connect(world.place.url, options=options, autocommit=True) as session:
        return session.execute(query.encode()).fetchall()


def has(world: World, view: str) -> bool:
    return bool(ask(world, f"SELECT to_regclass('kubernetes.{view}') IS NOT NULL")[0][0])


async def test_a_single_sync_leaves_tables_that_can_be_asked(world: World) -> None:
    world.workload.fill(50)
    world.write_config(*RESOURCES, **NAMES)
    code, text = await world.syncd("sync")
    assert code == 0, text
    assert ask(world, "SELECT count(*), min(context_name) FROM kubernetes_pod") == [(50, "c")]
    assert ask(world, "SELECT count(*) FROM kubernetes_widget") == [(1,)]
    assert ask(world, "SELECT count(*) > 0 FROM kubernetes_pod WHERE selector_search = 'app'") == [(True,)]


async def test_migrate_makes_them_and_says_why_it_cannot(world: World) -> None:
    world.write_config(*RESOURCES, **NAMES)
    code, text = await world.syncd("migrate")
    assert code == 0, text
    assert has(world, "kubernetes_pod")
    with psycopg.connect(world.place.url, autocommit=True) as session:
        session.execute("DROP SCHEMA kubernetes CASCADE")
        session.execute("CREATE SCHEMA kubernetes")
        session.execute("CREATE TABLE kubernetes.kubernetes_pod (name text)")
    code, text = await world.syncd("migrate")
    assert code == 1
    assert "kubernetes.kubernetes_pod is there and not syncd's" in text


async def test_without_the_key_nothing_is_made(world: World) -> None:
    world.write_config(*RESOURCES)
    assert (await world.syncd("migrate"))[0] == 0
    assert not has(world, "kubernetes_pod")


async def test_a_custom_type_that_comes_and_goes_has_its_tables_meanwhile(world: World) -> None:
    world.workload.pods(5)
    async with world.running(*RESOURCES, timing=QUICK, **NAMES):
        assert has(world, "kubernetes_pod")
        assert not has(world, "kubernetes_widget")
        world.workload.widgets(3)
        await until(lambda: has(world, "kubernetes_widget"), "the type has its table")
        await until(
            lambda: ask(world, "SELECT count(*) FROM kubernetes_widget_example_com") == [(3,)],
            "its objects are rows",
        )
        world.simulator.delete("apiextensions.k8s.io", "customresourcedefinitions", "", "widgets.example.com")
        await until(lambda: not has(world, "kubernetes_widget"), "its table goes with it")
        assert ask(world, "SELECT count(*) FROM kubernetes_pod") == [(5,)]
