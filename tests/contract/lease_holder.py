"""A daemon in miniature, run as a process of its own so that it can be killed or stopped: takes the lease,
says so, and at each line of its input commits one row and renews.
"""

from __future__ import annotations

import asyncio
import os
import sys

from syncd.core.change import Batch
from syncd.core.errors import FenceLost, LeaseHeld
from syncd.store.database import Database
from tests.contract.mirror_case import STREAM, item


async def main(url: str, schema: str) -> None:
    database = Database(url, schema)
    lease = database.lease("here", os.getpid(), "test")
    try:
        await lease.acquire()
        store = database.store(lease)
        row = await store.open(STREAM)
        print("ready", flush=True)
        number = 1000
        while await asyncio.to_thread(sys.stdin.readline):
            number += 1
            batch = Batch(upserts=[item("a/holder", number)], resource_version=str(number))
            try:
                row = (await store.commit(row, batch)).row
                await lease.heartbeat()
            except FenceLost:
                print("fenced", flush=True)
            else:
                print("committed", flush=True)
    except LeaseHeld as error:
        print(f"refused {error}", flush=True)
    finally:
        await lease.close()
        await database.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
