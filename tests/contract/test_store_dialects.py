"""Two dialects, one meaning: the same random histories leave the same tables and tell the same figures."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from syncd.core.change import Batch, Committed, Deletion, StreamRow
from syncd.core.document import Item
from syncd.core.ports import Registry, Store
from syncd.core.resource import Cause, State, Stream
from tests.contract.mirror_case import PODS, Mirror, Place, gone, item, opened

OBJECTS = "SELECT object_key, stream_id, uid, resource_version FROM syncd_objects ORDER BY 1"
TOMBSTONES = (
    "SELECT object_key, uid, epoch, resource_version, resource_version_number, cause, stream_id"
    " FROM syncd_deleted_objects ORDER BY 1, 2, 3"
)
QUARANTINED = "SELECT object_key, stream_id, resource_version, attempts FROM syncd_quarantine ORDER BY 1"
COUNTS = "SELECT stream_id, object_count FROM syncd_streams ORDER BY 1"
COUNTED = (
    "SELECT s.stream_id, (SELECT count(*) FROM syncd_objects o WHERE o.stream_id = s.stream_id)"
    " FROM syncd_streams s ORDER BY 1"
)


def usual_batch(chance: random.Random) -> Batch:
    """What a watch brings: objects keep their uid and leave with their last content."""
    names = chance.sample([f"a/{n}" for n in range(8)], chance.randint(0, 6))
    cut = chance.randint(0, len(names))
    deleted = [gone(key, chance.randint(1, 40), cause=chance.choice(list(Cause))) for key in names[cut:]]
    upserts = [item(key, chance.choice([*range(1, 40), "opaque"])) for key in names[:cut]]
    return Batch(upserts=upserts, deletes=deleted, guarded=chance.random() < 0.7)


def some_batch(chance: random.Random) -> Batch:
    """Any batch that a reflector may hand over, and some that it should not."""
    if chance.random() < 0.5:
        return usual_batch(chance)
    names = chance.sample([f"a/{n}" for n in range(8)], chance.randint(1, 6))
    upserts: list[Item] = []
    deletes: list[Deletion] = []
    for key in names:
        version: int | str = chance.choice([*range(1, 40), "opaque", "odd"])
        uid = chance.choice("uvw")
        kind = chance.random()
        if kind < 0.6:
            upserts.append(item(key, version, uid, generation=2**63 if chance.random() < 0.1 else 1))
        if kind > 0.5:
            cause = chance.choice(list(Cause))
            deletes.append(gone(key, version, chance.choice("uvw"), cause, seen=chance.random() < 0.5))
    filler = [item(f"b/{n:03}", chance.randint(1, 40)) for n in range(60)] if chance.random() < 0.2 else []
    return Batch(
        upserts=[*upserts, *filler],
        deletes=deletes,
        guarded=chance.random() < 0.7,
        fresh=not deletes and chance.random() < 0.1,
        reconciliation_id=chance.choice([None, None, 1]),
    )


async def step(mirror: Mirror, row: StreamRow, batch: Batch) -> Committed:
    done = await mirror.store.commit(row, batch)
    return replace(done, row=replace(done.row, holder="", verified_at=None))


def tables(mirror: Mirror) -> list[Any]:
    found = mirror.look_at(OBJECTS, TOMBSTONES, QUARANTINED, COUNTS, COUNTED)
    assert found[3] == found[4]
    return found


@pytest.mark.postgres
@pytest.mark.parametrize("seed", range(4))
async def test_random_histories_mean_the_same(sqlite_place: Place, postgres_place: Place, seed: int) -> None:
    chance = random.Random(seed)
    async with opened(sqlite_place) as one, opened(postgres_place) as two:
        streams = (Stream("prod", PODS), Stream("prod", PODS, "a"))
        for _ in range(40):
            stream = chance.choice(streams)
            batch = some_batch(chance)
            rows = [await mirror.store.open(stream) for mirror in (one, two)]
            assert await step(one, rows[0], batch) == await step(two, rows[1], batch)
            assert tables(one) == tables(two), batch
            if chance.random() < 0.05:
                for mirror, row in zip((one, two), rows, strict=True):
                    await mirror.store.begin_epoch(row, "odd")


@pytest.mark.postgres
@pytest.mark.parametrize("seed", range(4))
async def test_one_statement_means_what_several_do(
    sqlite_place: Place, postgres_place: Place, seed: int
) -> None:
    chance = random.Random(seed)
    async with opened(sqlite_place) as one, opened(postgres_place) as two:
        for _ in range(60):
            batch = usual_batch(chance)
            rows = [await mirror.store.open(Stream("prod", PODS)) for mirror in (one, two)]
            assert await step(one, rows[0], batch) == await step(two, rows[1], batch)
            assert tables(one) == tables(two), batch


async def test_it_is_what_the_engine_asks_for(sqlite_place: Place) -> None:
    async with opened(sqlite_place) as mirror:
        store: Store = mirror.store
        registry: Registry = mirror.store
        row = await store.open(Stream("prod", PODS))
        assert [known.stream_id for known in await registry.streams("prod")] == [row.stream_id]
        assert row.state is State.PENDING
