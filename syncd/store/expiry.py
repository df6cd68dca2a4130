"""Takes old records of changes away, oldest first, in small transactions under the lease.

Of an object whose versions are kept, the last one from before stays, so that every moment that is still kept
can be had. What was taken is noted in the transaction that takes it: a cursor that fell behind is told.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from syncd.store import feed
from syncd.store.engine import Engine
from syncd.store.lease import Lease
from syncd.store.schema import changes, purges


async def purge_changes(engine: Engine, lease: Lease, before: datetime, rows: int, batch: int) -> int:
    """Removes the records from before a moment, and those past so many; how many.

    Args:
        batch: records that are looked at in a transaction.

    Raises:
        FenceLost, StoreUnavailable: as every write.
    """
    async with engine.reading() as connection:
        order = sa.select(changes.c.sequence).order_by(changes.c.sequence.desc())
        surplus = (await connection.execute(order.offset(rows).limit(1))).scalar_one_or_none() or 0
    doomed = _doomed(changes, before, surplus)
    after, total = 0, 0
    while True:
        async with engine.writing() as connection:
            await lease.hold(connection)
            query = (
                sa.select(
                    changes.c.sequence,
                    feed.transaction(changes),
                    changes.c.committed_at,
                    doomed.label("doomed"),
                    sa.and_(doomed, _free(before, surplus)).label("free"),
                )
                .where(changes.c.sequence > after)
                .order_by(changes.c.sequence)
                .limit(batch)
            )
            found = (await connection.execute(query)).all()
            gone = [one for one in found if one.free]
            if gone:
                until = max(before, *(one.committed_at for one in found if one.doomed))
                await _take(connection, gone, until, lease.now())
        total += len(gone)
        if len(found) < batch or not any(one.doomed for one in found):
            return total
        after = found[-1].sequence


def _doomed(table: Any, before: datetime, surplus: int) -> sa.ColumnElement[bool]:
    return sa.or_(table.c.committed_at < before, table.c.sequence <= surplus)


def _free(before: datetime, surplus: int) -> sa.ColumnElement[bool]:
    """Nobody needs it to know the object at a moment that is kept."""
    later = changes.alias("later")
    superseded = sa.exists().where(
        later.c.object_key == changes.c.object_key,
        later.c.cluster == changes.c.cluster,
        later.c.api_group == changes.c.api_group,
        later.c.resource == changes.c.resource,
        later.c.sequence > changes.c.sequence,
        _doomed(later, before, surplus),
    )
    return sa.or_(changes.c.object.is_(None), changes.c.change_type == "deleted", superseded)


async def _take(connection: AsyncConnection, gone: list[Any], until: datetime, now: datetime) -> None:
    sequences = [one.sequence for one in gone]
    await connection.execute(sa.delete(changes).where(changes.c.sequence.in_(sequences)))
    last = max(feed.Position(one[1], one.sequence) for one in gone)
    known = await feed.purged(connection)
    if known is not None:
        last, until = max(last, known.position), max(until, known.committed_at)
    values = {
        "transaction_id": feed.bound(connection, last),
        "sequence": last.sequence,
        "committed_at": until,
        "purged_at": now,
    }
    noted = await connection.execute(sa.update(purges).where(purges.c.name == "changes").values(**values))
    if not noted.rowcount:
        await connection.execute(sa.insert(purges).values(name="changes", **values))
