"""A small language in which the value of a column is said once, for every dialect.

An expression is a frozen value. It reads one row of `syncd_objects` (its `object`, a JSON document) and, in a
list expression, one item of a list in it. `render.py` turns it into SQL. Every expression knows its type, so
that both dialects give the same rows. An absent field, and a JSON null, is NULL.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias


class Type(StrEnum):
    """The type of a column, as users meet it.

    SQLite keeps BOOLEAN as 0 and 1, TIME as text `YYYY-MM-DD HH:MM:SS.ffffff` in UTC, JSON as text.
    """

    TEXT = "text"
    INTEGER = "bigint"
    NUMBER = "double precision"
    BOOLEAN = "boolean"
    TIME = "timestamptz"
    JSON = "jsonb"


@dataclass(frozen=True, slots=True)
class Path:
    """A place in the document: keys from the item at hand, a number being an index of an array.

    Attributes:
        up: how many lists further out the path begins; 0 is the innermost item.
        root: begin at the whole object, however many lists are around.
        loose: a text may be a number or true or false there, as text. Other types are NULL where the document
            has something else: nothing is sure of what somebody stored.
    """

    keys: tuple[str | int, ...]
    type: Type = Type.TEXT
    up: int = 0
    root: bool = False
    loose: bool = False


@dataclass(frozen=True, slots=True)
class Field:
    """A column of `syncd_objects`."""

    name: str
    type: Type = Type.TEXT


@dataclass(frozen=True, slots=True)
class Ref:
    """Another column of the same view: its expression in the view, its name over the view."""

    name: str
    type: Type = Type.TEXT


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; None is NULL of its type."""

    value: str | int | bool | None
    type: Type = Type.TEXT


@dataclass(frozen=True, slots=True)
class Call:
    """An operation on values, by the name under which `render.py` knows it."""

    operation: str
    arguments: tuple[Expression, ...]
    type: Type


@dataclass(frozen=True, slots=True)
class Case:
    """The value of the first branch whose condition is true, else `otherwise`."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression
    type: Type = Type.TEXT


@dataclass(frozen=True, slots=True)
class Listing:
    """The items of an array, or with `entries` the values of a map in order of their keys.

    Attributes:
        outer: an absent or empty array counts as one item without content.
    """

    path: Path
    entries: bool = False
    outer: bool = False


@dataclass(frozen=True, slots=True)
class Over:
    """Something about the items of one or more lists, each inside the item of the one before.

    Attributes:
        fold: count, sum, max, exists, first, last or join.
        value: of an item; not used by count and exists.
        separator, order, unique, limit: for join. `order` is a text that sorts as bytes; else the order is
            that of the lists. `unique` joins the sorted set of the values.
    """

    fold: str
    lists: tuple[Listing, ...]
    value: Expression
    where: Expression | None = None
    type: Type = Type.INTEGER
    separator: str = ","
    order: Expression | None = None
    unique: bool = False
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Key:
    """The key of the item at hand: of a map's entry, or the index in an array (from 0)."""

    type: Type = Type.TEXT
    up: int = 0


@dataclass(frozen=True, slots=True)
class Let:
    """`body`, in which `Bound(name)` is `value`, computed once."""

    name: str
    value: Expression
    body: Expression

    @property
    def type(self) -> Type:
        return self.body.type


@dataclass(frozen=True, slots=True)
class Bound:
    """What a surrounding `Let` computed."""

    name: str
    type: Type = Type.TEXT


@dataclass(frozen=True, slots=True)
class Named:
    """`body`, for which a dialect may have something quicker under this name: a stored column, a function."""

    name: str
    body: Expression

    @property
    def type(self) -> Type:
        return self.body.type


Expression: TypeAlias = Path | Field | Ref | Literal | Call | Case | Over | Key | Let | Bound | Named
Value: TypeAlias = "Expression | str | int | bool | None"

ITEM = Path(())
"""The item at hand, where it is a plain string."""
NONE = Literal(None)


def path(text: str, *more: str, kind: Type = Type.TEXT, up: int = 0, root: bool = False) -> Path:
    """`spec.nodeName`, `status.podIPs.0.ip`; keys in `more` are taken as they are, dots and all."""
    keys = [int(key) if key.isdigit() else key for key in text.split(".")] if text else []
    return Path((*keys, *more), kind, up, root)


def scalar(text: str, *more: str) -> Path:
    """A text, or a number as text: IntOrString."""
    return replace(path(text, *more), loose=True)


def integer(text: str, *more: str, up: int = 0, root: bool = False) -> Path:
    return path(text, *more, kind=Type.INTEGER, up=up, root=root)


def boolean(text: str, *more: str, up: int = 0) -> Path:
    return path(text, *more, kind=Type.BOOLEAN, up=up)


def moment(text: str, *more: str) -> Path:
    return path(text, *more, kind=Type.TIME)


def document(text: str, *more: str) -> Path:
    return path(text, *more, kind=Type.JSON)


def literal(value: Value) -> Expression:
    """A Python value as an expression; an expression stays as it is."""
    if isinstance(value, bool):
        return Literal(value, Type.BOOLEAN)
    if isinstance(value, int):
        return Literal(value, Type.INTEGER)
    if value is None or isinstance(value, str):
        return Literal(value)
    return value


def call(operation: str, kind: Type, *arguments: Value) -> Call:
    return Call(operation, tuple(literal(argument) for argument in arguments), kind)


def both(*conditions: Expression) -> Call:
    return Call("and", conditions, Type.BOOLEAN)


def either(*conditions: Expression) -> Call:
    return Call("or", conditions, Type.BOOLEAN)


def negation(holds: Expression) -> Call:
    """True where the condition is false or unknown."""
    return Call("not", (true(holds),), Type.BOOLEAN)


