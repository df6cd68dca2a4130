"""httpx clients over one TLS context, their replacement as certificate files rotate, and the one place where
the exceptions of the network become ours.

Watches and lists have clients of their own: a page never waits for, or shares the fate of, a stream's
connection. HTTP/1.1 only: over HTTP/2 all streams share one TCP connection, and httpx has no idle PING to
notice that it is dead (list-watch.md §7).
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpcore
import httpx

from syncd.core.errors import ConfigError, ConnectionLost
from syncd.kube.auth import ClientCertificate, Credentials
from syncd.kube.connection import Connection
from syncd.kube.tls import Fingerprint, fingerprint, tls_context

_KEEPALIVE_IDLE = 30  # seconds of silence before the first probe, as client-go's PING
_KEEPALIVE_INTERVAL = 10
_KEEPALIVE_COUNT = 3  # so a dead peer is noticed after 30 + 3 × 10 = 60 s
_USER_TIMEOUT_MS = 60_000  # the same for bytes that are sent and never acknowledged

NETWORK_ERRORS: tuple[type[Exception], ...] = (
    httpx.HTTPError,
    httpx.InvalidURL,
    httpx.CookieConflict,
    httpx.StreamError,
    httpcore.ConnectionNotAvailable,
    httpcore.UnsupportedProtocol,
    httpcore.ProxyError,
    httpcore.ProtocolError,
    httpcore.TimeoutException,
    httpcore.NetworkError,
    OSError,  # ssl.SSLError and TimeoutError are among them
)
"""Every exception with which a request can fail below us; a test walks the libraries' trees."""


def lost(exc: Exception, what: str, *, connected: bool) -> ConnectionLost:
    """`ConnectionLost` for a network exception; `what` names method, path and cluster."""
    return ConnectionLost(f"{what}: {_described(exc)}", connected=connected)


_HINTS = {
    "CERTIFICATE_VERIFY_FAILED": "check certificate-authority and tls-server-name",
    "WRONG_VERSION_NUMBER": "that port does not speak TLS: is its URL http://, or its port another?",
}


def _described(exc: Exception) -> str:
    if isinstance(exc, httpx.LocalProtocolError | httpcore.LocalProtocolError):
        return "the request cannot be sent as it is"  # the library quotes the header, a token perhaps
    if isinstance(exc, httpx.ConnectTimeout):
        return "timed out while connecting"
    if isinstance(exc, httpx.TimeoutException | TimeoutError):
        return "timed out while waiting for the next bytes"
    text = _system_error(exc) or str(exc) or type(exc).__name__
    hints = (hint for sign, hint in _HINTS.items() if sign in text)
    return ": ".join((text, *hints))


def _system_error(exc: BaseException | None) -> str:
    """What the operating system said, deep below "all connection attempts failed"."""
    while exc is not None:
        if isinstance(exc, OSError) and not isinstance(exc, ssl.SSLError) and exc.strerror:
            # asyncio writes a text of its own ("Connect call failed"); a resolver's numbers are negative
            return os.strerror(exc.errno) if exc.errno is not None and exc.errno > 0 else exc.strerror
        inner = exc.exceptions if isinstance(exc, BaseExceptionGroup) else ()
        exc = inner[0] if inner else exc.__cause__ or exc.__context__
    return ""


def socket_options() -> list[tuple[int, int, int]]:
    """Keepalive probes, and a bound on unacknowledged bytes, where the platform has them."""
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    wanted = {
        "TCP_KEEPIDLE": _KEEPALIVE_IDLE,
        "TCP_KEEPALIVE": _KEEPALIVE_IDLE,  # macOS's name for the same
        "TCP_KEEPINTVL": _KEEPALIVE_INTERVAL,
        "TCP_KEEPCNT": _KEEPALIVE_COUNT,
        "TCP_USER_TIMEOUT": _USER_TIMEOUT_MS,
    }
    options += [
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in wanted.items()
        if hasattr(socket, name)
    ]
    return options


