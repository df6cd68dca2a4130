"""Exec plugins that are real children, before a server over real TLS: what they are told, what they answer,
how often they run."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import ssl
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme

from syncd.core.errors import ConnectionLost, LoginFailed, Unauthorized
from syncd.core.ports import ListRequest, WatchRequest
from syncd.kube.auth import Credentials, Exec
from syncd.kube.client import KubeClient, Timing
from syncd.kube.connection import Connection

from .plugins import V1, V1BETA1, Plugin, credential, plugin
from .server import CHUNKED, STREAM, Call, Handler, Server, chunk, serving, status_body, until, whole

EMPTY = b'{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[]}'
REFUSED = whole(status_body(401, "Unauthorized", "Unauthorized"), status="401 Unauthorized")
SECRET = "hunter2-S3cret-0123456789"


class Hands:
    """A clock that a test turns."""

    def __init__(self, time: float = 0.0) -> None:
        self.time = time

    def __call__(self) -> float:
        return self.time


class Authority:
    """Certificates of one authority, for a server and for those who log in."""

    def __init__(self) -> None:
        self.ca = trustme.CA()
        self.pem = self.ca.cert_pem.bytes()

    def server(self, *, clients: bool = False) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.ca.issue_cert("127.0.0.1").configure_cert(context)
        if clients:
            self.ca.configure_trust(context)
            context.verify_mode = ssl.CERT_OPTIONAL  # as an API server: who shows none is anonymous
        return context

    def pair(self, name: str) -> dict[str, str]:
        """A client's certificate and key, as a plugin prints them."""
        leaf = self.ca.issue_cert(f"{name}@example.com", common_name=name)
        chain = b"".join(pem.bytes() for pem in leaf.cert_chain_pems)
        return {
            "clientCertificateData": chain.decode(),
            "clientKeyData": leaf.private_key_pem.bytes().decode(),
        }


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


class Cluster:
    """A server that lets in who shows a good token or a certificate of a good name."""

    def __init__(self, *good: str) -> None:
        self.good = set(good)

    async def __call__(self, call: Call, writer: asyncio.StreamWriter) -> None:
        token = (call.header("authorization") or "").removeprefix("Bearer ")
        writer.write(whole(EMPTY) if {token, common_name(call)} & self.good else REFUSED)


def common_name(call: Call) -> str:
    subject: Any = (call.peer or {}).get("subject", ())
    return str(dict(pair for parts in subject for pair in parts).get("commonName", ""))


@contextlib.asynccontextmanager
async def logging_in(
    handler: Handler, authority: Authority, login: Exec, **rest: Any
) -> AsyncIterator[tuple[KubeClient, Server]]:
    async with serving(handler, authority.server(clients=True)) as server:
        connection = Connection(
            "prod", server.url, ca_data=authority.pem, credentials=Credentials(login), origin="config"
        )
        async with KubeClient(connection, user_agent="x", **rest) as kube:
            yield kube, server


async def listed(kube: KubeClient) -> bytes:
    return await kube.list(STREAM, ListRequest())


def tokens(server: Server) -> list[str]:
    return [(call.header("authorization") or "").removeprefix("Bearer ") for call in server.calls]


# --- what is said, what is answered -----------------------------------------------------------------


@pytest.mark.parametrize("version", [V1, V1BETA1])
async def test_a_token_is_fetched_once_and_kept(authority: Authority, tmp_path: Path, version: str) -> None:
    script = plugin(tmp_path, credential("one", version=version))
    login = script.login(api_version=version, args=("get", "a token"), env=(("PROFILE", "prod"),))
    async with logging_in(Cluster("one"), authority, login) as (kube, server):
        assert script.runs == [], "not before somebody asks"
        for _ in range(3):
            assert await listed(kube) == EMPTY
    assert tokens(server) == ["one"] * 3
    [run] = script.runs
    assert run["args"] == ["get", "a token"]
    assert run["env"]["PROFILE"] == "prod"
    assert run["env"]["PATH"], "our own environment is passed on"
    assert json.loads(run["env"]["KUBERNETES_EXEC_INFO"]) == {
        "apiVersion": version,
        "kind": "ExecCredential",
        "spec": {"interactive": False},
    }
    assert script.gone()


