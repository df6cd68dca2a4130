"""The `ApiServer` port over HTTP: one cluster's lists, watches and plain GETs.

It knows paths, parameters, headers and which answers are whole. It decides nothing: no retry but the one
after a 401, no backoff, no parsing of objects.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from urllib.parse import quote, urlencode

import httpx
import msgspec

from syncd.core.errors import ApiError, ConnectionLost, ProtocolError, Unauthorized
from syncd.core.mending import decoded
from syncd.core.ports import ListRequest, WatchRequest
from syncd.core.resource import Stream
from syncd.core.status import api_error
from syncd.kube import exec as plugin
from syncd.kube.auth import Exec
from syncd.kube.authenticator import Authenticator
from syncd.kube.connection import Connection, is_loopback
from syncd.kube.encoding import decoder
from syncd.kube.exec_login import ExecLogin, Headers, Proof
from syncd.kube.transport import NETWORK_ERRORS, Transport, lost

JSON = "application/json"
_METADATA_LIST = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{JSON}"
_METADATA_WATCH = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{JSON}"
_ANYTHING = msgspec.json.Decoder(msgspec.Raw)
_ERROR_BODY_LIMIT = 64 * 1024  # bytes; a Status is a few hundred
_ERROR_BODY_SECONDS = 5.0
_WRITE_SECONDS = 30.0
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
_WARNINGS_REMEMBERED = 1000


@dataclass(frozen=True, slots=True)
class Timing:
    """The client's times, in seconds.

    `read` is between two bytes of a list: the server itself gives up after 60 s (list-watch.md §1).
    `check_files` is the least time between two looks at the TLS files; `login` bounds a run of an exec
    plugin, for which client-go has no bound.
    """

    connect: float = 30.0
    read: float = 65.0
    check_files: float = 5.0
    login: float = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer of 200, or of 304 with an empty body."""

    status: int
    content_type: str
    etag: str
    body: bytes


@dataclass(frozen=True, slots=True)
class _Ask:
    """One request, as it will be sent; a POST where there is a body."""

    path: str
    query: Mapping[str, str]
    accept: str = JSON
    etag: str = ""
    watch: bool = False
    body: bytes = b""

    @property
    def method(self) -> str:
        return "POST" if self.body else "GET"