class Pools:
    """Connections made from one reading of the TLS files: a client for lists, and one for each watch.

    A watch has its own, since httpcore keeps a connection for ever whose request was cancelled at the wrong
    moment (just after the handshake): closing the client is the only sure way to close the connection.
    """

    def __init__(self, connection: Connection, timeout: httpx.Timeout, context: ssl.SSLContext) -> None:
        self._connection = connection
        self._timeout = timeout
        self._context = context
        self._watches: set[httpx.AsyncClient] = set()
        self.lists = _client(connection, context, timeout)
        self.users = 0
        self.retired = False

    def renewed(self) -> Pools:
        """New connections from the same reading."""
        return Pools(self._connection, self._timeout, self._context)

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[httpx.AsyncClient]:
        """A client for one watch, whose connection is closed when the block ends.

        It has no read timeout: the engine has a watchdog of its own, and a quiet watch is not a broken one.
        """
        timeout = httpx.Timeout(
            connect=self._timeout.connect, read=None, write=self._timeout.write, pool=None
        )
        client = _client(self._connection, self._context, timeout)
        self._watches.add(client)
        try:
            yield client
        finally:
            self._watches.discard(client)
            with contextlib.suppress(*NETWORK_ERRORS):
                await client.aclose()

    async def aclose(self) -> None:
        """Closes everything, watches in use too."""
        for client in (self.lists, *self._watches):
            with contextlib.suppress(*NETWORK_ERRORS):
                await client.aclose()


def _client(connection: Connection, context: ssl.SSLContext, timeout: httpx.Timeout) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=8)
    transport = httpx.AsyncHTTPTransport(
        verify=context,
        trust_env=False,
        limits=limits,
        proxy=connection.proxy_url or None,
        socket_options=socket_options(),
    )
    return httpx.AsyncClient(
        transport=transport,
        timeout=timeout,
        follow_redirects=False,  # a redirect would carry the credentials elsewhere
        trust_env=False,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
    )


class Transport:
    """The current pools of one cluster.

    Before a request, and at most every `check_every` seconds, the CA, certificate and key files are looked
    at; when one has changed, new pools take over and the old ones close as their last user leaves. Files
    that cannot be used (a rotation caught half-way) leave the old pools in place until the next look.
    """

    def __init__(
        self,
        connection: Connection,
        timeout: httpx.Timeout,
        *,
        check_every: float,
        on_problem: Callable[[str], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._timeout = timeout
        self._check_every = check_every
        self._on_problem = on_problem
        self._monotonic = monotonic
        self._current: Pools | None = None
        self._retired: set[Pools] = set()
        self._fingerprint: Fingerprint = ()
        self._check_at = 0.0

    def open(self) -> None:
        """Reads the TLS files. Raises ConfigError where they cannot be used."""
        self._fingerprint = fingerprint(self._connection)  # before reading: a change meanwhile is seen later
        self._current = Pools(self._connection, self._timeout, tls_context(self._connection))
        self._check_at = self._monotonic() + self._check_every

    async def present(self, certificate: ClientCertificate | None) -> None:
        """From now on every connection presents this certificate. Where it is another than before, all
        connections are closed, those in use too: the old one may be revoked.

        Raises:
            ConfigError: the certificate and its key cannot be used; all is as before.
        """
        credentials = self._connection.credentials
        if certificate == credentials.certificate:
            return
        connection = replace(self._connection, credentials=Credentials(credentials.login, certificate))
        fresh = Pools(connection, self._timeout, tls_context(connection))
        self._connection = connection
        if self._current is None:
            return
        self._replace(self._current, fresh)
        for old in list(self._retired):
            await old.aclose()
            self._retired.discard(old)

    async def aclose(self) -> None:
        """Closes every connection, in use or not."""
        pools = {*self._retired, *([self._current] if self._current else [])}
        self._current = None
        self._retired.clear()
        for each in pools:
            await each.aclose()

    @contextlib.asynccontextmanager
    async def lease(self) -> AsyncIterator[Pools]:
        """The current pools, kept open while in use. Raises ConnectionLost when closed."""
        await self._rotate()
        pools = self._current
        if pools is None:
            raise ConnectionLost(f"the client of {self._connection.name} is closed")
        pools.users += 1
        try:
            yield pools
        finally:
            pools.users -= 1
            await self._drop(pools)

    async def _rotate(self) -> None:
        now = self._monotonic()
        if self._current is None or now < self._check_at:
            return
        self._check_at = now + self._check_every
        seen = fingerprint(self._connection)
        if seen == self._fingerprint:
            return
        try:
            fresh = Pools(self._connection, self._timeout, tls_context(self._connection))
        except ConfigError as exc:
            self._on_problem(f"rotated TLS files are not used yet: {exc}")
            return
        self._fingerprint = seen
        old = self._current
        self._replace(old, fresh)
        await self._drop(old)

    def abandon(self, pools: Pools) -> None:
        """A list was cancelled: what httpcore may have kept of it closes with its pools (see `Pools`)."""
        if pools is self._current:
            self._replace(pools, pools.renewed())

    def _replace(self, old: Pools, fresh: Pools) -> None:
        self._current = fresh
        old.retired = True
        self._retired.add(old)

    async def _drop(self, pools: Pools) -> None:
        if pools.retired and pools.users == 0 and pools in self._retired:
            self._retired.discard(pools)
            await pools.aclose()