async def test_the_cluster_is_described_where_it_is_asked_for(authority: Authority, tmp_path: Path) -> None:
    script = plugin(tmp_path, credential("one"))
    login = script.login(
        provide_cluster_info=True,
        cluster_config=b'{"audience":["a"]}',
        env=(("KUBERNETES_EXEC_INFO", "not this"),),
    )
    file = tmp_path / "ca.crt"
    file.write_bytes(authority.pem)
    whole_connection = Connection(
        "prod",
        "https://127.0.0.1:1",
        ca_file=file,
        tls_server_name="kube",
        proxy_url="http://127.0.0.1:9",
        disable_compression=True,
        credentials=Credentials(login),
    )
    bare = Connection(
        "prod", "https://127.0.0.1:1", insecure_skip_tls_verify=True, credentials=Credentials(login)
    )
    for connection in (
        whole_connection,
        replace(bare, credentials=Credentials(replace(login, cluster_config=b""))),
    ):
        async with KubeClient(connection, user_agent="x") as kube:
            with pytest.raises(ConnectionLost, match="refused"):
                await listed(kube)
    told = [json.loads(run["env"]["KUBERNETES_EXEC_INFO"])["spec"]["cluster"] for run in script.runs]
    assert told == [
        {
            "server": "https://127.0.0.1:1",
            "certificate-authority-data": base64.b64encode(authority.pem).decode(),
            "tls-server-name": "kube",
            "proxy-url": "http://127.0.0.1:9",
            "disable-compression": True,
            "config": {"audience": ["a"]},
        },
        {"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": True},
    ]


async def test_a_certificate_and_both_at_once(authority: Authority, tmp_path: Path) -> None:
    pair = authority.pair("someone")
    for number, document in enumerate((credential(**pair), credential("one", **pair))):
        script = plugin(tmp_path / str(number), document)
        async with logging_in(Cluster("someone"), authority, script.login()) as (kube, server):
            assert [await listed(kube), await listed(kube)] == [EMPTY] * 2
            assert server.connections == 1
        assert [common_name(call) for call in server.calls] == ["someone"] * 2
        assert tokens(server) == [["", ""], ["one", "one"]][number]
        assert len(script.runs) == 1


