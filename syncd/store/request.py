"""Rows of syncd_requests: what an operator asks of the running daemon, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from syncd.core.ports import Request
from syncd.store.column import UtcTime
from syncd.store.schema import requests


@dataclass(frozen=True, slots=True)
class Reply:
    """Where a request stands. `answered_at` None: not yet; `error` '' when it was done."""

    request_id: int
    claimed_at: datetime | None
    answered_at: datetime | None
    progress: Mapping[str, object]
    result: Mapping[str, object]
    error: str


async def ask(
    connection: AsyncConnection, action: str, arguments: Mapping[str, object], now: datetime
) -> int:
    """A new request, its id."""
    made = await connection.execute(
        sa.insert(requests)
        .values(command=action, arguments=dict(arguments), created_at=now, progress={}, result={}, error="")
        .returning(requests.c.request_id)
    )
    return int(made.scalar_one())


async def reply(connection: AsyncConnection, request_id: int) -> Reply | None:
    """Where it stands, None where there is no such request."""
    query = sa.select(requests).where(requests.c.request_id == request_id)
    found = (await connection.execute(query)).first()
    if found is None:
        return None
    return Reply(
        request_id=found.request_id,
        claimed_at=found.claimed_at,
        answered_at=found.answered_at,
        progress=found.progress,
        result=found.result,
        error=found.error,
    )


async def withdraw(connection: AsyncConnection, request_id: int) -> bool:
    """Takes a request back that nobody has claimed; whether it was still there."""
    gone = await connection.execute(
        sa.delete(requests).where(requests.c.request_id == request_id, requests.c.claimed_at.is_(None))
    )
    return gone.rowcount == 1


async def unanswered(connection: AsyncConnection) -> list[tuple[Request, bool]]:
    """Unanswered requests, oldest first, and whether each is claimed."""
    query = sa.select(requests).where(requests.c.answered_at.is_(None)).order_by(requests.c.request_id)
    return [
        (Request(found.request_id, found.command, found.arguments), found.claimed_at is not None)
        for found in await connection.execute(query)
    ]


async def claim(connection: AsyncConnection, ids: Sequence[int], now: datetime) -> None:
    """Says that the daemon has seen them."""
    await connection.execute(sa.update(requests).where(requests.c.request_id.in_(ids)).values(claimed_at=now))


async def progress(connection: AsyncConnection, request_id: int, progress: Mapping[str, object]) -> None:
    """How far it is."""
    await connection.execute(
        sa.update(requests).where(requests.c.request_id == request_id).values(progress=dict(progress))
    )


async def answer(
    connection: AsyncConnection,
    request_id: int,
    now: datetime,
    *,
    error: str,
    result: Mapping[str, object],
) -> None:
    """Its end, good or bad."""
    await connection.execute(
        sa.update(requests)
        .where(requests.c.request_id == request_id)
        .values(
            answered_at=now,
            claimed_at=sa.func.coalesce(requests.c.claimed_at, sa.literal(now, UtcTime)),
            error=error,
            result=dict(result),
        )
    )
