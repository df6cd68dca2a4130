"""Connections come home before the pools go: none is left open behind a database that was closed. And on
PostgreSQL the sessions for single statements: which is given, and which is given again.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import sqlalchemy as sa

from syncd.core.errors import StoreUnavailable
from syncd.store.engine import POOL_SIZE, Engine
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


async def test_what_comes_back_to_a_pool_that_was_thrown_away_is_closed(place: Place) -> None:
    engine = Engine(place.url, place.schema)
    async with engine.reading() as busy:
        await busy.execute(sa.text("SELECT 1"))
        with pytest.raises(StoreUnavailable):
            async with engine.reading():
                raise OSError("the network is gone")
        assert (await busy.execute(sa.text("SELECT 1"))).scalar_one() == 1
    gc.collect()  # what is left open is told when it is collected
    await engine.close()


@pytest.fixture
async def engine(postgres_place: Place) -> AsyncIterator[Engine]:
    engine = Engine(postgres_place.url, postgres_place.schema)
    yield engine
    await engine.close()


async def session(raw: Any) -> int:
    """Which of the server's processes it is."""
    cursor = await raw.execute("SELECT pg_backend_pid()")
    (found,) = await cursor.fetchone()
    return int(found)


@pytest.mark.postgres
async def test_the_session_used_last_is_used_next(engine: Engine) -> None:
    async with engine.autocommit() as first, engine.autocommit() as second:
        pids = [await session(first), await session(second)]
    # the inner one came back first
    for _ in range(3):
        async with engine.autocommit() as raw:
            assert await session(raw) == pids[0]
    assert pids[0] != pids[1]


@pytest.mark.postgres
async def test_there_are_so_many_sessions_and_no_more(engine: Engine) -> None:
    async with AsyncExitStack() as stack:
        found = {
            await session(await stack.enter_async_context(engine.autocommit())) for _ in range(POOL_SIZE)
        }
        assert len(found) == POOL_SIZE
        waiting = asyncio.create_task(engine.autocommit().__aenter__())
        await asyncio.sleep(0.01)
        assert not waiting.done()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


@pytest.mark.postgres
async def test_a_session_is_not_used_again_after_an_error(engine: Engine) -> None:
    async with engine.autocommit() as raw:
        before = await session(raw)
    with pytest.raises(StoreUnavailable):
        async with engine.autocommit() as raw:
            await raw.execute("SELECT 1 / 0")
    async with engine.autocommit() as raw:
        assert await session(raw) != before


@pytest.mark.postgres
async def test_a_lost_session_makes_the_idle_ones_suspect(engine: Engine) -> None:
    async with engine.autocommit() as first, engine.autocommit() as second:
        pids = {await session(first), await session(second)}
    async with engine.autocommit() as busy:
        pids.add(await session(busy))
        with pytest.raises(StoreUnavailable):
            async with engine.autocommit() as raw:
                await raw.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        assert await session(busy) in pids, "what is in use is left alone"
    async with engine.autocommit() as first, engine.autocommit() as second:
        assert not {await session(first), await session(second)} & pids


@pytest.mark.postgres
async def test_a_session_whose_user_is_cancelled_is_closed(engine: Engine) -> None:
    holds = asyncio.Event()

    async def hold() -> None:
        async with engine.autocommit():
            holds.set()
            await asyncio.Event().wait()

    for _ in range(5):
        holds.clear()
        task = asyncio.create_task(hold())
        await holds.wait()
        task.cancel()
        await asyncio.sleep(0)  # it is closing its session now
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    async with engine.autocommit() as raw:
        assert await session(raw)


@pytest.mark.postgres
async def test_a_session_that_is_made_for_somebody_who_left_is_closed(postgres_place: Place) -> None:
    for steps in range(60):  # cancelled at each step of its making
        engine = Engine(postgres_place.url, postgres_place.schema)

        async def use(engine: Engine = engine) -> None:
            async with engine.autocommit() as raw:
                await raw.execute("SELECT 1")

        task = asyncio.create_task(use())
        for _ in range(steps):
            await asyncio.sleep(0.0002)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await engine.close()
    gc.collect()  # what is left open is told when it is collected


@pytest.mark.postgres
async def test_closing_waits_for_a_session_in_use(engine: Engine) -> None:
    async with engine.autocommit() as raw:
        closing = asyncio.create_task(engine.close())
        await asyncio.sleep(0.01)
        assert not closing.done()
        assert await session(raw)
    await closing
