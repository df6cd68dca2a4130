"""TLS for real: authorities, names, client certificates, tunnels, and files that rotate under us."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import inspect
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpcore
import httpx
import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from syncd.core.errors import ConfigError, ConnectionLost
from syncd.core.ports import ListRequest, WatchRequest
from syncd.kube import transport
from syncd.kube.auth import ClientCertificate, Credentials
from syncd.kube.client import KubeClient
from syncd.kube.connection import Connection

from .server import CHUNKED, STREAM, Call, Server, answering, chunk, serving, until, whole

EMPTY = b'{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[]}'


class Authority:
    """A certificate authority, its PEM, and server contexts signed by it."""

    def __init__(self) -> None:
        self.ca = trustme.CA()
        self.pem = self.ca.cert_pem.bytes()
        self.names: list[str | None] = []

    def server(self, *names: str, clients: trustme.CA | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.ca.issue_cert(*(names or ("127.0.0.1",))).configure_cert(context)
        context.sni_callback = lambda _, name, __: self.names.append(name)
        if clients is not None:
            clients.configure_trust(context)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def client(server: Server, /, **changes: object) -> KubeClient:
    connection = dataclasses.replace(Connection("prod", server.url), **changes)  # type: ignore[arg-type]
    return KubeClient(connection, user_agent="x")


async def listed(server: Server, /, **changes: object) -> bytes:
    async with client(server, **changes) as kube:
        return await kube.list(STREAM, ListRequest())


async def test_an_authority_as_data_or_as_a_file(authority: Authority, tmp_path: Path) -> None:
    file = tmp_path / "ca.crt"
    file.write_bytes("# Müllers CA\n".encode() + authority.pem)
    async with serving(answering(whole(EMPTY)), authority.server()) as server:
        assert await listed(server, ca_data=authority.pem) == EMPTY
        assert await listed(server, ca_file=file) == EMPTY
        assert await listed(server, insecure_skip_tls_verify=True) == EMPTY


async def test_a_port_that_speaks_no_tls_is_named_as_such() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with KubeClient(Connection("prod", url), user_agent="x") as kube:
            with pytest.raises(ConnectionLost, match=r"WRONG_VERSION_NUMBER.*does not speak TLS"):
                await kube.list(STREAM, ListRequest())


async def test_an_unknown_authority_is_refused(authority: Authority) -> None:
    async with serving(answering(whole(EMPTY)), authority.server()) as server:
        for pem in (None, trustme.CA().cert_pem.bytes()):
            with pytest.raises(
                ConnectionLost, match=r"CERTIFICATE_VERIFY_FAILED.*check certificate-authority"
            ) as caught:
                await listed(server, ca_data=pem)
            assert not caught.value.connected
    assert server.calls == []


async def test_the_wrong_name_is_refused_and_tls_server_name_verifies_another(authority: Authority) -> None:
    authority.names.clear()
    async with serving(answering(whole(EMPTY)), authority.server("kube.example")) as server:
        with pytest.raises(ConnectionLost, match="VERIFY_FAILED"):
            await listed(server, ca_data=authority.pem)
        assert await listed(server, ca_data=authority.pem, tls_server_name="kube.example") == EMPTY
        with pytest.raises(ConnectionLost, match="VERIFY_FAILED"):
            await listed(server, ca_data=authority.pem, tls_server_name="other.example")
    assert authority.names[-2:] == ["kube.example", "other.example"], "it is what SNI asks for"


async def tunnel(call: Call, writer: asyncio.StreamWriter) -> None:
    """A proxy that knows CONNECT."""
    host, _, port = call.target.partition(":")
    reader, upstream = await asyncio.open_connection(host, int(port))
    writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")

    async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
        sink.close()

    try:
        await asyncio.gather(pump(call.reader, upstream), pump(reader, writer))
    finally:
        upstream.close()


async def test_tls_server_name_holds_through_a_proxys_tunnel(authority: Authority) -> None:
    async with (
        serving(answering(whole(EMPTY)), authority.server("kube.example")) as server,
        serving(tunnel) as proxy,
    ):
        changes = {"ca_data": authority.pem, "proxy_url": proxy.url}
        assert await listed(server, tls_server_name="kube.example", **changes) == EMPTY
        with pytest.raises(ConnectionLost):
            await listed(server, **changes)
    assert [call.method for call in proxy.calls] == ["CONNECT", "CONNECT"]
    assert proxy.calls[0].header("authorization") is None


async def test_a_client_certificate_as_data_or_as_files(authority: Authority, tmp_path: Path) -> None:
    clients = trustme.CA()
    pair = clients.issue_cert("someone@example.com", common_name="someone")
    certificate, key = pair.cert_chain_pems[0].bytes(), pair.private_key_pem.bytes()
    (tmp_path / "crt").write_bytes(certificate)
    (tmp_path / "key").write_bytes(key)
    pairs = [
        ClientCertificate(certificate, key),
        ClientCertificate(tmp_path / "crt", tmp_path / "key"),
        ClientCertificate(certificate, tmp_path / "key"),
    ]
    async with serving(answering(whole(EMPTY)), authority.server(clients=clients)) as server:
        for each in pairs:
            assert await listed(server, ca_data=authority.pem, credentials=Credentials(None, each)) == EMPTY
        with pytest.raises(ConnectionLost):
            await listed(server, ca_data=authority.pem)
    assert [str(call.peer).count("someone") > 0 for call in server.calls] == [True, True, True]


async def test_key_material_leaves_nothing_behind(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    pair = authority.ca.issue_cert("someone@example.com")
    modes: list[int] = []
    original = ssl.SSLContext.load_cert_chain

    def spy(self: ssl.SSLContext, certfile: Path, keyfile: Path, **rest: object) -> None:
        modes.append(keyfile.stat().st_mode & 0o777)
        original(self, certfile, keyfile, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", spy)
    material = ClientCertificate(pair.cert_chain_pems[0].bytes(), pair.private_key_pem.bytes())
    async with KubeClient(
        Connection("prod", "https://127.0.0.1:9", credentials=Credentials(None, material)), user_agent="x"
    ):
        assert modes == [0o600]
        assert os.listdir(tmp_path) == []
    with pytest.raises(ConfigError):
        await _enter(credentials=Credentials(None, ClientCertificate(b"junk", b"junk")))
    assert os.listdir(tmp_path) == []


async def _enter(**changes: object) -> None:
    connection = Connection("prod", "https://127.0.0.1:9", origin="/etc/kube")
    async with KubeClient(dataclasses.replace(connection, **changes), user_agent="x"):  # type: ignore[arg-type]
        pass


async def test_what_cannot_be_used_says_which_file(authority: Authority, tmp_path: Path) -> None:
    one, other = (authority.ca.issue_cert(f"{name}@example.com") for name in "ab")
    certificate, key = one.cert_chain_pems[0].bytes(), other.private_key_pem.bytes()
    locked = serialization.load_pem_private_key(key, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    missing = tmp_path / "missing"
    problems: dict[str, dict[str, object]] = {
        "missing": {"ca_file": missing},
        "certificate-authority-data": {"ca_data": b"junk"},
        "fit": {"credentials": Credentials(None, ClientCertificate(certificate, key))},
        "encrypted": {"credentials": Credentials(None, ClientCertificate(certificate, locked))},
        "No such file": {"credentials": Credentials(None, ClientCertificate(missing, missing))},
    }
    for text, changes in problems.items():
        with pytest.raises(ConfigError, match=text) as caught:
            await _enter(**changes)
        assert "PRIVATE" not in str(caught.value)


# --- rotation ---------------------------------------------------------------------------------------


def replace(path: Path, data: bytes) -> None:
    """As a kubelet does: a new file under the old name."""
    fresh = path.with_name("fresh")
    fresh.write_bytes(data)
    fresh.replace(path)


class Hands:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


@contextlib.asynccontextmanager
async def rotating(
    server: Server, file: Path, on_warning: Callable[[str], None] = lambda _: None
) -> AsyncIterator[tuple[KubeClient, Hands]]:
    hands = Hands()
    connection = Connection("prod", server.url, ca_file=file)
    async with KubeClient(connection, user_agent="x", on_warning=on_warning, monotonic=hands) as kube:
        yield kube, hands


async def test_a_rotated_authority_is_used_without_a_restart(tmp_path: Path) -> None:
    old, new, file = Authority(), Authority(), tmp_path / "ca.crt"
    file.write_bytes(old.pem)
    async with (
        serving(answering(whole(EMPTY)), new.server()) as server,
        rotating(server, file) as (kube, hands),
    ):
        with pytest.raises(ConnectionLost):
            await kube.list(STREAM, ListRequest())
        replace(file, new.pem)
        with pytest.raises(ConnectionLost):
            await kube.list(STREAM, ListRequest())
        hands.time = 5.0
        assert await kube.list(STREAM, ListRequest()) == EMPTY


async def test_a_rotation_caught_half_way_keeps_what_works(authority: Authority, tmp_path: Path) -> None:
    file, told = tmp_path / "ca.crt", list[str]()
    file.write_bytes(authority.pem)
    async with (
        serving(answering(whole(EMPTY)), authority.server()) as server,
        rotating(server, file, told.append) as (kube, hands),
    ):
        for content in (b"", b"junk"):
            replace(file, content)
            hands.time += 5
            assert await kube.list(STREAM, ListRequest()) == EMPTY
        file.unlink()
        hands.time += 5
        assert await kube.list(STREAM, ListRequest()) == EMPTY
        file.write_bytes(authority.pem)
        hands.time += 5
        assert await kube.list(STREAM, ListRequest()) == EMPTY
        assert server.connections == 2, "the file is another: its readers begin anew"
    assert len(told) == 2
    assert all(str(file) in text for text in told)


async def test_a_rotated_client_certificate_is_used_once_both_files_are_there(
    authority: Authority, tmp_path: Path
) -> None:
    clients, hands = trustme.CA(), Hands()
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"

    def rotate(name: str, *, whole: bool = True) -> trustme.LeafCert:
        pair = clients.issue_cert(f"{name}@example.com", common_name=name)
        replace(certificate, pair.cert_chain_pems[0].bytes())
        if whole:
            replace(key, pair.private_key_pem.bytes())
        return pair

    rotate("first")
    credentials = Credentials(None, ClientCertificate(certificate, key))
    async with serving(answering(whole(EMPTY)), authority.server(clients=clients)) as server:
        connection = Connection("prod", server.url, ca_data=authority.pem, credentials=credentials)
        async with KubeClient(connection, user_agent="x", monotonic=hands) as kube:
            await kube.list(STREAM, ListRequest())
            pair = rotate("second", whole=False)
            hands.time += 5
            await kube.list(STREAM, ListRequest())
            replace(key, pair.private_key_pem.bytes())
            hands.time += 5
            await kube.list(STREAM, ListRequest())
    peers = [str(call.peer) for call in server.calls]
    assert ["second" in peer for peer in peers] == [False, False, True]


async def test_a_watch_outlives_a_rotation_and_its_pool_then_closes(
    authority: Authority, tmp_path: Path
) -> None:
    file = tmp_path / "ca.crt"
    file.write_bytes(authority.pem)
    go_on = asyncio.Event()

    async def handler(call: Call, writer: asyncio.StreamWriter) -> None:
        if "watch" not in call.query:
            writer.write(whole(EMPTY))
            return
        writer.write(CHUNKED + chunk(b"1\n"))
        await go_on.wait()
        writer.write(chunk(b"2\n") + chunk(b""))

    async with serving(handler, authority.server()) as server, rotating(server, file) as (kube, hands):
        async with kube.watch(STREAM, WatchRequest("7", 300)) as chunks:
            assert await anext(chunks) == b"1\n"
            replace(file, authority.pem)
            hands.time = 5.0
            assert await kube.list(STREAM, ListRequest()) == EMPTY
            assert server.ended == 0
            go_on.set()
            assert b"".join([piece async for piece in chunks]) == b"2\n"
        await until(lambda: server.ended == 1)
        assert await kube.list(STREAM, ListRequest()) == EMPTY
        assert server.connections == 2


# --- errors -----------------------------------------------------------------------------------------


def exceptions_of(module: object) -> list[type[Exception]]:
    members = (member for _, member in inspect.getmembers(module, inspect.isclass))
    return [member for member in members if issubclass(member, Exception)]


@pytest.mark.parametrize(
    "kind",
    [
        *exceptions_of(httpx),
        *exceptions_of(httpcore),
        *exceptions_of(ssl),
        OSError,
        TimeoutError,
        socket.gaierror,
    ],
)
async def test_every_network_exception_is_ours_at_the_edge(
    kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> None:
        error = kind.__new__(kind)
        error.args = ("Bearer s3cret",) if "LocalProtocol" in kind.__name__ else ("boom",)
        raise error

    monkeypatch.setattr(httpx.AsyncClient, "send", fail)
    async with KubeClient(Connection("prod", "https://127.0.0.1:9"), user_agent="x") as kube:
        with pytest.raises(ConnectionLost, match=r"GET /version on prod: .") as caught:
            await kube.get("/version")
    assert "s3cret" not in str(caught.value)


def test_sockets_notice_a_dead_peer() -> None:
    options = {(level, name): value for level, name, value in transport.socket_options()}
    assert options[socket.SOL_SOCKET, socket.SO_KEEPALIVE] == 1
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        assert options[socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT] == 60_000
        assert options[socket.IPPROTO_TCP, socket.TCP_KEEPIDLE] == 30
    with socket.socket() as probe:
        for level, name, value in transport.socket_options():
            probe.setsockopt(level, name, value)
            assert probe.getsockopt(level, name) == value
