"""What the tests of Steampipe's names share: objects, how they come into the mirror, and a reader's looks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
import yaml

from syncd.app.steampipe import make
from syncd.core.builtin import BUILT_IN
from syncd.core.definition import definition
from syncd.core.document import Transform
from syncd.core.resource import Resource, Stream
from syncd.store.database import Database
from syncd.store.steampipe import Shown
from syncd.views.steampipe.table import Table, tables
from tests.conftest import DatabasePlace
from tests.contract.mirror_case import opened

SCHEMA = "mirror"
OBJECTS = Path(__file__).parents[2] / "data" / "steampipe" / "objects.yaml"
LIVE = [table for table in tables() if table.group is not None]
Session = psycopg.Connection[tuple[Any, ...]]


def documents() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(OBJECTS.read_text())
    return found


def resource(document: dict[str, Any]) -> Resource:
    """Of a document; the plural of a custom one is its kind's with an s."""
    group, _, version = document["apiVersion"].rpartition("/")
    kind = document["kind"]
    known = {(each.group, each.kind): each.name for each in BUILT_IN}
    plural = known.get((group, kind.lower()), f"{kind.lower()}s")
    return Resource(group, version, plural, kind, namespaced="namespace" in document["metadata"])


async def mirror(place: DatabasePlace, cluster: str, found: list[dict[str, Any]]) -> None:
    """Puts documents where the daemon puts them, by its own store."""
    by_resource: dict[Resource, list[dict[str, Any]]] = {}
    for document in found:
        by_resource.setdefault(resource(document), []).append(document)
    async with opened(place) as there:
        for each, members in by_resource.items():
            transform = Transform(each)
            items = [transform(json.dumps(document).encode()) for document in members]
            await there.open(*items, stream=Stream(cluster, each))
            if each.kind == "CustomResourceDefinition":
                kept = [
                    definition(json.dumps(document).encode()) for document in members if "spec" in document
                ]
                await there.store.keep_definitions(cluster, kept)


def bare(table: Table) -> dict[str, Any]:
    """An object of a table's kind with nothing in it."""
    version = f"{table.group}/v1" if table.group else "v1"
    metadata = {"name": f"bare-{table.name}", "uid": f"bare-{table.name}"}
    if table.columns[1].name == "namespace" and "class" not in table.name and "definition" not in table.name:
        metadata["namespace"] = "shop"
    return {"apiVersion": version, "kind": table.kind, "metadata": metadata}


async def show(place: DatabasePlace) -> Shown:
    database = Database(place.url, place.schema)
    try:
        return await make(database)
    finally:
        await database.close()


def rows(session: Session, query: str, *arguments: Any) -> list[tuple[Any, ...]]:
    return session.execute(query.encode(), arguments or None).fetchall()


def value(session: Session, query: str) -> Any:
    [(found,)] = rows(session, query)
    return found


def names(session: Session, query: str) -> set[str]:
    return {row[0] for row in rows(session, query)}
