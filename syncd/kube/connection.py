"""One cluster's address and all that is needed to speak to it, as a value. No I/O.

Whatever makes a Connection (a kubeconfig, a pod's service account, the simulator) makes it through this
constructor, so the rules that protect a credential cannot be passed by.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import httpx

from syncd.core.errors import ConfigError
from syncd.kube.auth import Credentials, Exec, Token, TokenFile


@dataclass(frozen=True, slots=True)
class Impersonation:
    """Who to act as. Everything but the user needs a user (list-watch.md §10)."""

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.uid or self.groups or self.extra) and not self.user:
            raise ConfigError("as-uid, as-groups and as-user-extra need a user to act as: set `as`")
        values = (self.user, self.uid, *self.groups, *(v for values in self.extra.values() for v in values))
        if not all(value.isprintable() for value in values):
            raise ConfigError("a name to act as contains a control character")

    def headers(self) -> list[tuple[str, str]]:
        """The Impersonate-* headers; a key of `extra` is percent-encoded."""
        if not self.user:
            return []
        headers = [("Impersonate-User", self.user)]
        if self.uid:
            headers.append(("Impersonate-Uid", self.uid))
        headers += [("Impersonate-Group", group) for group in self.groups]
        for key, values in self.extra.items():
            # The server lower-cases header names, so a key is sent that way.
            name = f"Impersonate-Extra-{quote(key.lower(), safe='')}"
            headers += [(name, value) for value in values]
        return headers


@dataclass(frozen=True, slots=True)
class Connection:
    """How to reach one API server, and as whom.

    Credentials are only sent over https. The one exception is a token over plain http to a loopback
    address, which is how the simulator is reached; anything else is refused here.

    Attributes:
        name: what messages call the cluster.
        server: the root URL; a path prefix is kept, a trailing slash is not.
        ca_data, ca_file: PEM; data wins; both None means the system's roots.
        tls_server_name: the name to ask for and to verify, '' for the URL's host.
        proxy_url: '' for none; the environment is not consulted again.
        namespace: of the context.
        origin: the file that named the server, or what stood in for it.

    Raises:
        ConfigError: an address or a combination that cannot work, or would give a credential away.
    """

    name: str
    server: str
    ca_data: bytes | None = field(default=None, repr=False)
    ca_file: Path | None = None
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = field(default="", repr=False)
    disable_compression: bool = False
    credentials: Credentials = field(default_factory=Credentials)
    impersonation: Impersonation = field(default_factory=Impersonation)
    namespace: str = "default"
    origin: str = ""

    def __post_init__(self) -> None:
        url = server_url(self.server)
        object.__setattr__(self, "server", self.server.rstrip("/"))
        if self.insecure_skip_tls_verify and (self.ca_data is not None or self.ca_file is not None):
            raise ConfigError(
                "insecure-skip-tls-verify contradicts a certificate authority: remove one of the two"
            )
        if not self.tls_server_name.isascii():
            raise ConfigError("tls-server-name must be ASCII: write an international name in its xn-- form")
        if self.proxy_url:
            _check_proxy(self.proxy_url)
        if url.scheme == "http":
            _refuse_plain_http(url.host, self.credentials, through_proxy=bool(self.proxy_url))


def server_url(server: str) -> httpx.URL:
    """A server's root URL. Raises ConfigError, which does not quote it: it may hold a password."""
    try:
        url = httpx.URL(server)
    except httpx.InvalidURL:
        raise ConfigError("server is not a URL: write https://host:port") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigError("server must be a URL such as https://host:port")
    if url.userinfo:
        raise ConfigError("server must not contain a user or a password: move them to the user entry")
    if url.query or url.fragment:
        raise ConfigError("server must not contain a query or a fragment")
    return url


def _check_proxy(proxy_url: str) -> None:
    """A proxy's URL may hold a password, so that no message quotes it."""
    try:
        url = httpx.URL(proxy_url)
    except httpx.InvalidURL:
        raise ConfigError(
            "the proxy (proxy-url or the environment's) is not a URL: write http://host:port"
        ) from None
    if url.scheme in ("socks5", "socks5h"):
        raise ConfigError("a socks5 proxy is not supported yet: use an http or https proxy")
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigError("the proxy (proxy-url or the environment's) must be a URL such as http://host:port")


def _refuse_plain_http(host: str, credentials: Credentials, *, through_proxy: bool) -> None:
    if not credentials:
        return
    if credentials.certificate is not None:
        raise ConfigError("a client certificate cannot be used over http: change server to https")
    local = is_loopback(host) and not through_proxy
    if not (local and isinstance(credentials.login, Token | TokenFile | Exec)):
        raise ConfigError(
            "credentials are not sent over http (a token to a loopback address excepted): "
            "change server to https"
        )


def is_loopback(host: str) -> bool:
    """Whether a URL's host never leaves this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
