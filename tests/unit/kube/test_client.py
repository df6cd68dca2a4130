"""Lists, watches and errors against a server that misbehaves, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gzip
import json
from pathlib import Path

import pytest

from syncd.core.errors import (
    ConnectionLost,
    Expired,
    Forbidden,
    NotFound,
    ProtocolError,
    ServerError,
    TooManyRequests,
    Unauthorized,
    VersionTooLarge,
)
from syncd.core.ports import ApiServer, ListRequest, WatchRequest
from syncd.core.resource import Resource, Stream
from syncd.kube.auth import Credentials, Token, TokenFile
from syncd.kube.client import KubeClient, Timing
from syncd.kube.connection import Connection, Impersonation

from .server import (
    CHUNKED,
    PODS,
    STREAM,
    Call,
    Server,
    answering,
    chunk,
    head,
    recorded,
    serving,
    status_body,
    until,
    whole,
)

EMPTY = b'{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[]}'
WATCH = WatchRequest("7", 300)


def client(server: Server, /, **changes: object) -> KubeClient:
    connection = Connection("prod", server.url)
    return KubeClient(dataclasses.replace(connection, **changes), user_agent="syncd/test")  # type: ignore[arg-type]


async def read(kube: KubeClient, request: WatchRequest = WATCH, into: list[bytes] | None = None) -> bytes:
    got = [] if into is None else into
    async with kube.watch(STREAM, request) as chunks:
        async for piece in chunks:
            got.append(piece)
    return b"".join(got)


def test_it_fits_the_port() -> None:
    port: ApiServer = KubeClient(Connection("prod", "https://a"), user_agent="x")
    assert isinstance(port, KubeClient)


async def test_a_list_says_what_it_wants_and_no_more() -> None:
    stream = Stream("prod", PODS, "shop", "app in (a,b),!old", "status.phase=Running")
    request = ListRequest(limit=50, continue_token="a+b/=&", field_selector="metadata.name=x")
    async with serving(answering(whole(EMPTY))) as server, client(server) as kube:
        assert await kube.list(stream, request) == EMPTY
        await kube.list(STREAM, ListRequest(limit=None))
    first, second = server.calls
    assert (first.method, first.path) == ("GET", "/api/v1/namespaces/shop/pods")
    assert first.query == {
        "labelSelector": "app in (a,b),!old",
        "fieldSelector": "status.phase=Running,metadata.name=x",
        "limit": "50",
        "continue": "a+b/=&",
    }
    assert first.header("accept") == "application/json"
    assert first.header("accept-encoding") == "identity", "nothing is compressed over loopback"
    assert first.header("user-agent") == "syncd/test"
    assert first.header("authorization") is None
    assert second.target == "/api/v1/pods"
    assert server.connections == 1, "lists keep their connection"


async def test_a_watch_resumes_after_a_version_uncompressed() -> None:
    stream = Stream("prod", Resource("apps", "v1", "deployments", "Deployment", True), "", "a=b", "x=y")
    body = CHUNKED + chunk(b'{"a":1}\n{"b"') + chunk(b":2}\n") + chunk(b"")
    async with (
        serving(answering(body)) as server,
        client(server) as kube,
        kube.watch(stream, WATCH) as chunks,
    ):
        assert b"".join([piece async for piece in chunks]) == b'{"a":1}\n{"b":2}\n'
    (call,) = server.calls
    assert call.path == "/apis/apps/v1/deployments"
    assert call.query == {
        "watch": "1",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "300",
        "resourceVersion": "7",
        "labelSelector": "a=b",
        "fieldSelector": "x=y",
    }
    assert call.header("accept-encoding") == "identity"


async def test_initial_events_are_asked_for_without_a_version() -> None:
    async with serving(answering(CHUNKED + chunk(b""))) as server, client(server) as kube:
        assert await read(kube, WatchRequest("7", 600, initial_events=True)) == b""
    assert server.calls[0].query == {
        "watch": "1",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "600",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
    }


@pytest.mark.parametrize("version", [None, "", "0"])
async def test_a_watch_that_would_let_the_server_choose_is_never_sent(version: str | None) -> None:
    async with serving(answering(whole(EMPTY))) as server, client(server) as kube:
        with pytest.raises(ProtocolError, match="version"):
            await read(kube, WatchRequest(version, 300))
    assert server.calls == []


async def test_metadata_alone_is_asked_for_by_the_accept_header() -> None:
    async with serving(answering(whole(EMPTY))) as server, client(server) as kube:
        await kube.list(STREAM, ListRequest(), metadata_only=True)
        async with kube.watch(STREAM, WATCH, metadata_only=True):
            pass
    form = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1,application/json"
    assert [call.header("accept") for call in server.calls] == [form.format("List"), form.format("")]


async def test_a_path_prefix_stays_and_get_takes_a_query() -> None:
    async with (
        serving(answering(whole(b"ok", content_type="text/plain"))) as server,
        client(server, server=f"{server.url}/k8s/clusters/c-1/") as kube,
    ):
        assert await kube.get("/healthz", {"verbose": "a b"}) == b"ok"
    assert server.calls[0].target == "/k8s/clusters/c-1/healthz?verbose=a%20b"


async def test_lists_and_watches_do_not_share_connections() -> None:
    async with serving(answering(whole(EMPTY))) as server, client(server) as kube:
        await kube.list(STREAM, ListRequest())
        await read(kube)
        await kube.list(STREAM, ListRequest())
        assert server.connections == 2


# --- compression ------------------------------------------------------------------------------------


async def test_a_compressed_list_is_inflated_and_compression_can_be_forbidden() -> None:
    squeezed = gzip.compress(EMPTY)
    async with serving(answering(whole(squeezed, "Content-Encoding: gzip"))) as server:
        far = {"server": "http://kube.example", "proxy_url": server.url}
        async with client(server, **far) as kube:
            assert await kube.list(STREAM, ListRequest()) == EMPTY
            assert await read(kube) == EMPTY
        async with client(server, disable_compression=True, **far) as kube:
            await kube.list(STREAM, ListRequest())
    assert [call.header("accept-encoding") for call in server.calls] == ["gzip", "identity", "identity"]


async def test_a_truncated_gzip_list_is_lost() -> None:
    squeezed = gzip.compress(EMPTY)[:-12]
    async with (
        serving(answering(whole(squeezed, "Content-Encoding: gzip"))) as server,
        client(server) as kube,
    ):
        with pytest.raises(ConnectionLost, match="gzip") as caught:
            await kube.list(STREAM, ListRequest())
    assert caught.value.connected


async def test_every_member_of_a_compressed_watch_is_delivered_as_it_comes() -> None:
    """A server that ignores identity flushes one gzip member per event."""
    first, second = b'{"n":1}\n', b'{"n":2}\n'
    go_on = asyncio.Event()

    async def handler(call: Call, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n"))
        writer.write(chunk(gzip.compress(first)))
        await go_on.wait()
        member = gzip.compress(second)
        writer.write(chunk(member[:9]) + chunk(member[9:] + gzip.compress(first)) + chunk(b""))

    async with serving(handler) as server, client(server) as kube, kube.watch(STREAM, WATCH) as chunks:
        assert await anext(chunks) == first
        go_on.set()
        assert b"".join([piece async for piece in chunks]) == second + first


async def test_an_encoding_that_was_not_asked_for_is_refused_loudly() -> None:
    async with serving(answering(whole(EMPTY, "Content-Encoding: br"))) as server, client(server) as kube:
        with pytest.raises(ProtocolError, match="br"):
            await kube.list(STREAM, ListRequest())
        with pytest.raises(ProtocolError, match="br"):
            await read(kube)


# --- whole or not -----------------------------------------------------------------------------------

CUT = {
    "in a counted body": whole(EMPTY)[:-5],
    "in a chunk": CHUNKED + chunk(EMPTY)[:-9],
    "between chunks": CHUNKED + chunk(EMPTY),
    "in the closing chunk": CHUNKED + chunk(EMPTY) + b"0\r\n",
    "by a proxy that ends the body cleanly": CHUNKED + chunk(EMPTY[:-3]) + chunk(b""),
    "to nothing": whole(b""),
    "without framing": head("200 OK", "Content-Type: application/json") + EMPTY[:-1],
}


@pytest.mark.parametrize("answer", CUT.values(), ids=CUT.keys())
async def test_a_list_cut_after_200_is_lost(answer: bytes) -> None:
    async with serving(answering(answer, cut=True)) as server, client(server) as kube:
        with pytest.raises(ConnectionLost, match="GET /api/v1/pods on prod") as caught:
            await kube.list(STREAM, ListRequest())
    assert caught.value.connected


async def test_a_watch_cut_in_a_chunk_gives_what_came_and_then_is_lost() -> None:
    async with (
        serving(answering(CHUNKED + chunk(b'{"a":1}\n') + b"20\r\nabc", cut=True)) as server,
        client(server) as kube,
    ):
        got: list[bytes] = []
        with pytest.raises(ConnectionLost, match="WATCH /api/v1/pods on prod") as caught:
            await read(kube, into=got)
    assert b"".join(got) == b'{"a":1}\nabc'
    assert caught.value.connected


async def test_a_server_that_closes_without_an_answer_was_not_connected() -> None:
    async with serving(answering(b"", cut=True)) as server, client(server) as kube:
        with pytest.raises(ConnectionLost, match="prod") as caught:
            await kube.list(STREAM, ListRequest())
        with pytest.raises(ConnectionLost):
            await read(kube)
    assert not caught.value.connected


async def test_nobody_listens() -> None:
    async with serving(answering(whole(EMPTY))) as server:
        pass
    async with client(server) as kube:
        with pytest.raises(ConnectionLost, match=r"GET /version on prod: Connection refused") as caught:
            await kube.get("/version")
    assert not caught.value.connected


async def test_a_stalled_list_times_out_and_a_stalled_watch_does_not() -> None:
    async def handler(call: Call, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + chunk(b'{"a":1}\n'))
        if "watch" not in call.query:
            await asyncio.Event().wait()
        await asyncio.sleep(0.5)
        writer.write(chunk(b'{"b":2}\n') + chunk(b""))

    timing = Timing(read=0.1)
    async with (
        serving(handler) as server,
        KubeClient(Connection("prod", server.url), user_agent="x", timing=timing) as kube,
    ):
        with pytest.raises(ConnectionLost, match="timed out") as caught:
            await kube.list(STREAM, ListRequest())
        assert await read(kube) == b'{"a":1}\n{"b":2}\n'
    assert caught.value.connected


@pytest.mark.parametrize("junk", [b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n"])
async def test_something_else_than_http_answers(junk: bytes) -> None:
    async with serving(answering(junk, cut=True)) as server, client(server) as kube:
        with pytest.raises(ConnectionLost, match="prod"):
            await kube.get("/version")


async def test_a_login_page_is_not_a_list() -> None:
    page = whole(b"<html>log in</html>", content_type="text/html; charset=utf-8")
    async with serving(answering(page)) as server, client(server) as kube:
        with pytest.raises(ProtocolError, match="text/html"):
            await kube.list(STREAM, ListRequest())
        with pytest.raises(ProtocolError, match="text/html"):
            await read(kube)


async def test_a_redirect_is_an_error_and_not_followed() -> None:
    answer = whole(b"", "Location: http://127.0.0.1:9/", status="302 Found")
    async with serving(answering(answer)) as server, client(server) as kube:
        with pytest.raises(Exception, match="302"):
            await kube.get("/version")
    assert len(server.calls) == 1


@pytest.mark.parametrize("code", ["200 OK", "503 Service Unavailable"])
async def test_a_body_nested_beyond_reason_is_an_error_of_ours(code: str) -> None:
    async with (
        serving(answering(whole(b'{"x":' + b"[" * 50_000, status=code))) as server,
        client(server) as kube,
    ):
        with pytest.raises(ConnectionLost if code == "200 OK" else ServerError):
            await kube.list(STREAM, ListRequest())


async def test_a_body_is_whole_however_deep_it_is() -> None:
    body = b'{"x":' + b"[" * 9_000 + b"]" * 9_000 + b"}"
    async with serving(answering(whole(body))) as server, client(server) as kube:
        assert await kube.list(STREAM, ListRequest()) == body


# --- leaving ----------------------------------------------------------------------------------------


async def stall(call: Call, writer: asyncio.StreamWriter) -> None:
    writer.write(CHUNKED + chunk(b'{"a":1}\n'))
    await call.reader.read()  # until the client closes
    writer.close()


async def test_leaving_a_watch_early_closes_its_connection() -> None:
    async with serving(stall) as server, client(server) as kube:
        async with kube.watch(STREAM, WATCH) as chunks:
            assert await anext(chunks) == b'{"a":1}\n'
            assert server.ended == 0
        await until(lambda: server.ended == 1)


async def test_a_cancelled_watch_closes_its_connection() -> None:
    began = asyncio.Event()

    async def follow(kube: KubeClient) -> None:
        async with kube.watch(STREAM, WATCH) as chunks:
            async for _ in chunks:
                began.set()

    async with serving(stall) as server, client(server) as kube:
        task = asyncio.create_task(follow(kube))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: server.ended == 1)


async def test_no_moment_of_cancellation_leaves_a_connection_behind() -> None:
    """httpcore's pool keeps a connection whose request is cancelled between the handshake and the request."""

    async def requests(kube: KubeClient, steps: range) -> None:
        for step in steps:
            asked = read(kube) if step % 2 else kube.list(STREAM, ListRequest())
            task = asyncio.ensure_future(asked)
            for _ in range(step):  # each pass of the loop is another place to be cancelled in
                await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async with serving(stall) as server, client(server) as kube:
        await asyncio.gather(*(requests(kube, range(first, first + 60)) for first in (0, 1, 2, 3)))
        await until(lambda: server.ended == server.connections)
        assert server.connections > 0


