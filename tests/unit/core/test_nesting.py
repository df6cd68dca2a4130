"""JSON that goes too deep, and what is left of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncd.core.document import Item, Transform, same_content
from syncd.core.frames import parse_frame, parse_page
from syncd.core.history import changed_paths
from syncd.core.nesting import CUT, DEEPEST, shallow, too_deep
from tests.fakes.value import PODS, compact, pod

JSON = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=20,
)


def nested(depth: int, leaf: bytes = b"1") -> bytes:
    """Objects and arrays in turns, with more to say after each."""
    opens = b"".join(b'{"a":' if level % 2 else b"[0," for level in range(depth))
    closes = b"".join(b',"z":"]"}' if level % 2 else b',"{"]' for level in reversed(range(depth)))
    return opens + leaf + closes


def depth_of(value: Any) -> int:
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return 1 + max(map(depth_of, inner), default=0)
    return 0


def cut(value: Any, deepest: int) -> Any:
    """What should be left, by the plain definition."""
    if not isinstance(value, dict | list):
        return value
    if deepest == 0:
        return json.loads(CUT)
    if isinstance(value, list):
        return [cut(inner, deepest - 1) for inner in value]
    return {key: cut(inner, deepest - 1) for key, inner in value.items()}


@given(JSON, st.integers(1, 4), st.booleans())
def test_what_is_deeper_is_cut_and_nothing_else(value: Any, deepest: int, ascii_only: bool) -> None:
    data = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    assert too_deep(data, deepest) == (depth_of(value) > deepest)
    left = shallow(data, deepest).decode("utf-8", "surrogatepass")
    assert json.loads(left) == cut(value, deepest)


@pytest.mark.parametrize("depth", [DEEPEST + 1, 900, 960, 1000, 9_999])
def test_an_object_is_mirrored_however_deep_it_is(depth: int) -> None:
    """Ten thousand levels are what the API takes. The others of its page or watch must not suffer."""
    value = compact(pod("deep", 5)).replace(b'"spec":{}', b'"spec":' + nested(depth))
    page = b'{"kind":"PodList","metadata":{"resourceVersion":"9"},"items":[' + value + b"]}"
    frame = parse_frame(b'{"type":"ADDED","object":' + value + b"}")
    assert frame is not None
    transform = Transform(PODS)
    listed, watched = transform(parse_page(page).items[0]), transform(frame.raw)
    assert transform.head(parse_page(page).items[0]).key == listed.key
    assert listed == watched == transform(value)
    assert (listed.key, listed.resource_version, listed.altered) == ("default/deep", "5", "DEPTH")
    assert depth_of(json.loads(listed.document)) == DEEPEST
    assert_usable(listed)


def test_the_deepest_that_is_stored_is_stored_whole() -> None:
    value = compact(pod("deep", 5)).replace(b'"spec":{}', b'"spec":' + nested(DEEPEST - 1))
    item = Transform(PODS)(value)
    assert item.altered == ""
    assert depth_of(json.loads(item.document)) == DEEPEST
    assert_usable(item)


def assert_usable(item: Item) -> None:
    other = item.document.replace('"z":"]"', '"z":"other"')
    assert same_content(item.document, item.document.replace(",", ", "))
    assert changed_paths(item.document, other, status=False)


@pytest.mark.parametrize("body", [b'{"x":' + b"[" * 2_000, b'{"x":[[[', b'{"x":"'])
def test_what_is_not_whole_does_not_become_so(body: bytes) -> None:
    with pytest.raises(ValueError):
        json.loads(shallow(body))
