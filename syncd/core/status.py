"""From an answer's status and body to an error of our tree.

One function serves both routes by which a server refuses: an HTTP status before the stream, and an ERROR
event inside it (list-watch.md §0.8). Bodies are matched on `reason`, then on the code, on a message only
where old servers say it nowhere else; a body that is not a Status (a proxy, APF) gives the error of its code.
"""

from __future__ import annotations

import msgspec

from syncd.core.errors import (
    UNDECODABLE,
    ApiError,
    Expired,
    Forbidden,
    Invalid,
    NotAllowed,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
    VersionTooLarge,
)

MAX_RETRY_AFTER = 600.0
"""Seconds. A server that asks for more is not obeyed further: a stream must not be lost to a typing error."""
_MESSAGE_LIMIT = 256  # logs can neither leak a body nor be flooded by one


class _Cause(msgspec.Struct):
    reason: str = ""
    message: str = ""
    field: str = ""


class _Details(msgspec.Struct):
    retryAfterSeconds: float | None = None  # noqa: N815
    causes: list[_Cause] | None = None


class _Meta(msgspec.Struct):
    continue_token: str = msgspec.field(default="", name="continue")


class _Status(msgspec.Struct):
    kind: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Details | None = None
    metadata: _Meta | None = None


_DECODER = msgspec.json.Decoder(_Status)

_BY_REASON: dict[str, type[ApiError]] = {
    "Expired": Expired,
    "Gone": Expired,
    "Unauthorized": Unauthorized,
    "Forbidden": Forbidden,
    "NotFound": NotFound,
    "TooManyRequests": TooManyRequests,
    "Invalid": Invalid,
    "BadRequest": Invalid,
    "MethodNotAllowed": NotAllowed,
    "NotAcceptable": NotAllowed,
    "UnsupportedMediaType": NotAllowed,
}
_BY_CODE: dict[int, type[ApiError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: NotAllowed,
    406: NotAllowed,
    410: Expired,
    415: NotAllowed,
    422: Invalid,
    429: TooManyRequests,
}


def api_error(body: bytes, status: int = 500, retry_after: str | None = None) -> ApiError:
    """The error that an answer means.

    Args:
        body: of the HTTP answer, or the `object` of an ERROR event.
        status: the HTTP status; a Status object's own code wins.
        retry_after: the Retry-After header, integer seconds; anything else is ignored.
    """
    try:
        answer = _DECODER.decode(body)
    except UNDECODABLE:
        answer = _Status()
    if answer.kind != "Status":
        text = " ".join(body[:_MESSAGE_LIMIT].decode("utf-8", "replace").split())
        answer = _Status(message=text)
    details = answer.details or _Details()
    code = answer.code or status
    wait = _seconds(retry_after)
    if wait is None and details.retryAfterSeconds is not None:
        wait = max(0.0, details.retryAfterSeconds)
    kind = _BY_REASON.get(answer.reason) or _BY_CODE.get(code) or (ServerError if code >= 500 else ApiError)
    if any(cause.reason == "ResourceVersionTooLarge" for cause in details.causes or ()):
        kind = VersionTooLarge
    elif code == 504 and "Too large resource version" in answer.message:
        kind = VersionTooLarge  # very old servers give the message alone (list-watch.md §4)
    elif code >= 500 and "required revision has been compacted" in answer.message:
        kind = Expired  # etcd's own words: 1.20 hands them on where a name is asked for at a version
    return kind(
        code,
        answer.reason,
        answer.message[:_MESSAGE_LIMIT],
        retry_after=None if wait is None else min(wait, MAX_RETRY_AFTER),
        continue_token=(answer.metadata.continue_token or None) if answer.metadata else None,
    )


def _seconds(value: str | None) -> float | None:
    return float(value) if value is not None and value.isascii() and value.isdigit() else None
