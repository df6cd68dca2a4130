"""What is kept of custom types: read once a generation, gone with the definition, never in anybody's way."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from syncd.core.errors import Forbidden, ServerError
from syncd.core.ports import ListRequest
from syncd.sync.description import FEW
from tests.fakes.bench import Bench
from tests.fakes.site import WIDGET_NAME, Site

VERSIONS = [
    {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {"properties": {"spec": {"properties": {"size": {"type": "integer"}}}}}
        },
    }
]
NAMES = {"plural": "widgets", "kind": "Widget"}


@pytest.fixture
async def site(bench: Bench) -> AsyncIterator[Site]:
    made = Site(bench)
    define(made, WIDGET_NAME)
    yield made
    await made.stop()


def define(site: Site, name: str, *, uid: str = "u1") -> None:
    group = name.partition(".")[2]
    site.cluster.definitions.put(name, uid=uid, group=group, names=NAMES, versions=VERSIONS)


def kept(site: Site) -> dict[str, tuple[str, Any]]:
    """What the database has: uid and document by name."""
    found = site.bench.look("SELECT name, uid, document FROM syncd_definitions")
    return {name: (uid, json.loads(document)) for name, uid, document in found}


def asked(site: Site) -> list[ListRequest]:
    """What was asked for in full: the watch of the metadata asks for no list."""
    return site.cluster.definitions.lists


async def test_a_definition_is_read_once_a_generation(site: Site) -> None:
    await site.live("pods")
    await site.until(lambda: site.supervisor.descriptions.level)
    (uid, document) = kept(site)[WIDGET_NAME]
    properties = document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    assert (uid, properties) == ("u1", {"spec": {"properties": {"size": {"type": "integer"}}}})
    await site.restart("pods")
    await site.until(lambda: site.supervisor.descriptions.level)
    assert len(asked(site)) == 1
    define(site, WIDGET_NAME, uid="u2")
    await site.until(lambda: kept(site)[WIDGET_NAME][0] == "u2" and site.supervisor.descriptions.level)
    assert [one.field_selector for one in asked(site)] == [f"metadata.name={WIDGET_NAME}"] * 2


async def test_a_definition_that_goes_is_forgotten_even_while_nobody_watched(site: Site) -> None:
    define(site, "gizmos.example.com")
    await site.live("pods")
    await site.until(lambda: len(kept(site)) == 2)
    site.cluster.definitions.delete("gizmos.example.com")
    await site.until(lambda: set(kept(site)) == {WIDGET_NAME})
    await site.stop()
    site.cluster.definitions.delete(WIDGET_NAME)
    await site.restart("pods")
    await site.until(lambda: not kept(site))


async def test_many_are_read_as_pages(site: Site) -> None:
    for number in range(FEW + 10):
        define(site, f"kind{number:02}.example.com")
    await site.live("pods")
    await site.until(lambda: len(kept(site)) == FEW + 11)
    assert {one.field_selector for one in asked(site)} == {""}
    assert len(asked(site)) == 2


async def test_one_that_says_nothing_is_kept_without_columns(site: Site) -> None:
    site.cluster.definitions.put("odd.example.com", uid="u3")
    await site.live("pods")
    await site.until(lambda: kept(site).get("odd.example.com") == ("u3", {}))
    assert WIDGET_NAME in kept(site)
    assert len(asked(site)) == 2


async def test_what_cannot_be_read_keeps_nothing_waiting_and_is_asked_again(site: Site) -> None:
    site.cluster.definitions.list_answers.extend([Forbidden(403), ServerError(500), ServerError(503)])
    await site.live("pods")
    assert ("pods", "a") in site.rows()
    await site.until(lambda: WIDGET_NAME in kept(site))


async def test_a_database_that_is_away_is_tried_again(site: Site) -> None:
    site.bench.store.away = True
    site.start("pods")
    await site.until(lambda: site.bench.store.refusals > 3)
    assert not kept(site)
    site.bench.store.away = False
    await site.until(lambda: WIDGET_NAME in kept(site))