async def test_a_command_is_found_by_its_name(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = plugin(tmp_path, credential("one"))
    login = script.login(command="plugin", env=(("PATH", "/nowhere"),))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin")
    async with logging_in(Cluster("one"), authority, login) as (kube, _):
        assert await listed(kube) == EMPTY
    assert script.runs[0]["env"]["PATH"] == "/nowhere", "it is our own PATH that finds it, as with kubectl"


async def test_over_http_only_a_token_to_a_loopback_address(authority: Authority, tmp_path: Path) -> None:
    async with serving(Cluster("one")) as server:
        for document, error in ((credential("one"), None), (credential(**authority.pair("a")), "over http")):
            script = plugin(tmp_path / str(error), document)
            connection = Connection("sim", server.url, credentials=Credentials(script.login()))
            async with KubeClient(connection, user_agent="x") as kube:
                if error is None:
                    assert await listed(kube) == EMPTY
                else:
                    with pytest.raises(LoginFailed, match=error):
                        await listed(kube)
    assert len(server.calls) == 1


# --- how often it runs ------------------------------------------------------------------------------


async def test_many_requests_are_one_run(authority: Authority, tmp_path: Path) -> None:
    script = plugin(tmp_path, credential("one")).becomes("time.sleep(0.3); answer()")
    cluster = Cluster("one")
    async with logging_in(cluster, authority, script.login()) as (kube, server):
        assert await asyncio.gather(*(listed(kube) for _ in range(20))) == [EMPTY] * 20
        assert len(script.runs) == 1
        cluster.good = {"two"}
        script.prints(credential("two"))
        assert await asyncio.gather(*(listed(kube) for _ in range(20))) == [EMPTY] * 20
        assert len(script.runs) == 2, "twenty 401s are one run too"
    assert tokens(server).count("one") == 40


async def test_a_late_401_does_not_drop_the_credential_that_came_since(
    authority: Authority, tmp_path: Path
) -> None:
    script, cluster, go_on = plugin(tmp_path, credential("old")), Cluster("new"), asyncio.Event()
    hands = Hands()

    async def handler(call: Call, writer: asyncio.StreamWriter) -> None:
        if call.path == "/version" and call.header("authorization") == "Bearer old":
            await go_on.wait()
        await cluster(call, writer)

    async with logging_in(handler, authority, script.login(), monotonic=hands) as (kube, server):
        late = asyncio.create_task(kube.get("/version"))
        await until(lambda: server.calls)
        script.prints(credential("new"))
        assert await listed(kube) == EMPTY
        hands.time = 60.0
        go_on.set()
        assert await late == EMPTY
    assert tokens(server) == ["old", "old", "new", "new"]
    assert len(script.runs) == 2


async def test_a_watch_that_is_refused_logs_in_again(authority: Authority, tmp_path: Path) -> None:
    script = plugin(tmp_path, credential("old"))
    cluster = Cluster("new")

    async def handler(call: Call, writer: asyncio.StreamWriter) -> None:
        if call.header("authorization") == "Bearer old":
            script.prints(credential("new"))
        await cluster(call, writer)

    async with (
        logging_in(handler, authority, script.login()) as (kube, server),
        kube.watch(STREAM, WatchRequest("7", 300)) as chunks,
    ):
        assert b"".join([piece async for piece in chunks]) == EMPTY
    assert tokens(server) == ["old", "new"]


async def test_a_credential_that_is_refused_again_is_left_alone_for_a_while(
    authority: Authority, tmp_path: Path
) -> None:
    script, hands = plugin(tmp_path, credential("bad")), Hands()
    async with logging_in(Cluster("good"), authority, script.login(), monotonic=hands) as (kube, server):
        for _ in range(3):
            with pytest.raises(Unauthorized):
                await listed(kube)
        assert len(script.runs) == 2
        hands.time = 30.0
        script.prints(credential("good"))
        assert await listed(kube) == EMPTY
        assert len(script.runs) == 3
    assert tokens(server)[-2:] == ["bad", "good"]


async def test_a_credential_is_replaced_a_little_before_its_end(authority: Authority, tmp_path: Path) -> None:
    script, wall = plugin(tmp_path, credential("one", 1000)), Hands(now := time.time())
    cluster = Cluster("one", "two", "three")
    async with logging_in(cluster, authority, script.login(), wall=wall) as (kube, server):
        await listed(kube)
        wall.time = now + 969
        await listed(kube)
        assert len(script.runs) == 1
        script.prints(credential("two", 2000))
        wall.time = now + 985
        await listed(kube)
        assert tokens(server) == ["one"] * 3, "nobody waits for a run while the old one is good"
        await listed_as(kube, server, "two")
        assert len(script.runs) == 2
        wall.time = now + 2100
        script.prints(credential("three", 3000))
        await listed(kube)
        assert tokens(server)[-1] == "three", "past its end it is never sent"
        assert len(script.runs) == 3


async def listed_as(kube: KubeClient, server: Server, token: str) -> None:
    """Lists until a request shows the token: a run has consequences a moment after its child is gone."""
    for _ in range(1000):
        await listed(kube)
        if tokens(server)[-1] == token:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{token} was never sent")


async def test_a_failed_early_replacement_is_told_and_the_old_credential_used(
    authority: Authority, tmp_path: Path
) -> None:
    script, wall, monotonic = plugin(tmp_path, credential("one", 1000)), Hands(time.time()), Hands()
    told: list[str] = []
    async with logging_in(
        Cluster("one", "two"),
        authority,
        script.login(),
        wall=wall,
        monotonic=monotonic,
        on_warning=told.append,
    ) as (kube, server):
        await listed(kube)
        script.becomes("sys.exit('away')")
        wall.time += 985
        await listed(kube)
        await until(lambda: told)
        await listed(kube)
        assert tokens(server) == ["one"] * 3
        assert len(script.runs) == 2, "the command rests after a failure"
        script.becomes().prints(credential("two"))
        monotonic.time += 1
        await listed_as(kube, server, "two")
    assert len(told) == 1
    assert "replaced early" in told[0]
    assert "exit code 1: away" in told[0]


async def test_a_credential_that_comes_expired_is_used_for_five_seconds(
    authority: Authority, tmp_path: Path
) -> None:
    script, wall = plugin(tmp_path, credential("one", -3600)), Hands(time.time())
    async with logging_in(Cluster("one"), authority, script.login(), wall=wall) as (kube, _):
        for _ in range(3):
            assert await listed(kube) == EMPTY
        assert len(script.runs) == 1
        wall.time += 5.5
        assert await listed(kube) == EMPTY
        assert len(script.runs) == 2


# --- a certificate that changes ---------------------------------------------------------------------


def watched(go_on: asyncio.Event, cluster: Cluster) -> Handler:
    """Lists are answered by the cluster; a watch says one line and stays open."""

    async def handler(call: Call, writer: asyncio.StreamWriter) -> None:
        if "watch" not in call.query:
            await cluster(call, writer)
            return
        writer.write(CHUNKED + chunk(b"1\n"))
        await go_on.wait()
        writer.write(chunk(b"2\n") + chunk(b""))

    return handler


async def test_a_new_certificate_closes_every_connection_of_the_old_one(
    authority: Authority, tmp_path: Path
) -> None:
    script = plugin(tmp_path, credential(**authority.pair("first")))
    cluster, go_on = Cluster("first"), asyncio.Event()
    async with logging_in(watched(go_on, cluster), authority, script.login()) as (kube, server):
        async with kube.watch(STREAM, WatchRequest("7", 300)) as chunks:
            assert await anext(chunks) == b"1\n"
            await listed(kube)
            assert server.connections == 2
            cluster.good = {"second"}
            script.prints(credential(**authority.pair("second")))
            assert await listed(kube) == EMPTY
            with pytest.raises(ConnectionLost) as caught:
                await anext(chunks)
            assert caught.value.connected
            go_on.set()  # the server looks at its connection again
            await until(lambda: server.ended == 2)
        assert await listed(kube) == EMPTY
        assert server.connections == 3
    assert [common_name(call) for call in server.calls] == ["first", "first", "first", "second", "second"]
    assert len(script.runs) == 2


async def test_the_same_certificate_leaves_connections_alone(authority: Authority, tmp_path: Path) -> None:
    pair, cluster, go_on = authority.pair("someone"), Cluster("one"), asyncio.Event()
    script = plugin(tmp_path, credential("one", **pair))
    async with logging_in(watched(go_on, cluster), authority, script.login()) as (kube, server):
        async with kube.watch(STREAM, WatchRequest("7", 300)) as chunks:
            assert await anext(chunks) == b"1\n"
            await listed(kube)
            cluster.good = {"two"}
            script.prints(credential("two", **pair))
            assert await listed(kube) == EMPTY
            go_on.set()
            assert b"".join([piece async for piece in chunks]) == b"2\n"
        assert server.connections == 2
    assert len(script.runs) == 2


async def test_a_rotated_authority_keeps_the_plugins_certificate(
    authority: Authority, tmp_path: Path
) -> None:
    script, hands, file = plugin(tmp_path, credential(**authority.pair("someone"))), Hands(), tmp_path / "ca"
    file.write_bytes(authority.pem)
    async with serving(Cluster("someone"), authority.server(clients=True)) as server:
        connection = Connection(
            "prod", server.url, ca_file=file, credentials=Credentials(script.login()), origin="config"
        )
        async with KubeClient(connection, user_agent="x", monotonic=hands) as kube:
            await listed(kube)
            file.write_bytes(authority.pem + b"\n")
            hands.time = 5.0
            assert await listed(kube) == EMPTY
    assert server.connections == 2
    assert len(script.runs) == 1


# --- failures ---------------------------------------------------------------------------------------

FAILURES: dict[str, tuple[str, str]] = {
    "exit code": ("sys.stderr.write('first\\nlast\\n\\n'); sys.exit(3)", "ended with exit code 3: last$"),
    "silent": ("sys.exit(4)", "ended with exit code 4: it wrote nothing to stderr, try it by hand"),
    "exit code despite an answer": ("answer(); sys.exit(1)", "ended with exit code 1"),
    "signal": ("os.kill(os.getpid(), 9)", "was ended by SIGKILL"),
    "no JSON": (f"print('{SECRET}')", r"printed no ExecCredential in JSON \(JSON is malformed"),
    "nothing": ("", "printed no ExecCredential in JSON"),
    "no UTF-8": ('sys.stdout.buffer.write(b\'{"kind":"\\xff"}\')', "printed no ExecCredential in JSON"),
    "deep": ("print('{\"status\":' + '[' * 100000)", "printed no ExecCredential in JSON"),
    "flood": ("while True: print('x' * 65536)", "wrote more than 1024 KiB and was killed"),
}


@pytest.mark.parametrize(("body", "text"), FAILURES.values(), ids=FAILURES.keys())
async def test_a_command_that_fails(authority: Authority, tmp_path: Path, body: str, text: str) -> None:
    script = plugin(tmp_path, credential(SECRET)).becomes(body)
    message = await failure(authority, script)
    assert_matches(message, f"the command '{script.command}' {text}")


def document(**changes: object) -> dict[str, Any]:
    return {**credential(SECRET), **changes}


ODD: dict[str, tuple[object, str]] = {
    "other version": (document(apiVersion=V1BETA1), f"printed {V1BETA1} where .* exec entry says {V1}"),
    "odd version": (document(apiVersion=SECRET), "printed another apiVersion where"),
    "no version": (document(apiVersion=None), "printed another apiVersion where"),
    "other kind": (document(kind=SECRET), "a document of another kind than ExecCredential"),
    "no status": (document(status=None), "neither a token nor a client certificate"),
    "empty": (credential(""), "neither a token nor a client certificate"),
    "token no text": (
        document(status={"token": 5}),
        r"Expected `str \| null`, got `int` - at `\$.status.token`",
    ),
    "token no header": (credential(f"{SECRET}\r\nX-Evil: 1"), "an unusable token: a token must be printable"),
    "half a pair": (credential(SECRET, clientKeyData=SECRET), "a client certificate or its key without"),
    "expiry no time": (credential(SECRET, expirationTimestamp=SECRET), "Invalid RFC3339 encoded datetime"),
    "expiry without a zone": (credential(SECRET, expirationTimestamp="2030-01-01T00:00:00"), "timezone"),
    "no PEM": (
        credential(clientCertificateData=SECRET, clientKeyData=SECRET),
        "cannot be used: config: cluster 'prod': the client certificate and its key do not fit",
    ),
}


@pytest.mark.parametrize(("answer", "text"), ODD.values(), ids=ODD.keys())
async def test_an_odd_answer(authority: Authority, tmp_path: Path, answer: object, text: str) -> None:
    assert_matches(await failure(authority, plugin(tmp_path, answer)), text)


async def test_a_certificate_with_anothers_key(authority: Authority, tmp_path: Path) -> None:
    mixed = {**authority.pair("a"), "clientKeyData": authority.pair("b")["clientKeyData"]}
    message = await failure(authority, plugin(tmp_path, credential(**mixed)))
    assert "do not fit each other" in message
    assert "PRIVATE" not in message


async def failure(authority: Authority, script: Plugin, /, login: Exec | None = None, **rest: Any) -> str:
    """The message with which a list fails. No secret is in it, nor in anything that a log could show."""
    login = login or script.login()
    async with logging_in(Cluster(SECRET), authority, login, **rest) as (kube, server):
        with pytest.raises(LoginFailed) as caught:
            await listed(kube)
        shown = [str(caught.value), repr(caught.value), repr(kube.connection), repr(login)]
        cause: BaseException | None = caught.value
        while cause is not None:
            shown += [str(cause), repr(cause)]
            cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    assert SECRET not in "".join(shown)
    assert server.calls == []
    assert script.gone()
    return str(caught.value)


def assert_matches(message: str, text: str) -> None:
    with pytest.raises(LoginFailed, match=text):
        raise LoginFailed(message)


async def test_a_command_that_does_not_end_is_killed(authority: Authority, tmp_path: Path) -> None:
    script = plugin(tmp_path).becomes("print('waiting', file=sys.stderr, flush=True); time.sleep(600)")
    for seconds in (2, 10, 60):  # a busy machine may not get as far as the first line in time
        message = await failure(authority, script, timing=Timing(login=float(seconds)))
        assert f"'{script.command}' did not end within {seconds} s and was killed: " in message
        if message.endswith("killed: waiting"):
            return
    raise AssertionError(message)


@pytest.mark.parametrize("hint", ["", "get it from the store"])
async def test_a_command_that_is_missing(authority: Authority, tmp_path: Path, hint: str) -> None:
    script = plugin(tmp_path)
    (tmp_path / "plain").write_text("")
    for command in ("no-such-command", str(tmp_path / "none"), str(tmp_path / "plain")):
        message = await failure(authority, script, script.login(command=command, install_hint=hint))
        assert message == f"the command {command!r} is not there or may not be executed: " + (
            hint or "install it, or correct exec.command"
        )


async def test_what_the_system_refuses_to_run(authority: Authority, tmp_path: Path) -> None:
    script = plugin(tmp_path)
    (tmp_path / "plain").write_text("x")
    (tmp_path / "plain").chmod(0o755)
    message = await failure(authority, script, script.login(command=str(tmp_path / "plain")))
    assert "cannot be run: Exec format error" in message
    for changes in ({"args": (f"{SECRET}\0",)}, {"env": (("A", f"{SECRET}\ud800"),)}):
        message = await failure(authority, script, script.login(**changes))
        assert "args or env hold a character" in message


async def test_an_authority_to_pass_on_that_cannot_be_read(authority: Authority, tmp_path: Path) -> None:
    script, file = plugin(tmp_path, credential("one")), tmp_path / "ca"
    file.write_bytes(authority.pem)
    login = Credentials(script.login(provide_cluster_info=True))
    async with KubeClient(
        Connection("a", "https://a", ca_file=file, credentials=login), user_agent="x"
    ) as kube:
        file.unlink()
        with pytest.raises(LoginFailed, match=f"{file} cannot be read: No such file"):
            await listed(kube)


async def test_stderr_is_shown_without_noise_length_or_secrets(authority: Authority, tmp_path: Path) -> None:
    script = plugin(tmp_path, credential(SECRET))
    login = script.login(
        args=("--client-secret", "argument-s3", "--password=argument-p4", "--profile", "prod"),
        env=(("MY_TOKEN", "variable-v5"), ("REGION", "eu-1")),
    )
    said = (
        f"\\x1b[31merror\\x1b[0m: prod in eu-1 said no to argument-s3, argument-p4, variable-v5 and "
        f"{SECRET}; Authorization: Bearer abcdefgh12345678, https://me:pw@host " + "and so on " * 100
    )
    script.becomes(
        "sys.stderr.write('debug: noise\\n' * 100000); answer()\n"
        f"sys.stderr.write('{said}\\n   \\n\\n'); sys.exit(255)"
    )
    message = await failure(authority, script, login)
    head, _, line = message.partition(" ended with exit code 255: ")
    assert head == f"the command '{script.command}'"
    assert line.startswith(
        "error: prod in eu-1 said no to ***, ***, *** and ***; Authorization: Bearer ***, "
    )
    assert "https://me:***@host and so on" in line
    assert len(line) == 256
    assert line.endswith("…")


async def test_after_a_failure_the_command_rests_and_then_heals(authority: Authority, tmp_path: Path) -> None:
    failing = "time.sleep(0.2); sys.exit(1)"
    script, hands, cluster = plugin(tmp_path, credential("one")).becomes(failing), Hands(), Cluster("one")
    async with logging_in(cluster, authority, script.login(), monotonic=hands) as (kube, _):

        async def fails() -> int:
            results = await asyncio.gather(*(listed(kube) for _ in range(5)), return_exceptions=True)
            assert {type(each) for each in results} == {LoginFailed}
            assert len({str(each) for each in results}) == 1
            assert len({id(each) for each in results}) == 5, "each has a traceback of its own"
            return len(script.runs)

        assert [await fails(), await fails()] == [1, 1]
        hands.time += 0.8
        assert [await fails(), await fails()] == [2, 2]
        hands.time += 0.8
        assert await fails() == 2
        hands.time += 0.8
        assert await fails() == 3
        script.becomes()
        hands.time += 30.0
        assert await listed(kube) == EMPTY
        cluster.good.clear()
        script.becomes(failing)
        assert await fails() == 5
        hands.time += 0.8
        assert await fails() == 6, "success begins the count anew"


# --- cancelled and closed ---------------------------------------------------------------------------

HANGS = "open(os.path.join(place, 'up'), 'w').close(); time.sleep(600)"


async def hanging(kube: KubeClient, script: Plugin, count: int) -> list[asyncio.Task[bytes]]:
    tasks = [asyncio.create_task(listed(kube)) for _ in range(count)]
    await until((script.place / "up").exists)
    return tasks


async def test_the_last_one_to_be_cancelled_takes_the_child_with_him(
    authority: Authority, tmp_path: Path
) -> None:
    script = plugin(tmp_path, credential("one")).becomes(HANGS)
    async with logging_in(Cluster("one"), authority, script.login()) as (kube, _):
        first, second = await hanging(kube, script, 2)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert not script.gone(), "somebody still waits for it"
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        await until(script.gone)
        script.becomes()
        assert await listed(kube) == EMPTY
    assert len(script.runs) == 2


async def test_closing_the_client_ends_the_child_and_who_waits_for_it(
    authority: Authority, tmp_path: Path
) -> None:
    script = plugin(tmp_path).becomes(HANGS)
    async with logging_in(Cluster(), authority, script.login()) as (kube, _):
        [waiting] = await hanging(kube, script, 1)
        await kube.__aexit__(None, None, None)
        assert script.gone()
        with pytest.raises(LoginFailed, match="the client is closing"):
            await waiting
        with pytest.raises(LoginFailed, match="the client is closed"):
            await listed(kube)
    assert len(script.runs) == 1
