"""Who we are to an API server: credentials as values. No I/O; no secret is in a repr or a message.

What a request shows of them is made by `authenticator.py`; a client certificate speaks through TLS
(`tls.py`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from syncd.core.errors import ConfigError

_HEADER_SAFE = re.compile(r"[\x21-\x7e]+\Z")


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token that never changes."""

    value: str = field(repr=False)

    def __post_init__(self) -> None:
        if not is_header_safe(self.value):
            raise ConfigError("a token must be printable ASCII without spaces")


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A file that holds a bearer token and is replaced from time to time.

    `fallback` is used until the file could be read once; '' for none.
    """

    path: Path
    fallback: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Basic:
    """A user name and a password."""

    username: str
    password: str = field(repr=False)

    def __post_init__(self) -> None:
        if ":" in self.username:  # RFC 7617 §2: the first colon ends the name
            raise ConfigError("a user name for basic authentication cannot contain a colon")


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A certificate and its key, each as PEM bytes or as a file that may be rotated."""

    certificate: bytes | Path = field(repr=False)
    key: bytes | Path = field(repr=False)


@dataclass(frozen=True, slots=True)
class Exec:
    """A command that prints a credential, as a kubeconfig's `exec` describes it (list-watch.md §10).

    Attributes:
        api_version: of KUBERNETES_EXEC_INFO, and wanted of the answer.
        command: a name to look up in $PATH, or an absolute path.
        args, env: may hold secrets, and are never shown; `env` is laid over our own environment.
        install_hint: what to tell who has not got the command.
        cluster_config: with `provide_cluster_info`, the JSON of the cluster's extension for plugins.
    """

    api_version: str
    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    install_hint: str = ""
    provide_cluster_info: bool = False
    cluster_config: bytes = field(default=b"", repr=False)


Login = Token | TokenFile | Basic | Exec
"""What makes an Authorization header; an `Exec` may make a client certificate too."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """At most one login, and at most one client certificate beside it."""

    login: Login | None = None
    certificate: ClientCertificate | None = None

    def __bool__(self) -> bool:
        return self.login is not None or self.certificate is not None


def is_header_safe(token: str) -> bool:
    """Whether a token can stand in a header as it is."""
    return _HEADER_SAFE.match(token) is not None