async def test_a_watch_without_an_answer_can_be_given_up() -> None:
    async def silent(call: Call, writer: asyncio.StreamWriter) -> None:
        await call.reader.read()
        writer.close()

    async with serving(silent) as server, client(server) as kube:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(read(kube), 0.2)
        await until(lambda: server.ended == server.connections)


async def test_many_watches_are_open_at_once() -> None:
    async with serving(stall) as server, client(server) as kube, contextlib.AsyncExitStack() as stack:
        for _ in range(150):
            chunks = await stack.enter_async_context(kube.watch(STREAM, WATCH))
            assert await anext(chunks) == b'{"a":1}\n'
        assert server.connections - server.ended == 150


async def test_closing_the_client_ends_its_watches() -> None:
    async with serving(stall) as server:
        kube = client(server)
        async with kube:
            watch = kube.watch(STREAM, WATCH)
            chunks = await watch.__aenter__()
            await anext(chunks)
        await until(lambda: server.ended == 1)
        with pytest.raises(ConnectionLost):
            await anext(chunks)
        await watch.__aexit__(None, None, None)
        with pytest.raises(ConnectionLost, match="closed"):
            await kube.get("/version")


async def test_an_error_of_the_one_who_reads_is_left_alone() -> None:
    async def fail(kube: KubeClient) -> None:
        async with kube.watch(STREAM, WATCH) as chunks:
            async for _ in chunks:
                raise OSError("disk full")

    async with serving(stall) as server, client(server) as kube:
        with pytest.raises(OSError, match="disk full"):
            await fail(kube)
        await until(lambda: server.ended == 1)


