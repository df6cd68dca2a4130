"""What the tests of the views share: a database with given objects and the views over them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec
import psycopg

from syncd.app.viewing import show
from syncd.core.document import Item, Transform
from syncd.core.resource import Resource, Stream
from syncd.views.view import View
from tests.contract.mirror_case import Mirror, Place, opened

Row = dict[str, Any]


def resource_of(view: View, document: Mapping[str, Any]) -> Resource:
    """The resource that a view's object is of."""
    version = str(document["apiVersion"]).rpartition("/")[2]
    return Resource(view.groups[0], version, view.resource, view.kind, namespaced=view.namespaced)


@asynccontextmanager
async def mirrored(place: Place, objects: Sequence[tuple[View, Mapping[str, Any]]]) -> AsyncIterator[Mirror]:
    """A mirror with these objects, written as a stream writes them, and the views."""
    async with opened(place) as mirror:
        assert not [outcome for outcome in await show(mirror.database) if outcome.note]
        items: dict[Resource, list[Item]] = {}
        for view, document in objects:
            resource = resource_of(view, document)
            raw = msgspec.Raw(msgspec.json.encode(document))
            items.setdefault(resource, []).append(Transform(resource)(raw))
        for resource, listed in items.items():
            await mirror.open(*listed, stream=Stream("prod", resource))
        yield mirror


def rows(place: Place, query: str) -> list[Row]:
    """A query's rows in a session of its own, each by column name, in the values of Python that are the same
    on both dialects: times as aware datetimes need a type, so they come as SQLite keeps them.
    """
    if place.dialect == "sqlite":
        connection = sqlite3.connect(place.url.removeprefix("sqlite:///"), timeout=10)
        try:
            cursor = connection.execute(query)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor]
        finally:
            connection.close()
    options = f"-c search_path={place.schema} -c timezone=Asia/Tokyo"
    with psycopg.connect(place.url, options=options, autocommit=True) as session:
        found = session.execute(query.encode())
        names = [column.name for column in found.description or ()]
        return [{name: as_on_sqlite(value) for name, value in zip(names, row, strict=True)} for row in found]


def as_on_sqlite(value: Any) -> Any:
    """PostgreSQL's value as SQLite keeps it."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")
    return value


def plain(view: View, row: Row) -> Row:
    """A view's row with JSON as values, whatever the dialect keeps."""
    kinds = {column.name: column.type for column in view.columns}
    return {
        name: json.loads(value) if isinstance(value, str) and kinds[name] == "jsonb" else value
        for name, value in row.items()
    }
