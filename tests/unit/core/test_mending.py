"""What opaque fields may hold, and what is left of it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncd.core.document import Transform
from syncd.core.frames import parse_frame, parse_page
from syncd.core.mending import spelt
from tests.fakes.value import PODS, compact, pod


@given(st.text(st.characters(exclude_categories=()) | st.sampled_from(["\0", "\ud800", "\udc00", "\\", "u"])))
def test_half_characters_and_nuls_are_replaced_and_nothing_else(text: str) -> None:
    # A pair of halves that JSON spells one after the other is one character.
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\ufffd")
    mended, said = spelt(json.dumps(text).encode())
    assert json.loads(mended) == whole
    assert bool(said) == (mended != json.dumps(text).encode())
    assert spelt(mended) == (mended, "")


@pytest.mark.parametrize(
    ("written", "kept", "said"),
    [
        (r"\ud800", "\ufffd", "HALF"),
        (r"\uDC00x", "\ufffdx", "HALF"),
        (r"\udc00\ud83d\ude00", "\ufffd\U0001f600", "HALF"),
        (r"\ud83d\ude00", "\U0001f600", ""),
        (r"\\ud800", r"\ud800", ""),
        (r"\\\ud800", "\\\ufffd", "HALF"),
        (r"\u0000\ud800", "\ufffd\ufffd", "NUL HALF"),
    ],
)
def test_half_a_character_keeps_no_object_from_the_mirror(written: str, kept: str, said: str) -> None:
    """In a name of a field as in a value, listed and watched."""
    value = compact(pod("odd", 5, KEY="KEY")).replace(b"KEY", written.encode())
    page = b'{"kind":"PodList","metadata":{"resourceVersion":"9"},"items":[' + value + b"]}"
    frame = parse_frame(b'{"type":"ADDED","object":' + value + b"}")
    assert frame is not None
    transform = Transform(PODS)
    item = transform(value)
    assert json.loads(item.document)["spec"] == {kept: kept}
    assert item.altered == said
    for raw in (parse_page(page).items[0], frame.raw):
        assert transform(raw).document == item.document
        assert transform.head(parse_page(page).items[0]).key == item.key
