"""Every query of docs/tables/ runs, on both databases, over what a simulated cluster holds."""

from __future__ import annotations

import re
import sqlite3

import msgspec
import psycopg
import pytest

from syncd.app.viewing import show
from syncd.core.document import Transform
from syncd.core.resource import Resource, Stream
from syncd.simulator.simulator import Simulator
from syncd.simulator.workload import Workload
from syncd.store.glossary import described
from syncd.views.catalogue import everything
from syncd.views.questions import NAMED, WANTED, questions
from tests.conftest import DatabasePlace
from tests.contract.mirror_case import opened
from tests.contract.views.case import rows

KINDS = (
    Resource("", "v1", "pods", "Pod", namespaced=True),
    Resource("", "v1", "configmaps", "ConfigMap", namespaced=True),
    Resource("", "v1", "secrets", "Secret", namespaced=True),
    Resource("", "v1", "namespaces", "Namespace", namespaced=False),
    Resource("apps", "v1", "deployments", "Deployment", namespaced=True),
)
ANSWERED = {
    "pods",
    "deployments",
    "configmaps",
    "container_images",
    "volumes",
    "relations",
    "owners",
}


@pytest.mark.parametrize("dialect", ["postgresql", "sqlite"])
def test_no_query_compares_a_boolean_with_text(dialect: str) -> None:
    # PostgreSQL reads 'True' as a boolean; SQLite, where it is 0 or 1, calls every row different.
    for relation in everything(dialect, described(dialect)).views:
        named = "|".join(column.name for column in relation.columns if column.type == "boolean")
        for question in questions(relation):
            assert not named or not re.search(rf"\b({named})\s*(=|<>)\s*'", question.query), question.query


def test_no_query_asks_for_all_relations_of_the_cluster_row_by_row() -> None:
    # SQLite takes nothing of an outer query into a view that is a union: it would make it anew for each row.
    for relation in everything("sqlite", described("sqlite")).views:
        for question in questions(relation):
            assert "EXISTS (SELECT 1 FROM relations" not in question.query, question.query


async def test_every_query_runs_and_says_what_it_shows(place: DatabasePlace) -> None:
    simulator = Simulator(seed=0)
    Workload(simulator, seed=0).fill(50)
    wanted = everything(place.dialect, described(place.dialect)).views
    assert {relation.name for relation in wanted} >= NAMED
    answered: set[str] = set()
    async with opened(place) as mirror:
        await show(mirror.database)
        for resource in KINDS:
            transform = Transform(resource)
            records = simulator.collection(resource.group, resource.name).current.records.values()
            documents = [msgspec.Raw(record.body.rstrip(b",")) for record in records]
            await mirror.open(*map(transform, documents), stream=Stream("prod", resource))
        for relation in wanted:
            asked = questions(relation)
            assert len(asked) == WANTED
            for question in asked:
                try:
                    found = rows(place, question.query)
                except (sqlite3.Error, psycopg.Error) as error:
                    raise AssertionError(f"{relation.name}: {question.title}: {error}") from error
                answered |= {relation.name} if found else set()
    assert answered >= ANSWERED
