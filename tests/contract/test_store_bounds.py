"""What the API does not bound and an index does: no object can keep itself from the mirror."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator

import pytest

from syncd.core.document import Item, Transform
from syncd.core.history import History, Record
from syncd.core.nesting import DEEPEST
from tests.contract.mirror_case import PODS, Mirror, Place, opened

LONG = random.Random(1).randbytes(100_000).hex()  # an index compresses what it can


@pytest.fixture
async def mirror(place: Place) -> AsyncIterator[Mirror]:
    async with opened(place) as mirror:
        yield mirror


@pytest.mark.parametrize(
    "written",
    [
        {"status": {"phase": LONG}},
        {"status": {"reason": LONG}},
        {"status": {"containerStatuses": [{"state": {"waiting": {"reason": LONG}}}]}},
        {"spec": {"nodeName": LONG}},
        {"metadata": {"ownerReferences": [{"uid": LONG, "controller": True}]}},
        {"metadata": {"labels": {"a": LONG, LONG: "a"}}},
        {"metadata": {"annotations": {LONG: LONG}}},
        {"kind": LONG, "apiVersion": LONG},
    ],
    ids=["phase", "reason", "waiting", "node", "owner", "labels", "annotations", "kind"],
)
async def test_a_text_of_any_length_is_stored(mirror: Mirror, written: dict[str, dict[str, object]]) -> None:
    metadata = {"name": "x", "namespace": "a", "uid": "u", "resourceVersion": "7"}
    document = {**written, "metadata": {**metadata, **written.get("metadata", {})}}
    done = await mirror.put(await mirror.open(), Transform(PODS)(json.dumps(document).encode()))
    assert (done.inserted, done.quarantined) == (1, 0)
    [(stored,)] = mirror.look("SELECT object FROM syncd_objects")
    assert LONG in (stored if isinstance(stored, str) else json.dumps(stored))


async def test_an_object_of_any_depth_is_stored_and_its_changes_are_recorded(mirror: Mirror) -> None:
    """Neither database reads JSON of thousands of levels: what lies too deep is cut."""
    history = History(Record.VERSIONS)

    def written(version: int, depth: int) -> Item:
        spec = '{"a":' * depth + "1" + "}" * depth
        metadata = f'{{"name":"x","namespace":"a","uid":"u","resourceVersion":"{version}"}}'
        return Transform(PODS)(f'{{"metadata":{metadata},"spec":{{"a":{version},"z":{spec}}}}}'.encode())

    row = await mirror.open()
    for version, depth in ((107, 9_900), (108, DEEPEST - 2), (109, DEEPEST - 3), (110, 5_000)):
        done = await mirror.put(row, written(version, depth), resource_version=str(version), history=history)
        assert (done.inserted + done.updated, done.quarantined, done.recorded) == (1, 0, 1)
        row = done.row
    within = (
        "json_extract(object, '$.spec.a')" if mirror.place.dialect == "sqlite" else "object #> '{spec,a}'"
    )
    assert mirror.look(f"SELECT {within} FROM syncd_objects") == [(110,)]
