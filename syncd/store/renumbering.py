"""PostgreSQL: records of changes that were restored into another server bear transactions of the first one,
which this one may take for transactions to come. They are numbered anew, in the order that they have.
"""

from __future__ import annotations

import sqlalchemy as sa

from syncd.store.engine import Engine
from syncd.store.lease import Lease

_FOREIGN = sa.text(
    """
SELECT EXISTS (SELECT 1 FROM syncd_changes WHERE transaction_id >= pg_snapshot_xmax(pg_current_snapshot()))
  OR EXISTS (SELECT 1 FROM syncd_cursors WHERE transaction_id >= pg_snapshot_xmax(pg_current_snapshot()))
"""
)
_PLACES = """
UPDATE {table} t SET transaction_id = '1', sequence = (
  SELECT coalesce(max(c.sequence), 0)
    + count(*) FILTER (WHERE (c.transaction_id, c.sequence) <= (t.transaction_id, t.sequence))
  FROM syncd_changes c)
"""
_CHANGES = """
UPDATE syncd_changes c SET transaction_id = '1', sequence = o.sequence
FROM (SELECT sequence AS known, (SELECT max(sequence) FROM syncd_changes)
        + row_number() OVER (ORDER BY transaction_id, sequence) AS sequence FROM syncd_changes) o
WHERE c.sequence = o.known
"""
_NEXT = """
SELECT setval(pg_get_serial_sequence('syncd_changes', 'sequence'), max(sequence)) FROM syncd_changes
HAVING max(sequence) IS NOT NULL
"""


async def renumber(engine: Engine, lease: Lease) -> bool:
    """Does it where it has to be done; whether it had to be.

    Raises:
        FenceLost, StoreUnavailable: as every write.
    """
    if engine.is_sqlite:
        return False
    async with engine.reading() as connection:
        if not (await connection.execute(_FOREIGN)).scalar_one():
            return False
    async with engine.writing() as connection:
        await lease.hold(connection)
        await connection.execute(sa.text("SET LOCAL statement_timeout = 0"))
        for table in ("syncd_cursors", "syncd_purges"):
            await connection.execute(sa.text(_PLACES.format(table=table)))
        await connection.execute(sa.text(_CHANGES))
        await connection.execute(sa.text(_NEXT))
    return True