# --- what servers refuse with -----------------------------------------------------------------------

RECORDED = {
    "list-expired-continue-410": Expired,
    "list-forbidden": Forbidden,
    "list-unknown-resource": NotFound,
    "list-rv-too-large": VersionTooLarge,
    "crd-first-list-right-after-create": TooManyRequests,
    "list-unauthorized": Unauthorized,
}


@pytest.mark.parametrize(("name", "kind"), RECORDED.items())
async def test_recorded_refusals(name: str, kind: type[Exception]) -> None:
    async with serving(answering(recorded(name))) as server, client(server) as kube:
        with pytest.raises(kind, match=r"\(GET /api/v1/pods on prod\)"):
            await kube.list(STREAM, ListRequest())
        with pytest.raises(kind, match=r"\(WATCH /api/v1/pods on prod\)"):
            await read(kube)


async def test_an_expired_token_brings_another() -> None:
    async with serving(answering(recorded("list-expired-continue-410"))) as server, client(server) as kube:
        with pytest.raises(Expired) as caught:
            await kube.list(STREAM, ListRequest())
    assert caught.value.continue_token


async def test_a_429_in_plain_text_says_how_long_to_wait() -> None:
    answer = whole(
        b"Too many requests, please try again later.\n",
        "Retry-After: 7",
        status="429 Too Many Requests",
        content_type="text/plain; charset=utf-8",
    )
    async with serving(answering(answer)) as server, client(server) as kube:
        with pytest.raises(TooManyRequests, match="Too many requests") as caught:
            await kube.list(STREAM, ListRequest())
    assert caught.value.retry_after == 7
    assert caught.value.status == 429


