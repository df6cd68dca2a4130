"""What the store's contract tests share: an open mirror, makers of values, and a look from outside."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import psycopg

from syncd.core.change import Batch, Committed, Deletion, StreamRow
from syncd.core.document import Item
from syncd.core.ports import ClusterSeen
from syncd.core.resource import Cause, Resource, State, Stream
from syncd.store.database import Database
from syncd.store.feed import BEGINNING, Position, Wanted
from syncd.store.lease import Lease
from syncd.store.store import MirrorStore

PODS = Resource("", "v1", "pods", "Pod", namespaced=True)
SECRETS = Resource("", "v1", "secrets", "Secret", namespaced=True)
STREAM = Stream("prod", PODS)
START = datetime(2026, 1, 1, tzinfo=UTC)


class Place(Protocol):
    """What is asked of `DatabasePlace`."""

    @property
    def dialect(self) -> str: ...
    @property
    def url(self) -> str: ...
    @property
    def schema(self) -> str: ...
    @property
    def application(self) -> str: ...


class Mirror:
    """A database at head with its lease taken."""

    def __init__(self, place: Place, database: Database, lease: Lease) -> None:
        self.place = place
        self.database = database
        self.lease = lease
        self.store: MirrorStore = database.store(lease)

    async def open(self, *items: Item, stream: Stream = STREAM, version: str = "100") -> StreamRow:
        """A live stream at a version with these rows."""
        row = await self.store.open(stream)
        batch = Batch(
            upserts=items, guarded=False, resource_version=version, state=State.LIVE, projection="p"
        )
        return (await self.store.commit(row, batch)).row

    async def put(self, row: StreamRow, *items: Item, **options: Any) -> Committed:
        return await self.store.commit(row, Batch(upserts=items, **options))

    async def drop(self, row: StreamRow, *deletions: Deletion, **options: Any) -> Committed:
        return await self.store.commit(row, Batch(deletes=deletions, **options))

    def look(self, query: str) -> list[tuple[Any, ...]]:
        """What another session sees, by plain SQL."""
        return look(self.place, query)

    def look_at(self, *queries: str) -> list[list[tuple[Any, ...]]]:
        """Several looks in one session."""
        return look_at(self.place, *queries)

    def versions(self) -> dict[str, str]:
        """The live table, key to version."""
        return dict(self.look("SELECT object_key, resource_version FROM syncd_objects"))


def look(place: Place, query: str) -> list[tuple[Any, ...]]:
    """A query, or a statement, in a session of its own."""
    return look_at(place, query)[0]


def look_at(place: Place, *queries: str) -> list[list[tuple[Any, ...]]]:
    """Several, in one session."""
    if place.dialect == "sqlite":
        connection = sqlite3.connect(place.url.removeprefix("sqlite:///"), isolation_level=None, timeout=10)
        try:
            return [connection.execute(query).fetchall() for query in queries]
        finally:
            connection.close()
    with psycopg.connect(place.url, options=f"-c search_path={place.schema}", autocommit=True) as session:
        cursors = [session.execute(query.encode()) for query in queries]
        return [cursor.fetchall() if cursor.description else [] for cursor in cursors]


@asynccontextmanager
async def opened(place: Place, **options: Any) -> AsyncIterator[Mirror]:
    """A migrated database under a lease, closed at the end."""
    database = Database(place.url, place.schema, **options)
    await database.migrate()
    lease = database.lease("here", os.getpid(), "test")
    try:
        await lease.acquire()
        mirror = Mirror(place, database, lease)
        await mirror.store.see_cluster(ClusterSeen("prod", "uid-of-prod", "https://prod", "v1.36.2"))
        yield mirror
    finally:
        await lease.close()
        await database.close()


async def settled(mirror: Mirror) -> Position:
    """The last change, once it can be read: a transaction of anybody on the server holds the order back."""
    async with asyncio.timeout(30):
        while True:
            page = await mirror.database.changes(BEGINNING, Wanted(), limit=1)
            if not page.settling and page.upto != BEGINNING:
                break
            await asyncio.sleep(0.01)
    return await mirror.database.newest_change()


def item(
    key: str, version: int | str, uid: str = "u", document: str = '{"kind":"Pod"}', **fields: Any
) -> Item:
    """An object of this key and version."""
    namespace, _, name = key.rpartition("/")
    values: dict[str, Any] = {
        "kind": "Pod",
        "api_version": "v1",
        "generation": 1,
        "creation_timestamp": "2026-01-01T00:00:00Z",
        "deletion_timestamp": None,
        "owner_uid": None,
        "labels": '{"app": "web"}',
        "annotations": None,
    }
    return Item(
        key=key,
        namespace=namespace,
        name=name,
        uid=uid,
        resource_version=str(version),
        document=document,
        **(values | fields),
    )


def gone(
    key: str, version: int | str, uid: str = "u", cause: Cause = Cause.DELETED, *, seen: bool = True
) -> Deletion:
    """A deletion; `seen` on the watch, so that it brings the last content."""
    last = item(key, version, uid, '{"kind":"Pod","last":true}') if seen else None
    return Deletion(key, uid, str(version), cause, last)


class Ticking:
    """A clock that a test moves."""

    def __init__(self, *, now: datetime | None = None) -> None:
        self.moment = now or datetime.now(UTC)

    def __call__(self) -> datetime:
        return self.moment

    def pass_by(self, span: timedelta) -> None:
        self.moment += span


def keys(rows: Sequence[Any]) -> list[str]:
    return [row.key for row in rows]
