"""What a cluster's requests show of its credentials, kept fresh: token files are read again as they rotate,
exec plugins run again as their credentials expire.

It never opens a connection and retries nothing. No secret is in a repr or a message.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from pathlib import Path

from syncd.core.errors import Unauthorized
from syncd.kube.auth import Basic, Login, Token, TokenFile, is_header_safe
from syncd.kube.exec_login import ExecLogin, Proof, bearer

_TOKEN_LIFETIME = 60.0  # seconds; bound service account tokens rotate under a path that stays
_TOKEN_LEEWAY = 10.0  # read again this much before the lifetime is over, as client-go does

_NOBODY = Proof([])


class Authenticator:
    """The proofs of one cluster's requests.

    Args:
        plugin: runs the login where that is an `Exec`, None elsewhere.
        monotonic: seconds, for the age of a token file's token.
    """

    def __init__(
        self,
        login: Login | None,
        plugin: ExecLogin | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._login = login
        self._plugin = plugin
        self._monotonic = monotonic
        self._token = ""
        self._read_again_at: float | None = None

    async def proof(self) -> Proof:
        """What the next request shows. May run an exec plugin, and then takes as long as that does.

        Raises:
            Unauthorized: a token file has never given a token and there is no other.
            LoginFailed: an exec plugin gave no usable credential.
        """
        if self._plugin is not None:
            return await self._plugin.proof()
        match self._login:
            case Token(value=token):
                return bearer(token)
            case TokenFile() as file:
                return bearer(self._file_token(file))
            case Basic(username=username, password=password):
                pair = base64.b64encode(f"{username}:{password}".encode()).decode()
                return Proof([("Authorization", f"Basic {pair}")])
        return _NOBODY

    def rejected(self, proof: Proof) -> None:
        """The server said 401 to this proof: the next one is made afresh."""
        self._read_again_at = None
        if self._plugin is not None:
            self._plugin.rejected(proof)

    async def aclose(self) -> None:
        """Ends a plugin that runs."""
        if self._plugin is not None:
            await self._plugin.aclose()

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
            raise Unauthorized(
                401, "Unauthorized", f"no token can be read from {file.path}: is it there and readable?"
            )
        return usable


def _read_token(path: Path) -> str:
    """The token, '' where the file cannot be read, is empty or holds no token."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
    return text if is_header_safe(text) else ""
