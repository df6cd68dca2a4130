"""Stored documents as values, with every number as exact as its text: none is too large or too long.

The API passes numbers of opaque fields on unread, where they may have any exponent and any length.
"""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

_LONGEST = 4000  # digits that Python makes an integer of


def values(document: str) -> Any:
    """What a document says: maps, lists, texts, numbers that compare by value, true, false and null.

    Raises:
        ValueError: it is not JSON.
    """
    try:
        return _DECODER.decode(document)
    except msgspec.DecodeError:  # an integer past that decoder's bounds, perhaps
        return json.loads(document, parse_int=_integer, parse_float=_fraction)


def _integer(text: str) -> int | Decimal:
    return int(text) if len(text) <= _LONGEST else Decimal(text)


def _fraction(text: str) -> Decimal | str:
    try:
        return Decimal(text)
    except InvalidOperation:  # past all bounds: only the text can tell
        return text


_DECODER = msgspec.json.Decoder(float_hook=_fraction)