async def test_an_error_body_is_read_within_bounds() -> None:
    async def flood(call: Call, writer: asyncio.StreamWriter) -> None:
        writer.write(head("503 Service Unavailable", "Transfer-Encoding: chunked"))
        while True:
            writer.write(chunk(b"x" * 60_000))
            await writer.drain()

    async with serving(flood) as server, client(server) as kube:
        with pytest.raises(ServerError) as caught:
            await read(kube)
        await until(lambda: server.ended == 1)
    assert caught.value.status == 503
    assert len(str(caught.value)) < 400


async def test_an_error_body_that_never_comes_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("syncd.kube.client._ERROR_BODY_SECONDS", 0.05)

    async def handler(call: Call, writer: asyncio.StreamWriter) -> None:
        writer.write(head("503 Service Unavailable", "Content-Length: 100", "Retry-After: 2"))
        await asyncio.Event().wait()

    async with serving(handler) as server, client(server) as kube:
        with pytest.raises(ServerError, match="Service Unavailable") as caught:
            await read(kube)
    assert caught.value.retry_after == 2


# --- logging in -------------------------------------------------------------------------------------

REFUSED = whole(status_body(401, "Unauthorized", "Unauthorized"), status="401 Unauthorized")


async def test_a_401_reads_the_token_file_again_and_tries_once_more(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old\n")

    async def handler(call: Call, writer: asyncio.StreamWriter) -> None:
        good = call.header("authorization") == "Bearer new"
        writer.write(whole(EMPTY) if good else REFUSED)

    async with (
        serving(handler) as server,
        client(server, credentials=Credentials(TokenFile(file))) as kube,
    ):
        with pytest.raises(Unauthorized):
            await kube.list(STREAM, ListRequest())
        assert len(server.calls) == 2
        file.write_text("new\n")
        assert await kube.list(STREAM, ListRequest()) == EMPTY
        assert await read(kube) == EMPTY
    sent = [call.header("authorization") for call in server.calls]
    assert sent == ["Bearer old", "Bearer old", "Bearer new", "Bearer new"]


async def test_one_401_is_forgiven_for_a_fixed_token_too() -> None:
    async with (
        serving(answering(REFUSED, whole(EMPTY))) as server,
        client(server, credentials=Credentials(Token("s3cret"))) as kube,
    ):
        assert await read(kube) == EMPTY
    assert len(server.calls) == 2


async def test_no_message_shows_a_token() -> None:
    async with (
        serving(answering(REFUSED)) as server,
        client(server, credentials=Credentials(Token("s3cret"))) as kube,
    ):
        with pytest.raises(Unauthorized) as caught:
            await kube.get("/version")
        assert "s3cret" not in str(caught.value) + repr(caught.value) + repr(kube.connection)


async def test_impersonation_is_sent_as_headers() -> None:
    someone = Impersonation("jané", "42", ("a", "b"), {"example.com/Scope": ("x", "y")})
    async with serving(answering(whole(EMPTY))) as server, client(server, impersonation=someone) as kube:
        await kube.list(STREAM, ListRequest())
    sent = [(key.lower(), value) for key, value in server.calls[0].headers if key.lower().startswith("imp")]
    assert sorted(sent) == [
        ("impersonate-extra-example.com%2fscope", "x"),
        ("impersonate-extra-example.com%2fscope", "y"),
        ("impersonate-group", "a"),
        ("impersonate-group", "b"),
        ("impersonate-uid", "42"),
        ("impersonate-user", "jané"),
    ]


async def test_cookies_are_not_kept() -> None:
    async with serving(answering(whole(EMPTY, "Set-Cookie: a=b"))) as server, client(server) as kube:
        await kube.list(STREAM, ListRequest())
        await kube.list(STREAM, ListRequest())
    assert server.calls[1].header("cookie") is None


async def test_warnings_are_told_once_each() -> None:
    told: list[str] = []
    answer = whole(
        json.dumps({}).encode(),
        r'Warning: 299 - "v1 \"old\" is going"',
        'Warning: 299 - "second", 299 - "third"',
        'Warning: 199 - "not for us"',
    )
    async with (
        serving(answering(answer)) as server,
        KubeClient(Connection("prod", server.url), user_agent="x", on_warning=told.append) as kube,
    ):
        await kube.get("/version")
        await kube.list(STREAM, ListRequest())
    assert told == ['v1 "old" is going', "second", "third"]


async def test_the_environments_proxies_are_not_consulted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    async with serving(answering(whole(EMPTY))) as server, client(server) as kube:
        assert await kube.list(STREAM, ListRequest()) == EMPTY


async def test_a_proxy_of_the_connection_is_used() -> None:
    async with (
        serving(answering(whole(EMPTY))) as server,
        client(server, server="http://127.0.0.1:9", proxy_url=server.url) as kube,
    ):
        assert await kube.list(STREAM, ListRequest(limit=None)) == EMPTY
    assert server.calls[0].target == "http://127.0.0.1:9/api/v1/pods"
