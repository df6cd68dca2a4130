"""The door to this room: one database, from its URL to the store that a daemon writes through."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta

from syncd.core.definition import SelectedType
from syncd.core.relation import Relations
from syncd.store import (
    definition,
    feed,
    inspection,
    migrate,
    past,
    query,
    reader,
    renumbering,
    request,
    retention,
    steampipe,
    views,
)
from syncd.store.engine import Engine
from syncd.store.feed import Page, Position, Purged, Waiting, Wanted
from syncd.store.inspection import Inspection
from syncd.store.lease import LAPSE, Holder, Lease, database_now
from syncd.store.merge import BulkWriter
from syncd.store.past import Named, Step
from syncd.store.postgresql import PostgresqlWriter
from syncd.store.request import Reply
from syncd.store.retention import Kept
from syncd.store.row import read_clusters
from syncd.store.sqlite import FUNCTIONS, TEMPORARY, SqliteWriter
from syncd.store.status import Status, read_status
from syncd.store.store import MirrorStore


class Database:
    """One database; nothing is connected before the first call.

    Every method raises StoreUnavailable where the database is away.

    Args:
        url: `sqlite:///path` or `postgresql://…`.
        schema: PostgreSQL: where everything lives.
        clock: this machine's time, aware UTC.

    Raises:
        ConfigError: the URL or the schema's name cannot be used.
    """

    def __init__(
        self, url: str, schema: str = "public", *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self.engine = Engine(url, schema, prepare=TEMPORARY, functions=FUNCTIONS)
        self._clock = clock

    async def migrate(self, revision: str = "head") -> None:
        """Brings the schema to `revision`; safe beside another. Raises SchemaMismatch where it is ahead."""
        await migrate.migrate(self.engine, revision)

    async def current(self) -> str | None:
        """The schema's revision, None where there is none."""
        return await migrate.current(self.engine)

    async def check(self) -> None:
        """Raises SchemaMismatch, saying what to run, where the schema is not the one needed."""
        await migrate.check(self.engine)

    def lease(self, host: str, pid: int, version: str, *, timeout: float = LAPSE) -> Lease:
        """A claim on the database, not yet acquired."""
        return Lease(self.engine, Holder(host, pid, version), timeout=timeout, clock=self._clock)

    def store(self, lease: Lease) -> MirrorStore:
        """The store, and the registry, of a lease's holder."""
        writer: BulkWriter = SqliteWriter() if self.engine.is_sqlite else PostgresqlWriter()
        return MirrorStore(self.engine, lease, writer)

    async def purge(self, lease: Lease, *, keep: timedelta, changes: Kept | None = None) -> int:
        """Removes what is past its retention (`keep` for tombstones); how many rows."""
        return await retention.purge(self.engine, lease, keep=keep, changes=changes)

    async def reorder_changes(self, lease: Lease) -> bool:
        """PostgreSQL: makes the order of changes one of this server's, where they were restored from another;
        whether it had to.
        """
        return await renumbering.renumber(self.engine, lease)

    async def status(self) -> Status:
        """What the tables say."""
        async with self.engine.reading() as connection:
            return await read_status(connection, self.engine)

    async def inspect(self) -> Inspection:
        """How it is before anything is written: version, privileges, schema, room, lease."""
        return await inspection.inspect(self.engine)

    async def clusters(self) -> list[str]:
        """The names of the clusters that have streams, configured or not."""
        async with self.engine.reading() as connection:
            return await read_clusters(connection)

    async def changes(self, after: Position, wanted: Wanted, *, limit: int = 500) -> Page:
        """The next changes after a position, in the order of their commits."""
        async with self.engine.reading() as connection:
            return await feed.read(connection, after, wanted, limit=limit)

    async def steps(self, named: Named, since: datetime) -> list[Step]:
        """The changes of one object, or of all so named, each with the version before it."""
        async with self.engine.reading() as connection:
            return await past.steps(connection, named, since)

    async def newest_change(self) -> Position:
        """Of the last change that can be read."""
        async with self.engine.reading() as connection:
            return await feed.newest(connection)

    async def cursor(self, name: str) -> tuple[Position | None, Purged | None]:
        """Where a reader stands, None where the name is new; and what retention has taken."""
        async with self.engine.reading() as connection:
            return await feed.cursor(connection, name), await feed.purged(connection)

    async def advance(self, name: str, position: Position) -> None:
        """A reader has been given everything up to here. Needs no lease."""
        async with self.engine.writing() as connection:
            await feed.advance(connection, name, position, await database_now(connection, self.engine))

    async def announce(self) -> None:
        """Wakes those who wait in `listening`, in other processes; on SQLite they look by themselves."""
        await feed.announce(self.engine)

    def listening(self) -> AbstractAsyncContextManager[Waiting]:
        """Waits for new changes; see `feed.listening`."""
        return feed.listening(self.engine)

    async def ask(self, action: str, arguments: Mapping[str, object]) -> int:
        """A request to the running daemon, its id. Needs no lease."""
        async with self.engine.writing() as connection:
            now = await database_now(connection, self.engine)
            return await request.ask(connection, action, arguments, now)

    async def reply(self, request_id: int) -> Reply | None:
        """Where a request stands, None where there is no such request."""
        async with self.engine.reading() as connection:
            return await request.reply(connection, request_id)

    async def withdraw(self, request_id: int) -> bool:
        """Takes back a request that nobody has claimed; whether it was still there."""
        async with self.engine.writing() as connection:
            return await request.withdraw(connection, request_id)

    def asking(self, text: str, seconds: float = 60.0) -> AbstractAsyncContextManager[query.Answer]:
        """The answer to a query of somebody's own, which can only read; see `query.asking`."""
        return query.asking(self.engine, text, seconds)

    async def types(self) -> list[SelectedType]:
        """The types that are selected, without documents."""
        async with self.engine.reading() as connection:
            return await definition.selected(connection)

    async def described(self, types: Sequence[SelectedType]) -> list[SelectedType]:
        """Some types, a few hundred at most, with what is kept of their definitions."""
        async with self.engine.reading() as connection:
            return await definition.described(connection, types)

    async def shown(self) -> dict[str, tuple[str, str]]:
        """Which type each view shows, and the view's digest, by its name."""
        async with self.engine.reading() as connection:
            return await definition.shown(connection)

    async def origins(self, relations: Sequence[str]) -> dict[str, dict[str, str]]:
        """Of some views, where in the document each of their columns comes from."""
        async with self.engine.reading() as connection:
            return await definition.origins(connection, relations)

    async def definitions(self) -> str:
        """PostgreSQL: another text when a CustomResourceDefinition of any cluster came, went or changed."""
        return await steampipe.definitions(self.engine)

    async def show_views(self, wanted: Relations, *, rebuild: bool = False) -> list[views.Outcome]:
        """Brings the views to what is wanted; see `views.apply`."""
        return await views.apply(self.engine, wanted, rebuild=rebuild)

    async def allow_reader(self, role: str) -> bool:
        """PostgreSQL: lets a role read the tables and views; see `reader.allow`."""
        return await reader.allow(self.engine, role)

    async def show_steampipe(self, render: steampipe.Render) -> steampipe.Shown:
        """PostgreSQL: brings the schema of Steampipe's names to what `render` says; see `steampipe.apply`."""
        return await steampipe.apply(self.engine, render)

    async def close(self) -> None:
        """Closes every connection of the pools; a lease closes its own."""
        await self.engine.close()
