"""The writer when it is asked to stop: what is in flight may finish, and nothing outlives it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from syncd.core.change import StreamRow
from syncd.core.resource import State, Stream
from syncd.sync.writer import Writer
from tests.fakes.value import PODS


def writer(patience: float) -> Writer:
    environment: Any = SimpleNamespace(timing=SimpleNamespace(stop=patience))
    return Writer(environment, Stream("c", PODS), StreamRow(1, "me", 1, "p", State.LIVE, "5"))


async def test_what_is_in_flight_is_let_finish() -> None:
    release, done = asyncio.Event(), []

    async def operation() -> None:
        await release.wait()
        done.append(True)

    attempt = asyncio.create_task(writer(60.0).attempt(operation))
    await asyncio.sleep(0)
    attempt.cancel()
    await asyncio.sleep(0)
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    assert done == [True]


async def test_who_is_asked_twice_leaves_nothing_behind() -> None:
    before, begun = asyncio.all_tasks(), asyncio.Event()

    async def operation() -> None:
        begun.set()
        await asyncio.Event().wait()

    attempt = asyncio.create_task(writer(60.0).attempt(operation))
    await begun.wait()
    attempt.cancel()
    await asyncio.sleep(0)
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    assert asyncio.all_tasks() == before
