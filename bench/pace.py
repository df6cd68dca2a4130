"""The speed of a real kube-apiserver, given to the simulated one. That has its answers ready and would send
them at memory's speed, which nothing that stores them could come near, and which no cluster has.

A list goes at a little more than 40 MB/s and a watch at 2,100 events of 8 KB a second, as a real server's
did on two cores. A server spends that time on encoding; here a core is kept as busy by hashing what is sent.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

LIST = 46e6  # bytes a second, and what asking costs
WATCH = 18.6e6
_PIECE = 64 * 1024

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


class Paced:
    """An ASGI application whose answers take as long as a real server's."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        rate = WATCH if b"watch=" in scope.get("query_string", b"") else LIST
        free_at = 0.0

        async def paced(message: Message) -> None:
            nonlocal free_at
            body: bytes = message.get("body", b"")
            for start in range(0, len(body), _PIECE):
                piece = body[start : start + _PIECE]
                if start + _PIECE < len(body):
                    await send({**message, "body": piece, "more_body": True})
                else:
                    await send({**message, "body": piece})
                free_at = max(free_at, time.perf_counter()) + len(piece) / rate
                if (
                    len(piece) == _PIECE or free_at - time.perf_counter() > 0.002
                ):  # single events are not late
                    await asyncio.to_thread(_toil, piece, free_at)
            if not body:
                await send(message)

        await self._app(scope, receive, paced)


def _toil(piece: bytes, until: float) -> None:
    while time.perf_counter() < until:
        hashlib.sha256(piece)  # lets go of the interpreter meanwhile
