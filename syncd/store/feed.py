"""The records of changes read in the order in which they were committed, and the cursors of those who read.

On PostgreSQL a sequence is taken before its commit, so a reader by the sequence alone would miss what commits
late. Read is what no transaction under way can come before: what those wrote whose id is below every one that
still runs, in the order of (transaction, sequence). On SQLite one writes at a time, and the transaction is
always 0.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

import psycopg
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from syncd.store.engine import Engine, translated
from syncd.store.schema import changes, cursors, purges

CHANNEL = "syncd_changes"
"""PostgreSQL: where NOTIFY says that there is something new; the payload is the schema."""

_POLL = 0.25  # seconds between two looks at a SQLite file
_SETTLING = (0.005, 0.2)  # seconds: what is committed waits for older transactions, mostly for milliseconds


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in the order of changes; the first is before all of them."""

    transaction_id: int = 0
    sequence: int = 0

    def __str__(self) -> str:
        return f"{self.transaction_id}-{self.sequence}"


BEGINNING = Position()


@dataclass(frozen=True, slots=True)
class ChangeRecord:
    """A row of syncd_changes."""

    sequence: int
    cluster: str
    api_group: str
    resource: str
    object_key: str
    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str
    change_type: str
    source: str
    initial: bool
    cause: str | None
    committed_at: datetime
    changed_paths: list[str] | None
    object: Any
    transaction_id: int

    @property
    def position(self) -> Position:
        return Position(self.transaction_id, self.sequence)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which changes are asked for; () asks for all. `kinds`: as `Pod`, `pods` or `deployments.apps`."""

    clusters: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """Some changes in order.

    Attributes:
        upto: everything wanted up to here is in this page or one before.
        more: whether there is more to read at once.
        settling: whether something is committed that cannot be read yet.
    """

    changes: Sequence[ChangeRecord]
    upto: Position
    more: bool
    settling: bool


@dataclass(frozen=True, slots=True)
class Purged:
    """What retention has taken: the last change, and from before when there may be nothing left."""

    position: Position
    committed_at: datetime


@dataclass(frozen=True, slots=True)
class CursorStatus:
    """A reader of the feed; `behind` counts the changes of any kind past it, up to MOST_BEHIND."""

    name: str
    position: str
    updated_at: datetime
    behind: int


MOST_BEHIND = 10_000
EVERYTHING = Wanted()


async def read(
    connection: AsyncConnection, after: Position, wanted: Wanted = EVERYTHING, *, limit: int = 500
) -> Page:
    """The next changes after a position."""
    sqlite = connection.dialect.name == "sqlite"
    newest, settling = await _horizon(connection)
    if newest <= after:
        return Page((), after, False, settling)
    query = (
        sa.select(*columns())
        .where(_place(connection, ">", "after"), _place(connection, "<=", "upto"), *_wanted(wanted))
        .order_by(*([] if sqlite else [changes.c.transaction_id]), changes.c.sequence)
        .limit(limit)
    )
    values: dict[str, Any] = {"after_sequence": after.sequence, "upto_sequence": newest.sequence}
    if not sqlite:
        values["after_transaction"] = bound(connection, after)
        values["upto_transaction"] = bound(connection, newest)
    found = [ChangeRecord(**one) for one in (await connection.execute(query, values)).mappings()]
    full = len(found) == limit
    return Page(found, found[-1].position if full else newest, full, settling)


async def newest(connection: AsyncConnection) -> Position:
    """Of the last change that can be read."""
    return (await _horizon(connection))[0]


async def cursor(connection: AsyncConnection, name: str) -> Position | None:
    """Where a reader stands, None where the name is new."""
    query = sa.select(transaction(cursors), cursors.c.sequence).where(cursors.c.name == name)
    found = (await connection.execute(query)).first()
    return Position(*found) if found is not None else None


async def advance(connection: AsyncConnection, name: str, position: Position, now: datetime) -> None:
    """A reader has been given everything up to here."""
    values = {
        "transaction_id": bound(connection, position),
        "sequence": position.sequence,
        "updated_at": now,
    }
    moved = await connection.execute(sa.update(cursors).where(cursors.c.name == name).values(**values))
    if not moved.rowcount:
        await connection.execute(sa.insert(cursors).values(name=name, **values))


async def readers(connection: AsyncConnection) -> list[CursorStatus]:
    """Every cursor, and how far it is behind."""
    query = sa.select(cursors.c.name, transaction(cursors), cursors.c.sequence, cursors.c.updated_at)
    found = []
    for name, number, sequence, updated_at in await connection.execute(query.order_by(cursors.c.name)):
        position = Position(number, sequence)
        above = sa.select(changes.c.sequence).where(_place(connection, ">", "after")).limit(MOST_BEHIND)
        values: dict[str, Any] = {"after_sequence": sequence}
        if connection.dialect.name != "sqlite":
            values["after_transaction"] = bound(connection, position)
        count = sa.select(sa.func.count()).select_from(above.subquery())
        behind = (await connection.execute(count, values)).scalar_one()
        found.append(CursorStatus(name, str(position), updated_at, behind))
    return found


async def purged(connection: AsyncConnection) -> Purged | None:
    """What is gone, None where nothing is."""
    query = sa.select(transaction(purges), purges.c.sequence, purges.c.committed_at).where(
        purges.c.name == "changes"
    )
    found = (await connection.execute(query)).first()
    return Purged(Position(found[0], found[1]), found[2]) if found is not None else None


async def announce(engine: Engine) -> None:
    """Wakes who listens. In a transaction of its own: NOTIFY lets one transaction commit at a time."""
    if not engine.is_sqlite:
        async with engine.autocommit() as raw:
            await raw.execute("SELECT pg_notify(%s, %s)", (CHANNEL, engine.schema))


Waiting = Callable[[float], Awaitable[None]]


@asynccontextmanager
async def listening(engine: Engine) -> AsyncIterator[Waiting]:
    """Gives what waits so many seconds, or until something may be new. It listens before it is given, so that
    what is read afterwards and what wakes leave no gap.
    """
    if engine.is_sqlite:

        async def pause(seconds: float) -> None:
            await asyncio.sleep(min(seconds, _POLL))

        yield pause
        return
    async with translated():
        own = engine.dedicated()
        try:
            async with own.connect() as connection:
                await connection.execution_options(isolation_level="AUTOCOMMIT")
                raw: Any = (await connection.get_raw_connection()).driver_connection
                await raw.execute(f"LISTEN {CHANNEL}")

                async def wait(seconds: float) -> None:
                    await _notified(raw, engine.schema, seconds)

                yield wait
        finally:
            await own.dispose()


async def settle(tries: int) -> None:
    """Waits for the transactions that hold the order back; longer the more often it was in vain."""
    least, most = _SETTLING
    await asyncio.sleep(min(most, least * 2 ** min(tries, 10)))


async def _notified(raw: psycopg.AsyncConnection[Any], schema: str, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while (left := until - loop.time()) > 0:
        async for notification in raw.notifies(timeout=left, stop_after=1):
            if notification.payload == schema:
                return


def transaction(table: sa.Table) -> sa.ColumnElement[int]:
    return sa.cast(sa.cast(table.c.transaction_id, sa.Text), sa.BigInteger)


def columns() -> list[Any]:
    """Of syncd_changes, as ChangeRecord names them."""
    return [*_COLUMNS, _TRANSACTION]


_COLUMNS = [changes.c[field.name] for field in fields(ChangeRecord) if field.name != "transaction_id"]
_TRANSACTION = transaction(changes).label("transaction_id")


def bound(connection: AsyncConnection, position: Position) -> Any:
    sqlite = connection.dialect.name == "sqlite"
    return position.transaction_id if sqlite else str(position.transaction_id)


def _place(connection: AsyncConnection, relation: str, name: str) -> sa.TextClause:
    if connection.dialect.name == "sqlite":
        return sa.text(f"sequence {relation} :{name}_sequence")
    return sa.text(
        f"(transaction_id, sequence) {relation} (CAST(:{name}_transaction AS xid8), :{name}_sequence)"
    )


async def _horizon(connection: AsyncConnection) -> tuple[Position, bool]:
    """Of the last change that can be read, and whether there are later ones."""
    last = sa.select(_TRANSACTION, changes.c.sequence).limit(1)
    if connection.dialect.name == "sqlite":
        found = (await connection.execute(last.order_by(changes.c.sequence.desc()))).first()
        return (Position(*found) if found is not None else BEGINNING), False
    settled = sa.text("transaction_id < pg_snapshot_xmin(pg_current_snapshot())")
    order = (changes.c.transaction_id.desc(), changes.c.sequence.desc())
    found = (await connection.execute(last.where(settled).order_by(*order))).first()
    unsettled = sa.text("transaction_id >= pg_snapshot_xmin(pg_current_snapshot())")
    later = (await connection.execute(sa.select(sa.exists(last.where(unsettled))))).scalar_one()
    return (Position(*found) if found is not None else BEGINNING), later


def _wanted(wanted: Wanted) -> list[sa.ColumnElement[bool]]:
    conditions: list[sa.ColumnElement[bool]] = []
    if wanted.clusters:
        conditions.append(changes.c.cluster.in_(wanted.clusters))
    if wanted.namespaces:
        conditions.append(changes.c.namespace.in_(wanted.namespaces))
    if wanted.since is not None:
        conditions.append(changes.c.committed_at >= wanted.since)
    if wanted.kinds:
        conditions.append(sa.or_(*map(of_kind, wanted.kinds)))
    return conditions


def of_kind(kind: str) -> sa.ColumnElement[bool]:
    """Whether a change is of a type as a user spells it."""
    name, _, group = kind.lower().partition(".")
    of_name = sa.or_(changes.c.resource == name, sa.func.lower(changes.c.kind) == name)
    return sa.and_(of_name, changes.c.api_group == group) if group else of_name
