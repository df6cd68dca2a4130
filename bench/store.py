"""How fast the store is: a first sync, a merge of what is there already, and one event's commit.

Run it as `python bench/store.py sqlite:///bench.db` or with a postgresql:// URL; the schema `syncd_bench`
is made there and dropped. Nothing is asserted: it prints.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator, Sequence

import sqlalchemy as sa

from syncd.core.change import Batch, KeyRange, StreamRow
from syncd.core.document import Item
from syncd.core.resource import Resource, State, Stream
from syncd.store.database import Database
from syncd.store.store import MirrorStore

PODS = 20_000
PAGE = 500
SCHEMA = "syncd_bench"


def pods(version: int) -> list[Item]:
    """Pods of about 4 KB, which is what is left of 8 KB without managedFields."""
    env = [{"name": f"VARIABLE_{n}", "value": f"a value of some length, number {n}"} for n in range(45)]
    found = []
    for n in range(PODS):
        labels = json.dumps({"app": f"app-{n % 200}", "tier": "backend", "pod": f"pod-{n}"})
        document = {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {"name": f"pod-{n:06}", "uid": f"uid-{n}", "resourceVersion": str(version + n)},
            "spec": {"containers": [{"name": "main", "image": f"image:{n}", "env": env}]},
        }
        found.append(
            Item(
                key=f"ns-{n // 1000:03}/pod-{n:06}",
                namespace=f"ns-{n // 1000:03}",
                name=f"pod-{n:06}",
                uid=f"uid-{n}",
                resource_version=str(version + n),
                kind="Pod",
                api_version="v1",
                generation=1,
                creation_timestamp="2026-01-01T00:00:00Z",
                deletion_timestamp=None,
                owner_uid=f"owner-{n % 500}",
                labels=labels,
                annotations=None,
                document=json.dumps(document, separators=(",", ":")),
            )
        )
    return found


def pages(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), PAGE):
        yield items[start : start + PAGE]


async def write(
    store: MirrorStore, row: StreamRow, items: Sequence[Item], *, guarded: bool, fresh: bool = False
) -> StreamRow:
    started = time.perf_counter()
    for page in pages(items):
        row = (await store.commit(row, Batch(upserts=page, guarded=guarded, fresh=fresh))).row
    seconds = time.perf_counter() - started
    name = f"guarded={guarded}, fresh={fresh}"
    print(f"{len(items):>6} upserts, {name:<28} {seconds:6.2f} s  {len(items) / seconds:8.0f}/s")
    return row


async def diff(store: MirrorStore, row: StreamRow, items: Sequence[Item]) -> None:
    started = time.perf_counter()
    after = None
    for page in pages(items):
        found = await store.rows(row, KeyRange(after, page[-1].key))
        assert len(found) == len(page)
        after = page[-1].key
    seconds = time.perf_counter() - started
    print(
        f"{len(items):>6} rows compared, unchanged            {seconds:6.2f} s  {len(items) / seconds:8.0f}/s"
    )


async def latency(store: MirrorStore, row: StreamRow, items: Sequence[Item]) -> None:
    taken, spent = [], time.process_time()
    for number, item in enumerate(items[:1000]):
        started = time.perf_counter()
        batch = Batch(upserts=[item], resource_version=str(10_000_000 + number))
        row = (await store.commit(row, batch)).row
        taken.append((time.perf_counter() - started) * 1000)
    spent = time.process_time() - spent
    cuts = statistics.quantiles(taken, n=100)
    print(
        f"  1000 commits of one row: median {cuts[49]:.2f} ms, p95 {cuts[94]:.2f} ms, p99 {cuts[98]:.2f} ms,"
        f" {spent / len(taken) * 1000:.2f} ms of CPU each"
    )


async def main(url: str) -> None:
    database = Database(url, SCHEMA)
    await database.migrate()
    lease = database.lease("bench", os.getpid(), "0")
    await lease.acquire()
    store = database.store(lease)
    row = await store.open(Stream("bench", Resource("", "v1", "pods", "Pod", True)))
    row = (await store.commit(row, Batch(state=State.SYNCING))).row
    try:
        row = await write(store, row, pods(1_000_000), guarded=False, fresh=True)
        await diff(store, row, pods(1_000_000))
        row = await write(store, row, pods(1_000_000), guarded=True)
        row = await write(store, row, pods(2_000_000), guarded=True)
        row = await write(store, row, pods(3_000_000), guarded=False)
        started = time.perf_counter()
        await store.newest(row)
        print(
            f"       newest row                            {(time.perf_counter() - started) * 1000:6.2f} ms"
        )
        await latency(store, row, pods(4_000_000))
    finally:
        await lease.release()
        await database.migrate("base")
        if not database.engine.is_sqlite:
            async with database.engine.writing() as connection:
                await connection.execute(sa.text(f'DROP SCHEMA "{SCHEMA}" CASCADE'))
        await database.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