class KubeClient:
    """Speaks to one API server. An async context manager: entering reads the TLS files (ConfigError),
    leaving closes every connection. Watches are never compressed; lists may be, save over loopback.

    Args:
        user_agent: `syncd/x.y`; never one that begins like a browser's or curl's, for which the server
            prints its JSON indented.
        on_warning: called once for each distinct text of a `Warning: 299` header, and when rotated TLS
            files cannot be used or a credential cannot be replaced in time.
        monotonic: seconds, for the token's age and the look at the TLS files.
        wall: seconds since 1970, for the end of an exec plugin's credential.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        user_agent: str,
        on_warning: Callable[[str], None] | None = None,
        timing: Timing = Timing(),
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.connection = connection
        self._user_agent = user_agent
        # Over loopback gzip costs both ends CPU and saves nothing.
        local = is_loopback(httpx.URL(connection.server).host) and not connection.proxy_url
        self._compress = not (local or connection.disable_compression)
        self._on_warning = on_warning
        self._warned: set[str] = set()
        self._transport = Transport(
            connection,
            httpx.Timeout(connect=timing.connect, read=timing.read, write=_WRITE_SECONDS, pool=None),
            check_every=timing.check_files,
            on_problem=self._warn,
            monotonic=monotonic,
        )
        login = connection.credentials.login
        runner = self._runner(login, timing, monotonic, wall) if isinstance(login, Exec) else None
        self._authenticator = Authenticator(login, runner, monotonic=monotonic)

    def _runner(
        self, login: Exec, timing: Timing, monotonic: Callable[[], float], wall: Callable[[], float]
    ) -> ExecLogin:
        return ExecLogin(
            login,
            request=lambda: plugin.request(login, self.connection),
            present=self._transport.present,
            on_problem=self._warn,
            timeout=timing.login,
            monotonic=monotonic,
            wall=wall,
        )

    async def __aenter__(self) -> KubeClient:
        self._transport.open()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._authenticator.aclose()
        await self._transport.aclose()

    async def list(self, stream: Stream, request: ListRequest, *, metadata_only: bool = False) -> bytes:
        """The port's `list`. `metadata_only` asks for PartialObjectMetadata; a server without it sends the
        objects whole.
        """
        fields = ",".join(filter(None, (stream.field_selector, request.field_selector)))
        query = {
            "labelSelector": stream.label_selector,
            "fieldSelector": fields,
            "limit": "" if request.limit is None else str(request.limit),
            "continue": request.continue_token or "",
        }
        accept = _METADATA_LIST if metadata_only else JSON
        path = stream.resource.path(stream.namespace)
        ask = _Ask(path, {key: value for key, value in query.items() if value}, accept)
        answer = await self._whole(ask)
        if not _is_json(answer.content_type):
            raise ProtocolError(f"{self._what(ask)}: a list came as {answer.content_type[:80]!r}")
        return answer.body

    @contextlib.asynccontextmanager
    async def watch(
        self, stream: Stream, request: WatchRequest, *, metadata_only: bool = False
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """The port's `watch`; `metadata_only` as in `list`."""
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(request.timeout_seconds),
            **_position(request),
            "labelSelector": stream.label_selector,
            "fieldSelector": stream.field_selector,
        }
        accept = _METADATA_WATCH if metadata_only else JSON
        path = stream.resource.path(stream.namespace)
        ask = _Ask(path, {key: value for key, value in query.items() if value}, accept, watch=True)
        async with self._opened(ask) as response:
            chunks = self._body(response, ask)
            try:
                content_type = response.headers.get("content-type", "")
                if not _is_json(content_type):
                    raise ProtocolError(f"{self._what(ask)}: a watch came as {content_type[:80]!r}")
                yield chunks
            finally:
                await chunks.aclose()

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """The port's `get`."""
        return (await self._whole(_Ask(path, query or {}))).body

    async def fetch(self, path: str, *, accept: str = JSON, etag: str = "") -> Answer:
        """A GET whose answer's type and ETag matter; with `etag`, 304 is an answer too."""
        return await self._whole(_Ask(path, {}, accept, etag))

    async def post(self, path: str, body: bytes) -> bytes:
        """The body of a 2xx answer to a POST of JSON: for reviews, which store nothing."""
        return (await self._whole(_Ask(path, {}, body=body))).body

    async def _whole(self, ask: _Ask) -> Answer:
        async with self._opened(ask) as response:
            body = b"".join([chunk async for chunk in self._body(response, ask)])
        content_type = response.headers.get("content-type", "")
        if response.status_code != 304 and _is_json(content_type):
            self._check_document(body, ask)
        return Answer(response.status_code, content_type, response.headers.get("etag", ""), body)

    def _check_document(self, body: bytes, ask: _Ask) -> None:
        """A proxy can end a truncated body cleanly: only a complete JSON document counts.
        (0.3 ms a megabyte: the values are skipped over, not built.)
        """
        try:
            decoded(_ANYTHING, body)
        except (msgspec.DecodeError, UnicodeDecodeError) as exc:
            raise ConnectionLost(
                f"{self._what(ask)}: the body is not a complete JSON document: {exc}", connected=True
            ) from exc

    @contextlib.asynccontextmanager
    async def _opened(self, ask: _Ask) -> AsyncGenerator[httpx.Response, None]:
        """The answer with its body unread; a 401 is tried once more with credentials made afresh, over
        other connections where those have a new certificate.
        """
        async with contextlib.AsyncExitStack() as stack:
            try:
                response = await stack.enter_async_context(self._once(ask))
            except Unauthorized:
                response = await stack.enter_async_context(self._once(ask))
            yield response

    @contextlib.asynccontextmanager
    async def _once(self, ask: _Ask) -> AsyncGenerator[httpx.Response, None]:
        proof = await self._authenticator.proof()  # first: it may put other pools in place
        async with self._transport.lease() as pools:
            try:
                async with pools.watching() if ask.watch else contextlib.nullcontext(pools.lists) as client:
                    response = await self._attempt(client, ask, proof)
                    try:
                        yield response
                    finally:
                        await _close(response)
            except asyncio.CancelledError:
                if not ask.watch:
                    self._transport.abandon(pools)
                raise

    async def _attempt(self, client: httpx.AsyncClient, ask: _Ask, proof: Proof) -> httpx.Response:
        headers = [*self._headers(ask), *proof.headers]
        query = f"?{urlencode(ask.query, quote_via=quote)}" if ask.query else ""
        url = f"{self.connection.server}{quote(ask.path)}{query}"
        # As bytes: httpx would refuse a name to act as that is not ASCII, and quote it.
        raw = [(name.encode("ascii"), value.encode()) for name, value in headers]
        if client.is_closed:  # between two attempts, while we shut down
            raise ConnectionLost(f"{self._what(ask)}: the client is closed")
        try:
            response = await client.send(
                client.build_request(ask.method, url, headers=raw, content=ask.body or None), stream=True
            )
        except NETWORK_ERRORS as exc:
            raise lost(exc, self._what(ask), connected=False) from exc
        for header in response.headers.get_list("warning"):
            for match in _WARNING.finditer(header):
                self._warn(re.sub(r"\\(.)", r"\1", match[1]))
        if response.is_success or (response.status_code == 304 and ask.etag):
            return response
        if response.status_code == 401:
            self._authenticator.rejected(proof)
        raise await self._refusal(response, ask)

    def _headers(self, ask: _Ask) -> Headers:
        plain = ask.watch or not self._compress
        headers = [
            ("Accept", ask.accept),
            ("Accept-Encoding", "identity" if plain else "gzip"),
            ("User-Agent", self._user_agent),
            *self.connection.impersonation.headers(),
        ]
        if ask.body:
            headers.append(("Content-Type", JSON))
        return [*headers, ("If-None-Match", ask.etag)] if ask.etag else headers

    async def _body(self, response: httpx.Response, ask: _Ask) -> AsyncGenerator[bytes, None]:
        """The decoded body to its clean end; anything short of that is ConnectionLost."""
        decode = decoder(response.headers.get("content-encoding", ""))
        try:
            async for chunk in response.aiter_raw():
                for piece in decode.feed(chunk):
                    yield piece
        except NETWORK_ERRORS as exc:
            raise lost(exc, self._what(ask), connected=True) from exc
        if not decode.complete:
            raise ConnectionLost(f"{self._what(ask)}: the gzip body ends too early", connected=True)

    async def _refusal(self, response: httpx.Response, ask: _Ask) -> ApiError:
        """The error that an answer means. Its body is read for a moment only: the status says enough."""
        body = bytearray()
        chunks = self._body(response, ask)
        try:
            with contextlib.suppress(ConnectionLost, ProtocolError, TimeoutError):
                async with asyncio.timeout(_ERROR_BODY_SECONDS):
                    async for chunk in chunks:
                        body += chunk
                        if len(body) >= _ERROR_BODY_LIMIT:
                            break
        finally:
            await chunks.aclose()
            await _close(response)
        answered = api_error(bytes(body), response.status_code, response.headers.get("retry-after"))
        return type(answered)(
            answered.status,
            answered.reason,
            f"{answered.message or response.reason_phrase} ({self._what(ask)})",
            retry_after=answered.retry_after,
            continue_token=answered.continue_token,
        )

    def _what(self, ask: _Ask) -> str:
        return f"{'WATCH' if ask.watch else ask.method} {ask.path} on {self.connection.name}"

    def _warn(self, text: str) -> None:
        if self._on_warning is None or text in self._warned:
            return
        if len(self._warned) >= _WARNINGS_REMEMBERED:
            self._warned.clear()
        self._warned.add(text)
        self._on_warning(text)


def _position(request: WatchRequest) -> dict[str, str]:
    """From where to watch. "0" and no version at all would let the server choose (list-watch.md §0.4)."""
    if request.initial_events:
        return {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    if request.resource_version in (None, "", "0"):
        raise ProtocolError("a watch without initial events needs a version to begin after")
    return {"resourceVersion": str(request.resource_version)}


def _is_json(content_type: str) -> bool:
    return content_type.split(";")[0].strip().lower() == JSON


async def _close(response: httpx.Response) -> None:
    with contextlib.suppress(*NETWORK_ERRORS):
        await response.aclose()
