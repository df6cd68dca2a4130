"""A hand-written HTTP server over real sockets that answers whatever a test tells it to, byte for byte."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from syncd.core.resource import Resource, Stream

WIRE = Path(__file__).parents[2] / "data" / "wire"
PODS = Resource("", "v1", "pods", "Pod", namespaced=True)
STREAM = Stream("prod", PODS)


@dataclass
class Call:
    """One request as it arrived."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    reader: asyncio.StreamReader
    peer: dict[str, object] | None = None

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


Handler = Callable[[Call, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Server:
    """Calls `handler` for every request; a handler that closes the writer ends the connection."""

    handler: Handler
    context: ssl.SSLContext | None = None
    calls: list[Call] = field(default_factory=list)
    connections: int = 0
    ended: int = 0
    port: int = 0
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"{'https' if self.context else 'http'}://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            while (call := await _read(reader, writer)) is not None:
                self.calls.append(call)
                answering = asyncio.ensure_future(self.handler(call, writer))
                try:
                    await answering
                finally:
                    answering.cancel()
                if writer.is_closing():
                    break
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError, asyncio.CancelledError):
            pass
        finally:
            self.ended += 1
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        while self._tasks:
            await asyncio.sleep(0.005)


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Call | None:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("utf-8").split("\r\n")[:-2]
    method, target, _ = first.split(" ")
    headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    return Call(method, target, headers, reader, writer.get_extra_info("peercert"))


@contextlib.asynccontextmanager
async def serving(handler: Handler, context: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    server = Server(handler, context)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        await server.stop()
        await listener.wait_closed()


def head(status: str, *headers: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode()


def whole(
    body: bytes, *headers: str, status: str = "200 OK", content_type: str = "application/json"
) -> bytes:
    """A complete answer with a Content-Length."""
    return head(status, f"Content-Type: {content_type}", f"Content-Length: {len(body)}", *headers) + body


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


CHUNKED = head("200 OK", "Content-Type: application/json", "Transfer-Encoding: chunked")


def answering(*answers: bytes, cut: bool = False) -> Handler:
    """Answers in turn, the last one for ever; `cut` closes the connection after each."""
    left = list(answers)

    async def handler(call: Call, writer: asyncio.StreamWriter) -> None:
        writer.write(left.pop(0) if len(left) > 1 else left[0])
        await writer.drain()
        if cut:
            writer.close()

    return handler


def routed(routes: dict[str, bytes]) -> Handler:
    """Answers by path; anything else is a 404 in plain text."""

    async def handler(call: Call, writer: asyncio.StreamWriter) -> None:
        missing = whole(b"404 page not found\n", status="404 Not Found", content_type="text/plain")
        writer.write(routes.get(call.path, missing))
        await writer.drain()

    return handler


def status_body(code: int, reason: str, message: str = "") -> bytes:
    return json.dumps({"kind": "Status", "code": code, "reason": reason, "message": message}).encode()


def recorded(name: str) -> bytes:
    """A recording's response, byte for byte."""
    data = (WIRE / f"{name}.http").read_bytes()
    return data[data.index(b"HTTP/1.1 ") :]


async def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    """Polls; a machine that is busy is given plenty of time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        await asyncio.sleep(0.005)
