"""A printer column's JSONPath as an expression, as Kubernetes reads it: of several results the first counts.

Taken from client-go's `util/jsonpath`: keys with escaped dots, indexes from either end, `[*]`, and filters
that compare with a constant or ask whether a field is there, and slices of one item or of all. Other slices,
unions, descent and arithmetic are not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from syncd.views.expression import (
    Call,
    Expression,
    Listing,
    Literal,
    Path,
    Type,
    both,
    call,
    equal,
    first,
    present,
    true,
)

_KEY = re.compile(r"\.?((?:\\.|[^\\ .\[\]$@{}])+)")
_QUOTED = re.compile(r"""\[\s*(?:'([^'"\\]+)'|"([^'"\\]+)")\s*\]""")
_INDEX = re.compile(r"\[\s*(-?[0-9]{1,9})\s*\]")
_SLICE = re.compile(r"\[\s*(-?[0-9]{1,9})\s*:\s*(-?[0-9]{1,9})?\s*\]")
_ALL = re.compile(r"\[\s*\*\s*\]|\.\*")
_FILTER = re.compile(
    r"""\[\s*\?\(\s*@(?P<left>(?:\.(?:\\.|[^\\\s.\[\]$@{}=!<>()'"])+)+|)\s*"""
    r"""(?:(?P<sign>==|!=)\s*(?P<right>'[^'\\]*'|"[^"\\]*"|-?[0-9]{1,18}|true|false)\s*)?\)\s*\]"""
)


@dataclass(slots=True)
class _Walk:
    """How far a path has come: the lists around, and the keys from the innermost of them."""

    lists: list[Listing] = field(default_factory=list)
    conditions: list[tuple[int, Call]] = field(default_factory=list)
    keys: list[str | int] = field(default_factory=list)

    def enter(self) -> None:
        self.lists.append(Listing(Path(tuple(self.keys), Type.JSON, loose=True)))
        self.keys = []


def expression(text: str, kind: Type) -> Expression | None:
    """The first value of a path in an object, NULL where it is of another type; None where the path cannot
    be said in SQL.

    TEXT is anything as it is printed: numbers and booleans too, lists and maps as compact JSON.
    """
    walk = _walked(text.strip())
    if walk is None:
        return None
    keys = tuple(walk.keys)
    value = plain(_document(walk)) if kind is Type.TEXT else Path(keys, kind, loose=True)
    return _found(walk, value)


def sort(text: str) -> Expression | None:
    """What the first value of a path is: string, number, boolean, object, array, null; NULL without one."""
    walk = _walked(text.strip())
    return None if walk is None else _found(walk, call("sort", Type.TEXT, _document(walk)))


def _document(walk: _Walk) -> Path:
    return Path(tuple(walk.keys), Type.JSON, loose=True)


def _found(walk: _Walk, value: Expression) -> Expression | None:
    if not walk.lists:
        return value if walk.keys else None
    conditions = [_condition(each, len(walk.lists) - depth) for depth, each in walk.conditions]
    return first(tuple(walk.lists), value, both(*conditions, present(_document(walk))))


def plain(document: Path) -> Call:
    """A value as text, whatever it is."""
    return Call("plain", (document,), Type.TEXT)


def _walked(text: str) -> _Walk | None:
    walk = _Walk()
    position = 1 if text.startswith("$") else 0
    while position < len(text):
        if found := _ALL.match(text, position):
            walk.enter()
        elif found := _FILTER.match(text, position):
            condition = _compared(found["left"], found["sign"], found["right"])
            if condition is None:
                return None
            walk.enter()
            walk.conditions.append((len(walk.lists), condition))
        elif found := _INDEX.match(text, position):
            walk.keys.append(int(found[1]))
        elif found := _SLICE.match(text, position):
            begin, end = int(found[1]), int(found[2] or 0)
            if begin == 0 and not found[2]:
                walk.enter()
            elif end != begin + 1 or (begin == -1 and found[2]):
                return None
            else:
                walk.keys.append(begin)
        elif found := _QUOTED.match(text, position):
            walk.keys.append(found[1] if found[1] is not None else found[2])
        elif text[position] == "." or position == 0:
            found = _KEY.match(text, position)
            if found is None or (key := _unescaped(found[1])) is None:
                return None
            walk.keys.append(key)
        else:
            return None
        position = found.end()
    return walk


def _unescaped(text: str) -> str | None:
    """A key without its backslashes; None for one that no dialect can be asked for."""
    key = text.replace("\\", "")
    return None if '"' in key or key in ("", "*") else key


def _compared(left: str, sign: str | None, right: str | None) -> Call | None:
    keys: list[str | int] = []
    for found in _KEY.finditer(left):
        key = _unescaped(found[1])
        if key is None:
            return None
        keys.append(key)
    document = Path(tuple(keys), Type.JSON, loose=True)
    if sign is None or right is None:
        return present(document)
    value, constant = _constant(document, right)
    same = equal(value, constant)
    return same if sign == "==" else call("not", Type.BOOLEAN, same)


def _constant(document: Path, text: str) -> tuple[Expression, Literal]:
    if text[0] in "'\"":
        return plain(document), Literal(text[1:-1])
    if text in ("true", "false"):
        return Path(document.keys, Type.BOOLEAN, loose=True), Literal(text == "true", Type.BOOLEAN)
    return Path(document.keys, Type.INTEGER, loose=True), Literal(int(text), Type.INTEGER)


def _condition(condition: Call, up: int) -> Call:
    """The condition on an item of a list that is so many lists further out."""
    moved = _outwards(condition, up)
    assert isinstance(moved, Call)
    return true(moved)


def _outwards(value: Expression, up: int) -> Expression:
    match value:
        case Path(keys, kind):
            return Path(keys, kind, up, loose=True)
        case Call(operation, arguments, kind):
            return Call(operation, tuple(_outwards(each, up) for each in arguments), kind)
        case _:
            return value
