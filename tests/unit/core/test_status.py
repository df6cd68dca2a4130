"""Which error an answer means: list-watch.md §4, and what was recorded."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncd.core.errors import (
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
from syncd.core.status import api_error
from tests.fakes.recording import NAMES, recording
from tests.fakes.value import compact

Case = tuple[dict[str, object] | bytes, int, str | None, type[ApiError], float | None]

TABLE: dict[str, Case] = {
    "version too old": ({"reason": "Expired", "code": 410}, 200, None, Expired, None),
    "before 1.18": ({"reason": "Gone", "code": 410}, 410, None, Expired, None),
    "410 of a proxy": (b"gone", 410, None, Expired, None),
    "version too large": (
        {
            "reason": "Timeout",
            "code": 504,
            "details": {"retryAfterSeconds": 1, "causes": [{"reason": "ResourceVersionTooLarge"}]},
        },
        504,
        None,
        VersionTooLarge,
        1.0,
    ),
    "the same of very old servers": (
        {"reason": "Timeout", "code": 504, "message": "Too large resource version: 9, current: 8"},
        504,
        None,
        VersionTooLarge,
        None,
    ),
    "a compacted version, in etcd's words": (
        {"code": 500, "message": "etcdserver: mvcc: required revision has been compacted"},
        500,
        None,
        Expired,
        None,
    ),
    "any other 504": ({"reason": "Timeout", "code": 504}, 504, None, ServerError, None),
    "cache not ready": (
        {"reason": "TooManyRequests", "code": 429, "details": {"retryAfterSeconds": 1}},
        429,
        "7",
        TooManyRequests,
        7.0,
    ),
    "priority and fairness": (b"Too many requests, please try again later.", 429, "1", TooManyRequests, 1.0),
    "shutting down": ({"code": 503, "message": "apiserver is shutting down"}, 503, "1", ServerError, 1.0),
    "not initialised": (b"starting", 503, "5", ServerError, 5.0),
    "storage timeout": (
        {"reason": "ServerTimeout", "code": 500, "details": {"retryAfterSeconds": 2}},
        500,
        None,
        ServerError,
        2.0,
    ),
    "no WatchList": ({"reason": "Invalid", "code": 422}, 422, None, Invalid, None),
    "no WatchList in the stream": ({"reason": "InternalError", "code": 500}, 200, None, ServerError, None),
    "conversion webhook down": ({"reason": "StoreReadError", "code": 500}, 500, None, ServerError, None),
    "unknown path": (b"404 page not found\n", 404, None, NotFound, None),
    "unauthorized": ({"reason": "Unauthorized", "code": 401}, 401, None, Unauthorized, None),
    "forbidden": ({"reason": "Forbidden", "code": 403}, 403, None, Forbidden, None),
    "no such verb": ({"reason": "MethodNotAllowed", "code": 405}, 405, None, NotAllowed, None),
    "not acceptable": (b"", 406, None, NotAllowed, None),
    "bad request": ({"reason": "BadRequest", "code": 400}, 400, None, Invalid, None),
    "a redirect": (b"", 302, None, ApiError, None),
    "a Retry-After that is a date": (b"", 503, "Fri, 20 Nov 2026 23:27:10 GMT", ServerError, None),
    "a negative wait": ({"code": 503, "details": {"retryAfterSeconds": -3}}, 503, None, ServerError, 0.0),
    "a Status without a code": ({"reason": "Odd"}, 429, None, TooManyRequests, None),
    "details null": ({"code": 503, "details": None, "metadata": None}, 503, None, ServerError, None),
    "JSON of something else": (b'{"kind":"Oops","code":410}', 502, None, ServerError, None),
}


@pytest.mark.parametrize("case", TABLE.values(), ids=TABLE)
def test_the_table(case: Case) -> None:
    answer, http_status, retry_after, kind, wait = case
    body = answer if isinstance(answer, bytes) else compact({"kind": "Status", **answer})
    found = api_error(body, http_status, retry_after)
    assert type(found) is kind
    assert found.retry_after == wait


@pytest.mark.parametrize("name", [name for name in NAMES if recording(name).status >= 400])
def test_every_recorded_refusal(name: str) -> None:
    answer = recording(name)
    kinds = {400: Invalid, 401: Unauthorized, 403: Forbidden, 404: NotFound, 410: Expired, 422: Invalid}
    want = kinds | {429: TooManyRequests, 500: ServerError, 504: VersionTooLarge}
    found = api_error(answer.body, answer.status, answer.headers.get("retry-after"))
    assert type(found) is want[answer.status]
    assert found.status == answer.status
    if answer.status in (429, 504):
        assert found.retry_after == 1.0


def test_an_expired_token_brings_an_inconsistent_one() -> None:
    answer = recording("list-expired-continue-410")
    want = json.loads(answer.body)["metadata"]["continue"]
    assert api_error(answer.body, 410).continue_token == want
    assert api_error(recording("list-exact-expired-410").body, 410).continue_token is None


def test_a_message_neither_floods_nor_spans_lines() -> None:
    found = api_error(b"<html>\n" + b"x" * 10_000, 502)
    assert len(str(found)) < 300
    assert "\n" not in str(found)
    assert len(api_error(compact({"kind": "Status", "message": "x" * 10_000}), 502).message) <= 256


@given(st.binary(), st.integers(min_value=300, max_value=599), st.none() | st.text())
def test_any_answer_is_an_api_error(body: bytes, code: int, retry_after: str | None) -> None:
    found = api_error(body, code, retry_after)
    assert isinstance(found, ApiError)
    assert found.retry_after is None or found.retry_after >= 0


@given(
    st.fixed_dictionaries(
        {"kind": st.just("Status")},
        optional={
            name: st.none()
            | st.integers()
            | st.text()
            | st.lists(st.none())
            | st.dictionaries(st.text(), st.none())
            for name in ("code", "reason", "message", "details", "metadata")
        },
    )
)
def test_any_status_is_an_api_error(value: dict[str, object]) -> None:
    assert isinstance(api_error(json.dumps(value).encode(), 500), ApiError)
    assert isinstance(api_error(b"[" * 100_000, 500), ApiError)
