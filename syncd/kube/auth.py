"""Who we are to an API server: credentials as values, and the headers they make.

A client certificate is a credential too, but it speaks through TLS (`tls.py`). Nothing here opens a
connection; the only input is a token file, read again as it rotates. No secret is in a repr or a message.
"""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from syncd.core.errors import ConfigError, Unauthorized

_TOKEN_LIFETIME = 60.0  # seconds; bound service account tokens rotate under a path that stays
_TOKEN_LEEWAY = 10.0  # read again this much before the lifetime is over, as client-go does
_HEADER_SAFE = re.compile(r"[\x21-\x7e]+\Z")


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token that never changes."""

    value: str = field(repr=False)

    def __post_init__(self) -> None:
        if not _HEADER_SAFE.match(self.value):
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


Headers = list[tuple[str, str]]

Login = Token | TokenFile | Basic
"""What makes an Authorization header. An exec plugin would be one more member of this union."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """At most one login, and at most one client certificate beside it."""

    login: Login | None = None
    certificate: ClientCertificate | None = None

    def __bool__(self) -> bool:
        return self.login is not None or self.certificate is not None


class Authenticator:
    """The Authorization header of one cluster's requests.

    `headers` is awaited so that a login that has to ask somebody else fits in without touching its caller.
    """

    def __init__(self, login: Login | None, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._login = login
        self._monotonic = monotonic
        self._token = ""
        self._read_again_at: float | None = None

    async def headers(self) -> Headers:
        """The headers of the next request.

        Raises:
            Unauthorized: a token file has never given a token and there is no other.
        """
        match self._login:
            case None:
                return []
            case Token(value=token):
                return [_bearer(token)]
            case TokenFile() as file:
                return [_bearer(self._file_token(file))]
            case Basic(username=username, password=password):
                pair = base64.b64encode(f"{username}:{password}".encode()).decode()
                return [("Authorization", f"Basic {pair}")]

    def rejected(self) -> None:
        """The server said 401: a token file is read again before the next request."""
        self._read_again_at = None

    def _file_token(self, file: TokenFile) -> str:
        now = self._monotonic()
        if self._token and self._read_again_at is not None and now < self._read_again_at:
            return self._token
        token = _read_token(file.path)
        if token:
            self._token = token
            self._read_again_at = now + _TOKEN_LIFETIME - _TOKEN_LEEWAY
        # A file caught in the middle of its rotation must not log us out: the last good value stays.
        usable = self._token or file.fallback
        if not usable:
            raise Unauthorized(401, "", f"no token can be read from {file.path}: is it there and readable?")
        return usable


def _read_token(path: Path) -> str:
    """The token, '' where the file cannot be read, is empty or holds no token."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
    return text if _HEADER_SAFE.match(text) else ""


def _bearer(token: str) -> tuple[str, str]:
    return ("Authorization", f"Bearer {token}")
