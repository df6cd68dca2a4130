"""May we? A SelfSubjectAccessReview: the server's own answer, which every account may ask for."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from syncd.core.errors import UNDECODABLE, ProtocolError
from syncd.kube.client import KubeClient

_PATH = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@dataclass(frozen=True, slots=True)
class Question:
    """May this account do `verb` to the resource? `namespace` '' is all of them, `name` '' any object."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`reason` is the server's: which role allows it, or why an authorizer refuses; often ''."""

    allowed: bool
    reason: str = ""


class _Status(msgspec.Struct):
    allowed: bool
    reason: str = ""
    evaluationError: str = ""  # noqa: N815


class _Review(msgspec.Struct):
    status: _Status


async def review(client: KubeClient, question: Question) -> Verdict:
    """The server's verdict.

    Raises:
        ApiError, ConnectionLost
        ProtocolError: the answer is no review.
    """
    asked = {
        "verb": question.verb,
        "group": question.group,
        "resource": question.resource,
        "namespace": question.namespace,
        "name": question.name,
    }
    body = msgspec.json.encode(
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {key: value for key, value in asked.items() if value}},
        }
    )
    answer = await client.post(_PATH, body)
    try:
        status = msgspec.json.decode(answer, type=_Review).status
    except UNDECODABLE as error:
        raise ProtocolError(f"not an access review: {error}") from error
    return Verdict(status.allowed, status.reason or status.evaluationError)
