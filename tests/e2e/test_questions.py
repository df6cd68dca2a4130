"""Every query of the README, and those of the demo, against a mirror of two simulated clusters."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg

from syncd.app.daemon import running
from syncd.config import load
from syncd.demo.question import QUESTIONS
from syncd.simulator.server import SimulatorServer, write_kubeconfig
from syncd.simulator.simulator import Simulator
from syncd.simulator.workload import Workload
from syncd.store.database import Database
from tests.conftest import DatabasePlace
from tests.e2e.world import QUICK, parts, until

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
RESOURCES = ["namespaces", "pods", "deployments.apps", "configmaps"]


def queries(dialect: str, page: Path = README) -> list[str]:
    """The page's SQL; a comment in its first line names the dialect where it is of one alone."""
    blocks = re.findall(r"^```sql\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    own = [re.match(r"-- (\w+)\n", block) for block in blocks]
    return [
        block
        for block, named in zip(blocks, own, strict=True)
        if named is None or named[1].lower() == dialect
    ]


@asynccontextmanager
async def two_clusters(place: DatabasePlace, folder: Path) -> AsyncIterator[None]:
    """Staging and production, mirrored; a pod of each is gone."""
    async with AsyncExitStack() as stack:
        simulators = {}
        for seed, name in enumerate(("prod", "staging")):
            simulators[name] = Simulator(seed)
            Workload(simulators[name], seed=seed).fill(60 + 40 * seed)
            server = await stack.enter_async_context(SimulatorServer(simulators[name]))
            write_kubeconfig(folder / name, server.url)
        path = folder / "syncd.yaml"
        clusters = [{"name": name, "kubeconfig": name} for name in simulators]
        database = {"url": place.url, "schema": place.schema}
        path.write_text(json.dumps({"database": database, "clusters": clusters, "resources": RESOURCES}))
        daemon = await stack.enter_async_context(running(load(path, {}), timing=QUICK))
        await until(
            lambda: len(daemon.reflectors) == 2 * len(RESOURCES) and all(r.live for r in daemon.reflectors),
            "every stream live",
        )
        for simulator in simulators.values():
            key = simulator.collection("", "pods").current.keys[0]
            simulator.delete("", "pods", *parts(key))
        await until(lambda: len(ask(place, "SELECT name FROM syncd_deleted_objects")) == 2, "two tombstones")
        yield


def ask(place: DatabasePlace, query: str) -> list[Any]:
    if place.dialect == "sqlite":
        connection = sqlite3.connect(place.path)
        try:
            return connection.execute(query).fetchall()
        finally:
            connection.close()
    with psycopg.connect(place.url, options=f"-c search_path={place.schema}") as session:
        return session.execute(query.encode()).fetchall()


async def test_the_five_questions(place: DatabasePlace, tmp_path: Path) -> None:
    asked = queries(place.dialect)
    assert len(asked) == 5
    async with two_clusters(place, tmp_path):
        where, lacking, gone, images, believed = (ask(place, query) for query in asked)
    assert len(where) == 10
    assert {row[2] for row in where} == {"Running"}
    assert lacking
    assert [row[4] for row in gone] == ["deleted", "deleted"]
    assert sum(row[3] for row in images) == 60 + 100 - 2
    assert {row[3:5] for row in believed} == {("fresh", None)}
    assert len(believed) == 2 * len(RESOURCES)


async def test_the_questions_about_the_tables(place: DatabasePlace) -> None:
    asked = queries(place.dialect, ROOT / "docs" / "schema.md")
    assert asked
    database = Database(place.url, schema=place.schema)
    try:
        await database.migrate()
        for query in asked:
            assert ask(place, query) == []
    finally:
        await database.close()


async def test_the_questions_of_the_demo(sqlite_place: DatabasePlace, tmp_path: Path) -> None:
    async with two_clusters(sqlite_place, tmp_path):
        teams, gone, wrong = (ask(sqlite_place, question.query) for question in QUESTIONS)
    assert len(teams) == 4
    assert [row[:2] for row in gone] == [("deleted", 2)]
    assert wrong == []
