"""The way of an event to a receiver: what counts as taken, whatever speaks HTTP on the other side."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trustme

from syncd.core.errors import Undelivered
from syncd.webhook import Webhook, event, signature

BODY = b'{"a": "b"}'
Answers = list[bytes]


class Server:
    """Answers each request by the next of its texts; an empty one closes the connection."""

    def __init__(self, *answers: bytes, close: bool = False) -> None:
        self._answers = list(answers)
        self._close = close
        self.requests: list[bytes] = []
        self.connections = 0
        self._handlers: list[asyncio.Task[None] | None] = []
        self.url = ""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._handlers.append(asyncio.current_task())
        try:
            while self._answers:
                head = await reader.readuntil(b"\r\n\r\n")
                self.requests.append(head + await reader.readexactly(len(BODY)))
                answer = self._answers.pop(0)
                writer.write(answer)
                await writer.drain()
                if self._close or not answer:
                    break
            else:
                await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    @asynccontextmanager
    async def serving(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        port = server.sockets[0].getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}/hook?token=t"
        async with server:
            yield self
            async with asyncio.timeout(20):
                await asyncio.gather(*filter(None, self._handlers))


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.mark.parametrize(
    "answer",
    [
        OK,
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 202 Accepted\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    ],
)
async def test_an_acknowledgement_keeps_the_connection(answer: bytes) -> None:
    async with Server(answer, answer).serving() as server, Webhook(server.url) as webhook:
        await webhook.send(BODY)
        await webhook.send(BODY)
        assert server.connections == 1
        assert server.requests[0].startswith(b"POST /hook?token=t HTTP/1.1\r\n")
        assert server.requests[0].endswith(BODY)


@pytest.mark.parametrize("answer", [b"HTTP/1.0 200 OK\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\nsome text", OK])
async def test_a_server_that_closes_each_time(answer: bytes) -> None:
    async with Server(answer, answer, close=True).serving() as server, Webhook(server.url) as webhook:
        await webhook.send(BODY)
        await webhook.send(BODY)
        assert server.connections == 2


@pytest.mark.parametrize(
    ("answer", "wait"),
    [
        (b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", 0.0),
        (b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", 0.0),
        (b"HTTP/1.1 429 Slow\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n", 7.0),
        (b"HTTP/1.1 429 Slow\r\nRetry-After: 99999999\r\nContent-Length: 0\r\n\r\n", 3600.0),
        (b"HTTP/1.1 503 Slow\r\nRetry-After: tomorrow\r\nContent-Length: 0\r\n\r\n", 0.0),
        (b"SSH-2.0-OpenSSH\r\n\r\n", 0.0),
        (b"", 0.0),
    ],
)
async def test_what_is_no_acknowledgement(answer: bytes, wait: float) -> None:
    async with Server(answer).serving() as server, Webhook(server.url) as webhook:
        with pytest.raises(Undelivered) as caught:
            await webhook.send(BODY)
    assert caught.value.retry_after == wait
    assert "token" not in str(caught.value)


async def test_nobody_there_and_no_answer() -> None:
    async with Webhook("http://127.0.0.1:9/x") as webhook:
        with pytest.raises(Undelivered, match=r"127\.0\.0\.1:9"):
            await webhook.send(BODY)

    async with Server().serving() as server, Webhook(server.url, timeout=0.1) as webhook:
        with pytest.raises(Undelivered, match="within"):
            await webhook.send(BODY)


async def test_tls_and_a_name_with_a_password(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    async with Server(OK).serving(context) as server:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        async with Webhook(server.url.replace("https://", "https://me:p%40ss@")) as webhook:
            await webhook.send(BODY)
            assert "p%40ss" not in webhook.host
    assert b"Authorization: Basic bWU6cEBzcw==" in server.requests[0]


async def test_the_signature_is_of_timestamp_and_body() -> None:
    clock: Callable[[], float] = lambda: 1_700_000_000.9  # noqa: E731
    async with (
        Server(OK).serving() as server,
        Webhook(server.url, b"key", clock=clock) as webhook,
    ):
        await webhook.send(BODY)
    head = server.requests[0].decode()
    assert "X-Syncd-Timestamp: 1700000000\r\n" in head
    assert f"X-Syncd-Signature: {signature(b'key', '1700000000', BODY)}\r\n" in head
    assert signature(b"key", "1", b"x") != signature(b"key", "2", b"x")


async def test_a_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Server(OK).serving() as server:
        monkeypatch.setenv("http_proxy", server.url.partition("/hook")[0])
        monkeypatch.setenv("no_proxy", "")
        async with Webhook("http://receiver.example.com/hook") as webhook:
            await webhook.send(BODY)
    assert server.requests[0].startswith(b"POST http://receiver.example.com/hook HTTP/1.1\r\n")


def test_an_event_is_a_cloud_event() -> None:
    made = json.loads(event("7-1", "syncd.object.created", ("/syncd/c", "pods/a/ä", "now"), {"x": None}))
    assert made == {
        "specversion": "1.0",
        "id": "7-1",
        "source": "/syncd/c",
        "type": "syncd.object.created",
        "subject": "pods/a/ä",
        "time": "now",
        "datacontenttype": "application/json",
        "data": {"x": None},
    }
