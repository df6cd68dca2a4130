"""An object whose fields are of other types than its kind says: the views over it answer all the same."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

from syncd.views.catalogue import everything
from syncd.views.expression import Type
from syncd.views.kinds import CATALOGUE
from syncd.views.rendering import kubectl
from syncd.views.view import Column, View
from tests.contract.mirror_case import Place
from tests.contract.views.case import Row, mirrored, rows
from tests.contract.views.test_kinds import CASES, named

TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}\Z")

OTHER: tuple[Any, ...] = ("soon", 1.5, True, ["x"], {"k": "v"}, [[{"k": 1}]], 10**30, "2026-02-30T00:00:00Z")
KEPT = ("kind", "apiVersion", "metadata")


def places(document: Any, *around: str | int) -> Iterator[tuple[str | int, ...]]:
    """Every place in a document, from outside in."""
    entries = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in entries:
        if around or key not in KEPT:
            yield (*around, key)
        if isinstance(value, (dict, list)) and (around or key not in KEPT):
            yield from places(value, *around, key)


def spoiled(document: dict[str, Any], place: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    """The document with another value at a place."""
    changed: Any = copy.deepcopy(document)
    inner = changed
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return dict(changed)


def objects() -> list[tuple[View, dict[str, Any]]]:
    """Of every case one for each place in it, each with the next of the other values."""
    found = []
    for view in CATALOGUE:
        number = 0
        for case in CASES[named(view)]:
            for place in places(case["object"]):
                number += 1
                document = spoiled(case["object"], place, OTHER[number % len(OTHER)])
                metadata = {
                    "name": f"spoiled-{number:04}",
                    "uid": f"{named(view)}-{number}",
                    "resourceVersion": str(number),
                    "creationTimestamp": "2026-01-02T03:04:05Z",
                    **({"namespace": "shop"} if view.namespaced else {}),
                    **{
                        key: value
                        for key, value in case["object"].get("metadata", {}).items()
                        if key != "name"
                    },
                }
                found.append((view, {**document, "kind": view.kind, "metadata": metadata}))
    return found


async def test_views_answer_over_what_is_of_another_type(place: Place) -> None:
    spoilt = objects()
    async with mirrored(place, spoilt):
        for relation in everything(place.dialect).views:
            rows(place, f"SELECT * FROM {relation.name}")
        for view in CATALOGUE:
            rows(place, kubectl(view, place.dialect))
            found = rows(place, f"SELECT * FROM {view.long_name}")
            assert len(found) == sum(1 for each, _ in spoilt if each is view)
            for row in found:
                assert {
                    column.name: row[column.name] for column in view.columns if not fits(column, row)
                } == {}


def fits(column: Column, row: Row) -> bool:
    """Whether a value is of its column's type, or NULL. Of text the dialects make what they make."""
    value = row[column.name]
    match column.type:
        case Type.INTEGER:
            return value is None or isinstance(value, int)
        case Type.NUMBER:
            return value is None or isinstance(value, (int, float))
        case Type.BOOLEAN:
            return value in (None, 0, 1)
        case Type.TIME:
            return value is None or TIME.match(value) is not None
        case _:
            return True
