"""JSON that the API passes on as it got it, and that decoders and databases refuse: mended.

An opaque field is read by the API for its syntax alone. So it may hold a NUL, half of a character (one
surrogate without the other) and ten thousand levels, and whoever can write one object could stop its kind.
"""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

from syncd.core.nesting import DEEPEST, shallow

_NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")
_HALF = re.compile(
    rb"(\\[^u]|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
_ENVELOPE_LEVELS = 6  # more than lie above an object in a page or an event
_Value = TypeVar("_Value")


def spelt(data: bytes) -> tuple[bytes, str]:
    """With U+FFFD for every NUL and half of a character; and what there was of them: "NUL", "HALF", both."""
    if b"\\u" not in data:
        return data, ""
    found: list[str] = []
    if b"\\u0000" in data:  # PostgreSQL's jsonb refuses it; the same on every database
        data, count = _NUL.subn(rb"\1\\ufffd", data)
        found += ["NUL"] * bool(count)
    if b"\\ud" in data or b"\\uD" in data:  # Go spells whole ones out, so that this is rare
        whole = _HALF.sub(lambda match: match[1] or rb"\ufffd", data)
        found += ["HALF"] * (whole != data)
        data = whole
    return data, " ".join(found)


def decoded(decoder: msgspec.json.Decoder[_Value], data: bytes | msgspec.Raw) -> _Value:
    """What a decoder makes of a page, an event or an object, mended where it must be.

    Raises:
        msgspec.DecodeError: that does not help.
    """
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, RecursionError):
        refused = bytes(data)
        mended = shallow(spelt(refused)[0], DEEPEST + _ENVELOPE_LEVELS)
        if mended == refused:
            raise
        return decoder.decode(mended)
