"""Documents that are nearly right: what a server sent once, spoilt in one place or another."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from([2**63, 2**64, -(2**70), "", "0", "\0", "v1", "Status", "a/b", "\ud800"])
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
"""JSON, mostly of the wrong kind."""

DEEP = [b"[" * 100_000, b'{"a":' * 100_000, b'{"metadata":' + b"[" * 50_000 + b"]" * 50_000 + b"}"]
"""Nested past the interpreter's stack."""


@st.composite
def spoilt(draw: st.DrawFn, document: Any) -> Any:
    """A document with one to three of its parts dropped, renamed or of another kind."""
    document = json.loads(json.dumps(document))
    for _ in range(draw(st.integers(1, 3))):
        document = _spoil(draw, document)
    return document


def _spoil(draw: st.DrawFn, value: Any) -> Any:
    if isinstance(value, dict) and value and draw(st.integers(0, 5)):
        key = draw(st.sampled_from(sorted(value)))
        match draw(st.sampled_from(["into", "into", "into", "drop", "rename"])):
            case "into":
                return value | {key: _spoil(draw, value[key])}
            case "drop":
                return {name: each for name, each in value.items() if name != key}
            case _:
                return {
                    draw(st.text(max_size=6)) if name == key else name: each for name, each in value.items()
                }
    if isinstance(value, list) and value and draw(st.integers(0, 5)):
        place = draw(st.integers(0, len(value) - 1))
        return [*value[:place], _spoil(draw, value[place]), *value[place + 1 :]]
    return draw(values)


def encoded(value: Any) -> bytes:
    """As JSON; what is no JSON for want of numbers, or no UTF-8, stays so."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """Bytes cut short, or with a few of them changed."""
    if draw(st.booleans()):
        data = data[: draw(st.integers(0, len(data)))]
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(data)))
        data = data[:place] + draw(st.binary(max_size=3)) + data[place + 1 :]
    return data
