"""What the API does not bound and an index does: no object can keep itself from the mirror."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator

import pytest

from syncd.core.document import Transform
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
