"""What the server answers when it does not do what was asked: one exception, one maker for each case.

Messages, reasons and bodies are those of a kube-apiserver; clients match on reason and code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from syncd.simulator.kind import Kind, Object


class Refusal(Exception):
    """An answer other than success.

    Attributes:
        status: the HTTP status.
        body: a Status as JSON, or plain text.
        headers: besides Content-Type and Content-Length.
    """

    def __init__(
        self, status: int, body: bytes, *, plain: bool = False, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(status, body[:200])
        self.status = status
        self.body = body
        self.content_type = "text/plain; charset=utf-8" if plain else "application/json"
        self.headers = dict(headers or {})


def status_object(
    code: int,
    reason: str,
    message: str,
    *,
    details: Object | None = None,
    continue_token: str = "",
) -> Object:
    """A Status of a failure, its keys in the server's order."""
    status: Object = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {"continue": continue_token} if continue_token else {},
        "status": "Failure",
        "message": message,
    }
    if reason:
        status["reason"] = reason
    if details:
        status["details"] = details
    status["code"] = code
    return status


def encoded(obj: Object) -> bytes:
    """The body of an answer; the server ends each with a newline."""
    return msgspec.json.encode(obj) + b"\n"


def refusal(
    code: int,
    reason: str,
    message: str,
    *,
    details: Object | None = None,
    headers: Mapping[str, str] | None = None,
) -> Refusal:
    """A refusal with a Status."""
    return Refusal(code, encoded(status_object(code, reason, message, details=details)), headers=headers)


def bad_request(message: str) -> Refusal:
    return refusal(400, "BadRequest", message)


def unauthorized() -> Refusal:
    return refusal(401, "Unauthorized", "Unauthorized")


def forbidden(user: str, verb: str, resource: tuple[str, str], namespace: str, name: str = "") -> Refusal:
    group, plural = resource
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    named = f' "{name}"' if name else ""
    qualified = f"{plural}.{group}" if group else plural
    details: Object = {"name": name} if name else {}
    details |= {"group": group} if group else {}
    return refusal(
        403,
        "Forbidden",
        f'{qualified}{named} is forbidden: User "{user}" cannot {verb} resource "{plural}" '
        f'in API group "{group}" {where}',
        details=details | {"kind": plural},
        headers={"X-Content-Type-Options": "nosniff"},
    )


def path_not_found() -> Refusal:
    """No such path: plain text, as the mux writes it."""
    return Refusal(404, b"404 page not found\n", plain=True, headers={"X-Content-Type-Options": "nosniff"})


def object_not_found(kind: Kind, name: str) -> Refusal:
    return refusal(404, "NotFound", f'{kind.qualified} "{name}" not found', details=_named(kind, name))


def already_exists(kind: Kind, name: str) -> Refusal:
    message = f'{kind.qualified} "{name}" already exists'
    return refusal(409, "AlreadyExists", message, details=_named(kind, name))


def conflict(kind: Kind, name: str, why: str = "") -> Refusal:
    why = why or (
        "the object has been modified; please apply your changes to the latest version and try again"
    )
    message = f'Operation cannot be fulfilled on {kind.qualified} "{name}": {why}'
    return refusal(409, "Conflict", message, details=_named(kind, name))


def unsupported_media_type(accepted: tuple[str, ...]) -> Refusal:
    known = ", ".join(accepted)
    message = f"the body of the request was in an unknown format - accepted media types include: {known}"
    return refusal(415, "UnsupportedMediaType", message)


def method_not_allowed() -> Refusal:
    message = "the server does not allow this method on the requested resource"
    return refusal(405, "MethodNotAllowed", message, details={})


def list_expired() -> Refusal:
    return refusal(410, "Expired", "The resourceVersion for the provided list is too old.")


def continue_expired(token: str) -> Refusal:
    """With a token that goes on at another version (inconsistent)."""
    message = (
        "The provided continue parameter is too old to display a consistent list result. You can start a new "
        "list without the continue parameter, or use the continue token in this response to retrieve the "
        "remainder of the results. Continuing with the provided token results in an inconsistent list - "
        "objects that were created, modified, or deleted between the time the first chunk was returned and "
        "now may show up in the list."
    )
    return Refusal(410, encoded(status_object(410, "Expired", message, continue_token=token)))


def options_invalid(field: str, message: str) -> Refusal:
    """422: parameters of a list or watch that do not go together."""
    return refusal(
        422,
        "Invalid",
        f'ListOptions.meta.k8s.io "" is invalid: {field}: Forbidden: {message}',
        details={
            "group": "meta.k8s.io",
            "kind": "ListOptions",
            "causes": [{"reason": "FieldValueForbidden", "message": f"Forbidden: {message}", "field": field}],
        },
    )


def too_large(wanted: int, current: int) -> Object:
    """The Status of a version of the future."""
    return status_object(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {wanted}, current: {current}",
        details={
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
    )


def initializing() -> Refusal:
    """A custom resource whose cache is being filled."""
    return refusal(
        429,
        "TooManyRequests",
        "storage is (re)initializing",
        details={"retryAfterSeconds": 1},
        headers={"Retry-After": "1"},
    )


def _named(kind: Kind, name: str) -> dict[str, Any]:
    return {"name": name} | ({"group": kind.group} if kind.group else {}) | {"kind": kind.name}
