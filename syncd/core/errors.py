"""Every error that syncd raises on purpose.

    SyncdError
    ├── ConfigError                 the user's configuration: names file and key
    ├── ApiError                    the API server answered with a Status or an HTTP error
    │   ├── Invalid                 400, 422: the request is not understood
    │   ├── Unauthorized            401
    │   ├── Forbidden               403
    │   ├── NotFound                404
    │   ├── NotAllowed              405, 406, 415
    │   ├── Expired                 410: version or continue token too old
    │   ├── TooManyRequests         429
    │   ├── VersionTooLarge         504 with cause ResourceVersionTooLarge
    │   └── ServerError             any other 5xx
    ├── ConnectionLost              no answer, or not all of it: refused, reset, timed out, truncated
    │   └── LoginFailed             nothing was asked: the command that logs us in gave no credential
    ├── Undelivered                 a webhook did not acknowledge an event
    ├── ProtocolError               bytes or an order of events that the contract does not allow
    │   ├── Inconsistent            a page of another list than the first one
    │   └── NoInitialEvents         the server cannot begin a watch with the state
    └── StoreError
        ├── StoreUnavailable        away, read-only, full, busy: nothing is wrong with the rows; try again
        ├── FenceLost               the stream's row is no longer what its writer believes
        ├── LeaseHeld               another daemon owns this database
        ├── SchemaMismatch          the database's schema is not the one this version needs
        └── QueryError              a query of the user's own is wrong, or takes too long

Adapters translate at their edge and chain the cause; no error of a library leaves its room.
What to do about an error is decided in one place: `syncd.core.recovery.react`.
"""

from __future__ import annotations

import msgspec

UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding JSON from outside can raise: malformed, not UTF-8, or nested past the interpreter's stack."""


class SyncdError(Exception):
    """The root of the tree."""


class ConfigError(SyncdError):
    """The configuration cannot be used. The message names the file, the key and the next step."""


class ApiError(SyncdError):
    """The API server refused.

    Attributes:
        status: the HTTP status, or the `code` of a Status object in an ERROR event.
        reason: the Status `reason` ("Expired", "Forbidden", …), "" where the body was not a Status.
        retry_after: seconds the server asked to wait, None where it did not.
        continue_token: the inconsistent token of an expired one (list-watch.md §3), None elsewhere.
    """

    def __init__(
        self,
        status: int,
        reason: str = "",
        message: str = "",
        *,
        retry_after: float | None = None,
        continue_token: str | None = None,
    ) -> None:
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        self.continue_token = continue_token
        super().__init__(f"{status} {reason or 'HTTP error'}: {message}" if message else f"{status} {reason}")


class Invalid(ApiError):
    """400 or 422."""


class Unauthorized(ApiError):
    """401: no credentials, or expired ones."""


class Forbidden(ApiError):
    """403: the account lacks the verb."""


class NotFound(ApiError):
    """404: no such path, type or object."""


class NotAllowed(ApiError):
    """405, 406 or 415: the resource does not offer the verb or the form."""


class Expired(ApiError):
    """410: the version or the continue token is older than the server's history."""


class TooManyRequests(ApiError):
    """429: slow down; also while a storage is being (re)initialised."""


class VersionTooLarge(ApiError):
    """504 with cause ResourceVersionTooLarge: this server has not seen that version yet."""


class ServerError(ApiError):
    """5xx."""


class ConnectionLost(SyncdError):
    """No answer, or not all of it. `connected` says whether a response had begun."""

    def __init__(self, message: str, *, connected: bool = False) -> None:
        self.connected = connected
        super().__init__(message)


class LoginFailed(ConnectionLost):
    """An exec plugin gave no usable credential. The message names the command, what became of it and the
    next step; it is treated as a server that cannot be reached, since it heals the same way.
    """


class ProtocolError(SyncdError):
    """The other side broke the contract, or a report is illegal in the present state."""


class Inconsistent(ProtocolError):
    """A page of a list is of another version than the first one: together they are no state that was."""


class NoInitialEvents(ProtocolError):
    """The server does not begin a watch with the state, or never says that it is done (WatchList is off, or
    unknown to it). A list does.
    """


class Undelivered(SyncdError):
    """A webhook did not acknowledge an event; `retry_after`: seconds that it asks for, else 0."""

    def __init__(self, message: str, *, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class StoreError(SyncdError):
    """The database."""


class StoreUnavailable(StoreError):
    """The database is away, read-only, full, busy or out of connections. Hold the batch and try again."""


class FenceLost(StoreError):
    """The stream's row moved under its writer: another holder, epoch or version. Nothing was written."""


class LeaseHeld(StoreError):
    """Another daemon owns this database. The message names its host, process and since when."""


class SchemaMismatch(StoreError):
    """The schema is older or newer than this version of syncd, or the server is too old. Says what to run."""


class QueryError(StoreError):
    """A query of the user's own: wrong, none that only reads, or too long. The message says which."""