def true(holds: Expression) -> Call:
    """The condition, false where it is unknown."""
    return call("coalesce", Type.BOOLEAN, holds, False)


def equal(left: Value, right: Value) -> Call:
    return call("=", Type.BOOLEAN, left, right)


def above(left: Value, right: Value) -> Call:
    return call(">", Type.BOOLEAN, left, right)


def among(value: Expression, *options: str) -> Call:
    return call("in", Type.BOOLEAN, value, *options)


def present(value: Expression) -> Call:
    """Whether a field is there and not null."""
    return call("present", Type.BOOLEAN, value)


def absent(value: Expression) -> Call:
    """Whether a field is not there, or null."""
    return Call("not", (present(value),), Type.BOOLEAN)


def filled(value: Expression) -> Call:
    """Whether a text is there and not empty."""
    return call(">", Type.BOOLEAN, value, "")


def starts(value: Expression, prefix: str) -> Call:
    return call("starts", Type.BOOLEAN, value, prefix)


def coalesce(*values: Value) -> Call:
    found = tuple(literal(value) for value in values)
    return Call("coalesce", found, found[0].type)


def nonempty(value: Expression) -> Call:
    """The text, NULL where it is empty: Go's zero value."""
    return call("nullif", Type.TEXT, value, "")


def default(value: Expression, fallback: str) -> Call:
    """The text, the fallback where it is absent or empty."""
    return coalesce(nonempty(value), fallback)


def zero(text: str, *more: str) -> Call:
    """An integer field, 0 where it is absent: Go's zero value."""
    return coalesce(integer(text, *more), 0)


def flag(text: str, *more: str) -> Call:
    """A boolean field, false where it is absent."""
    return coalesce(boolean(text, *more), False)


def concat(*parts: Value) -> Call:
    """The parts as one text, NULL where one of them is."""
    return call("concat", Type.TEXT, *parts)


def add(*values: Value) -> Call:
    return call("+", Type.INTEGER, *values)


def subtract(left: Value, right: Value) -> Call:
    return call("-", Type.INTEGER, left, right)


def case(*branches: tuple[Expression, Value], otherwise: Value = None) -> Case:
    """A CASE whose type is that of its first branch."""
    found = tuple((condition, literal(value)) for condition, value in branches)
    return Case(found, literal(otherwise), found[0][1].type)


def elapsed(since: Expression, until: Expression | None = None) -> Call:
    """Whole seconds between two times, the second being now if left out."""
    return call("elapsed", Type.INTEGER, since, until or Call("now", (), Type.TIME))


def cores(quantity: Expression) -> Call:
    """A Kubernetes quantity of CPU in cores, rounded up to the next thousandth."""
    return call("cores", Type.NUMBER, quantity)


def units(quantity: Expression) -> Call:
    """A Kubernetes quantity as a whole number (of bytes, of pods), rounded up."""
    return call("units", Type.INTEGER, quantity)


# --- lists ----------------------------------------------------------------------------------------


def items(text: str, *more: str, up: int = 0, root: bool = False, outer: bool = False) -> Listing:
    """The items of an array."""
    return Listing(path(text, *more, kind=Type.JSON, up=up, root=root), outer=outer)


def entries(text: str, *more: str, root: bool = False) -> Listing:
    """The entries of a map."""
    return Listing(path(text, *more, kind=Type.JSON, root=root), entries=True)


def some(
    source: Listing | tuple[Listing, ...], value: Expression = ITEM, most: int = 3, separator: str = ","
) -> Case:
    """The first few values and how many more there are, `a,b,c + 2 more...`; NULL where there is none."""
    listed = join(source, value, separator, limit=most)
    more = concat(listed, " + ", subtract(count(source), most), " more...")
    return case((above(count(source), most), more), otherwise=listed)


def _lists(source: Listing | tuple[Listing, ...]) -> tuple[Listing, ...]:
    return source if isinstance(source, tuple) else (source,)


def count(source: Listing | tuple[Listing, ...], where: Expression | None = None) -> Over:
    return Over("count", _lists(source), Literal(1, Type.INTEGER), where)


def exists(source: Listing | tuple[Listing, ...], where: Expression | None = None) -> Over:
    return Over("exists", _lists(source), Literal(1, Type.INTEGER), where, Type.BOOLEAN)


def total(source: Listing | tuple[Listing, ...], value: Expression, where: Expression | None = None) -> Over:
    """The sum of the values that there are, NULL where there is none."""
    return Over("sum", _lists(source), value, where, value.type)


def latest(source: Listing | tuple[Listing, ...], value: Expression, where: Expression | None = None) -> Over:
    """The greatest value, NULL where there is none."""
    return Over("max", _lists(source), value, where, value.type)


def first(source: Listing | tuple[Listing, ...], value: Expression, where: Expression | None = None) -> Over:
    """The value of the first item that fits."""
    return Over("first", _lists(source), value, where, value.type)


def last(source: Listing | tuple[Listing, ...], value: Expression, where: Expression | None = None) -> Over:
    """The value of the last item that fits."""
    return Over("last", _lists(source), value, where, value.type)


def join(
    source: Listing | tuple[Listing, ...],
    value: Expression = ITEM,
    separator: str = ",",
    *,
    where: Expression | None = None,
    order: Expression | None = None,
    unique: bool = False,
    limit: int | None = None,
) -> Over:
    """The values as one text, NULL where there is none."""
    return Over("join", _lists(source), value, where, Type.TEXT, separator, order, unique, limit)


def condition(kind: str, field: str = "status") -> Over:
    """A field of the object's first condition of that type."""
    return first(items("status.conditions", root=True), path(field), equal(path("type"), kind))
