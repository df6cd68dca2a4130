"""What kubectl prints of a printer column of a custom type (apiextensions' tableconvertor).

It is a text over the view's row, '' for what is absent or of another type than the column says.
"""

from __future__ import annotations

from syncd.views.duration import human
from syncd.views.expression import (
    Expression,
    Ref,
    Type,
    among,
    call,
    case,
    coalesce,
    elapsed,
    equal,
)
from syncd.views.jsonpath import expression, sort
from syncd.views.view import shown

_LISTED = ("object", "array")
_HTML = ("&", "<", ">", "\u2028", "\u2029")
"""What Go's JSON does not write as it is."""


def cell(path: str, value: Ref) -> Expression | None:
    """What is printed over a column.

    Args:
        value: the column of the view.

    Returns:
        None for a path that cannot be said in SQL.
    """
    kind = sort(path)
    text = expression(path, Type.TEXT)
    if kind is None or text is None:
        return None
    match value.type:
        case Type.TIME:
            zero = among(text, "", "null")
            said = case(
                (equal(kind, "string"), case((zero, "<unknown>"), otherwise="<invalid>")), otherwise=""
            )
            return coalesce(human(elapsed(value)), said)
        case Type.INTEGER:
            number = expression(path, Type.NUMBER)
            assert number is not None
            return shown(coalesce(value, call("whole", Type.INTEGER, number)))
        case Type.NUMBER:
            whole = expression(path, Type.INTEGER)
            assert whole is not None
            return coalesce(shown(whole), shown(value))
        case Type.TEXT:
            return case(
                (equal(kind, "null"), "<no value>"), (among(kind, *_LISTED), _go(value)), otherwise=value
            )
        case _:
            return shown(value)


def _go(text: Expression) -> Expression:
    for sign in _HTML:
        text = call("replace", Type.TEXT, text, sign, f"\\u{ord(sign):04x}")
    return text
