"""Connections come home before the pools go: none is left open behind a database that was closed."""

from __future__ import annotations

import asyncio

import sqlalchemy as sa

from syncd.store.engine import Engine
from tests.contract.mirror_case import Place


async def test_closing_waits_for_a_connection_in_use(place: Place) -> None:
    engine = Engine(place.url, place.schema)
    async with engine.reading() as connection:
        closing = asyncio.create_task(engine.close())
        await asyncio.sleep(0.01)
        assert not closing.done()
        assert (await connection.execute(sa.text("SELECT 1"))).scalar_one() == 1
    await closing


async def test_a_task_that_is_cancelled_twice_leaves_none(place: Place) -> None:
    engine = Engine(place.url, place.schema)
    holds = asyncio.Event()

    async def hold() -> None:
        async with engine.reading() as connection:
            await connection.execute(sa.text("SELECT 1"))
            holds.set()
            await asyncio.Event().wait()

    for _ in range(20):
        holds.clear()
        task = asyncio.create_task(hold())
        await holds.wait()
        task.cancel()
        await asyncio.sleep(0)  # it is giving its connection back now
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await engine.close()
