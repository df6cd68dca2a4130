"""How deep JSON goes, and JSON that goes no deeper.

The API takes objects of ten thousand levels wherever a schema leaves a field open. No decoder here goes a
tenth of that (they recurse, and Python counts), SQLite reads no JSON past a thousand or two, and one such
object must stop neither its stream nor the queries over its kind. Bytes in, bytes out; nothing recurses.
"""

from __future__ import annotations

import re

DEEPEST = 200
"""Levels of an object that are stored. The schema of a large CustomResourceDefinition has some sixty."""

CUT = b'"nested too deeply"'
"""Stands for what lay deeper."""

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_STRING_OR_BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*"|[][{}]', re.DOTALL)
_OTHERS = bytes(set(range(256)) - set(b"[]{}"))
_AS_BRACES = bytes.maketrans(b"[]", b"{}")


def too_deep(data: bytes, deepest: int = DEEPEST) -> bool:
    """Whether a JSON document goes deeper. Nearly every one has too few brackets to."""
    if data.count(b"{") + data.count(b"[") <= deepest:
        return False
    nest = _STRING.sub(b"", data).translate(_AS_BRACES, _OTHERS)
    for _ in range(deepest):  # each pass takes the innermost level away
        nest = nest.replace(b"{}", b"")
        if not nest:
            return False
    return True


def shallow(data: bytes, deepest: int = DEEPEST) -> bytes:
    """The document with CUT for each object or array below the deepest level. What is not whole stays so."""
    kept: list[bytes] = []
    depth, begun = 0, 0
    for found in _STRING_OR_BRACKET.finditer(data):
        token = found[0]
        if token in (b"{", b"["):
            depth += 1
            if depth == deepest + 1:
                kept.append(data[begun : found.start()])
        elif token in (b"}", b"]"):
            depth -= 1
            if depth == deepest:
                kept.append(CUT)
                begun = found.end()
    if depth <= deepest:
        kept.append(data[begun:])
    return b"".join(kept)
