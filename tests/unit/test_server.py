"""The HTTP side, through ASGI and over a real port."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from syncd.core.errors import ConfigError
from syncd.metrics import Metrics
from syncd.server import Probes, Readiness, application, serving


@dataclass
class App:
    """An app whose answers a test sets."""

    live: bool = True
    readiness: Readiness = field(default_factory=lambda: Readiness(True))
    strict_readiness: Readiness = field(default_factory=lambda: Readiness(False, ("pods: backoff",)))

    def probes(self) -> Probes:
        return Probes(lambda: self.live, self.ready, self.status, Metrics().render)

    def ready(self, strict: bool) -> Readiness:
        return self.strict_readiness if strict else self.readiness

    def status(self) -> Mapping[str, Any]:
        return {"streams": [{"resource": "pods", "lag_seconds": 0.5}]}


async def get(app: App, path: str) -> httpx.Response:
    transport = httpx.ASGITransport(application(app.probes()))
    async with httpx.AsyncClient(transport=transport, base_url="http://syncd") as client:
        return await client.get(path)


async def test_livez() -> None:
    assert (await get(App(), "/livez")).status_code == 200
    assert (await get(App(live=False), "/livez")).status_code == 503


async def test_readyz_gives_the_reasons() -> None:
    assert (await get(App(), "/readyz")).status_code == 200
    answer = await get(App(readiness=Readiness(False, ("no lease", "pods: syncing"))), "/readyz")
    assert (answer.status_code, answer.text) == (503, "no lease\npods: syncing\n")


@pytest.mark.parametrize(
    ("query", "status"),
    [("?strict", 503), ("?strict=true", 503), ("?strict=1", 503), ("?strict=false", 200), ("?other", 200)],
)
async def test_readyz_may_be_strict(query: str, status: int) -> None:
    assert (await get(App(), f"/readyz{query}")).status_code == status


async def test_status_is_json() -> None:
    assert (await get(App(), "/status")).json() == App().status()


async def test_metrics_are_in_the_text_format() -> None:
    answer = await get(App(), "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert "# TYPE syncd_stream_state gauge" in answer.text


async def test_other_paths_and_verbs_are_refused() -> None:
    assert (await get(App(), "/")).status_code == 404
    transport = httpx.ASGITransport(application(App().probes()))
    async with httpx.AsyncClient(transport=transport, base_url="http://syncd") as client:
        assert (await client.post("/status")).status_code == 405


async def test_it_serves_on_a_port_and_leaves_signals_alone() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    async with serving(("127.0.0.1", 0), App().probes()) as (host, port), httpx.AsyncClient() as client:
        answer = await client.get(f"http://{host}:{port}/readyz")
        assert answer.status_code == 200
        assert "server" not in answer.headers
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    with pytest.raises(OSError):
        socket.create_connection((host, port), timeout=1)


async def test_it_stops_though_a_client_holds_its_connection() -> None:
    async with asyncio.timeout(30):
        async with serving(("127.0.0.1", 0), App().probes()) as address:
            reader, writer = await asyncio.open_connection(*address)
            writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"200" in await reader.readline()
        writer.close()
        await writer.wait_closed()


async def test_it_stops_at_once_where_the_block_fails() -> None:
    with pytest.raises(RuntimeError, match="the app's"):
        async with serving(("127.0.0.1", 0), App().probes()):
            raise RuntimeError("the app's")


async def test_an_address_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = taken.getsockname()[:2]
        with pytest.raises(ConfigError, match=rf"server.listen: cannot listen on 127.0.0.1:{address[1]}"):
            async with serving(address, App().probes()):
                pass


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid", "a" * 70])
async def test_an_address_that_cannot_be_bound_is_named(host: str) -> None:
    with pytest.raises(ConfigError, match=f"cannot listen on {host}:1234"):
        async with serving((host, 1234), App().probes()):
            pass
