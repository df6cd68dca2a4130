"""The HTTP side: `/livez`, `/readyz`, `/metrics` and `/status`.

It is given plain callables and knows nothing of streams or databases; signals are the app's business.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from syncd.core.errors import ConfigError

_GRACE = 1  # seconds that an answer in flight has when the server stops; syncd stops within five


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether it is ready, and one line for each thing that stands in the way."""

    ok: bool
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Probes:
    """What the server asks the app, on the event loop; none may block.

    Attributes:
        alive: whether the engine's own tasks turn; that an answer comes at all says that the loop does.
        ready: with True, whether every stream is live; with False, parked and backing off are enough.
        status: what `/status` answers, as values that JSON knows.
        metrics: the exposition and its content type.
    """

    alive: Callable[[], bool]
    ready: Callable[[bool], Readiness]
    status: Callable[[], Mapping[str, Any]]
    metrics: Callable[[], tuple[bytes, str]]


def application(probes: Probes) -> Starlette:
    """The routes, for any ASGI server."""

    async def livez(request: Request) -> Response:
        alive = probes.alive()
        return PlainTextResponse("ok\n" if alive else "stuck\n", 200 if alive else 503)

    async def readyz(request: Request) -> Response:
        strict = request.query_params.get("strict", "false").lower() not in ("false", "0", "no")
        readiness = probes.ready(strict)
        if readiness.ok:
            return PlainTextResponse("ok\n")
        return PlainTextResponse(
            "".join(f"{reason}\n" for reason in readiness.reasons or ("not ready",)), 503
        )

    async def status(request: Request) -> Response:
        return JSONResponse(dict(probes.status()))

    async def metrics(request: Request) -> Response:
        body, content_type = probes.metrics()
        return Response(body, headers={"content-type": content_type})

    handlers = (livez, readyz, status, metrics)
    return Starlette(routes=[Route(f"/{handler.__name__}", handler) for handler in handlers])


@contextlib.asynccontextmanager
async def serving(address: tuple[str, int], probes: Probes) -> AsyncIterator[tuple[str, int]]:
    """Serves inside the block; gives the address that was bound (port 0 picks a free one).

    Raises:
        ConfigError: the address cannot be listened on.
    """
    listener = _bound(address)
    server = _Server(
        uvicorn.Config(
            application(probes),
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=_GRACE,
        )
    )
    task = asyncio.create_task(server.serve(sockets=[listener]), name="http server")
    try:
        host, port = listener.getsockname()[:2]
        yield host, port
    finally:
        server.should_exit = True
        try:
            await task
        finally:
            listener.close()


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        """Leaves the process's signal handlers alone: stopping has an order, and it is the app's."""
        yield


def _bound(address: tuple[str, int]) -> socket.socket:
    host, port = address
    listener: socket.socket | None = None
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        listener.listen(128)
        listener.setblocking(False)
    except (OSError, UnicodeError) as error:
        if listener is not None:
            listener.close()
        shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            f'server.listen: cannot listen on {shown}: {reason}; choose another address, or "" for none'
        ) from error
    return listener
