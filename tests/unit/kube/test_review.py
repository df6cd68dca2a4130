"""Access reviews, from recordings and where the answer is none."""

from __future__ import annotations

import asyncio
import json

import pytest

from syncd.core.errors import Forbidden, ProtocolError
from syncd.kube.client import KubeClient
from syncd.kube.connection import Connection
from syncd.kube.review import Question, Verdict, review

from .server import WIRE, Call, Server, answering, recorded, serving, status_body, whole


def client(server: Server) -> KubeClient:
    return KubeClient(Connection("prod", server.url), user_agent="syncd/test")


@pytest.mark.parametrize(
    ("name", "namespace", "verdict"),
    [
        (
            "access-review-allowed",
            "wire2",
            Verdict(True, 'RBAC: allowed by RoleBinding "r/wire2" of Role "r" to User "reader"'),
        ),
        ("access-review-denied", "", Verdict(False)),
    ],
)
async def test_a_recorded_review(name: str, namespace: str, verdict: Verdict) -> None:
    sent: list[bytes] = []

    async def handler(call: Call, writer: asyncio.StreamWriter) -> None:
        sent.append(await call.reader.readexactly(int(call.header("content-length") or 0)))
        writer.write(recorded(name))
        await writer.drain()

    async with serving(handler) as server, client(server) as kube:
        question = Question("list", "", "configmaps", namespace)
        assert await review(kube, question) == verdict
    (call,) = server.calls
    asked = (WIRE / f"{name}.http").read_text().splitlines()[:2]
    assert f"> {call.method} {call.path}" == asked[0]
    assert call.header("content-type") == "application/json"
    wanted = json.loads(asked[1].removeprefix("> "))
    attributes = wanted["spec"]["resourceAttributes"]
    wanted["spec"]["resourceAttributes"] = {key: value for key, value in attributes.items() if value}
    assert json.loads(sent[0]) == wanted


async def test_a_refused_review_is_the_refusal() -> None:
    refused = whole(status_body(403, "Forbidden", "no"), status="403 Forbidden")
    async with serving(answering(refused, cut=True)) as server, client(server) as kube:
        with pytest.raises(Forbidden, match="POST /apis/authorization"):
            await review(kube, Question("list", "", "pods"))


async def test_an_answer_that_is_no_review_is_said() -> None:
    async with serving(answering(whole(b"{}"), cut=True)) as server, client(server) as kube:
        with pytest.raises(ProtocolError, match="not an access review"):
            await review(kube, Question("list", "", "pods"))
