"""Expressions as SQL: what the dialects share. A dialect renders paths, lists and its functions' names.

Rendering is pure text. Names and constants come from the catalogue or from a cluster's schemas, never from
objects; all the same each is quoted.
"""

# ruff: noqa: S608 - text is rendered from the catalogue and from schemas, each name and constant quoted

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from syncd.views.expression import (
    Bound,
    Call,
    Case,
    Expression,
    Field,
    Key,
    Let,
    Listing,
    Literal,
    Named,
    Over,
    Path,
    Ref,
    Type,
)

SPACES = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""What Go's TrimSpace takes away (unicode.IsSpace)."""


def quoted(text: str) -> str:
    """A string constant."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """A quoted name."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class Frame:
    """One list around an expression: the alias of its items."""

    alias: str
    entries: bool


Frames = tuple[Frame, ...]


class Renderer(ABC):
    """Renders expressions over a row `o` of `syncd_objects`, or of a view over it.

    Args:
        columns: what a `Ref` stands for; None renders it as a column of `o`, for queries over the view.
        plain: use nothing that is stored or defined for a `Named`, so that both can be compared.
    """

    quicker: ClassVar[Mapping[str, str]] = {}
    """What the dialect has for a `Named`."""

    def __init__(self, columns: Mapping[str, Expression] | None = None, *, plain: bool = False) -> None:
        self._columns = columns
        self._quicker = {} if plain else self.quicker

    def render(self, expression: Expression, frames: Frames = ()) -> str:
        """The expression as SQL."""
        match expression:
            case Path():
                return self.path(expression, frames)
            case Field(name):
                return f"o.{name}"
            case Ref(name):
                # A custom type's column may have a reserved word for its name.
                return (
                    self.render(self._columns[name]) if self._columns is not None else f"o.{identifier(name)}"
                )
            case Literal(value, kind):
                return self.constant(value, kind)
            case Named(name, body):
                return self._quicker.get(name) or self.render(body, frames)
            case Bound(name):
                return f"b_{name}.value"
            case Key(up=up):
                return self.key(frames[-1 - up])
            case Let(name, value, body):
                # LIMIT keeps it from being written out at every use.
                inner = f"(SELECT {self.render(value, frames)} AS value LIMIT 1) AS b_{name}"
                return f"(SELECT {self.render(body, frames)} FROM {inner})"
            case Case():
                return self._case(expression, frames)
            case Over():
                return self.picked(expression, frames) or self._over(expression, frames)
            case Call():
                return self._call(expression, frames)

    def constant(self, value: str | int | bool | None, kind: Type) -> str:
        if value is None:
            return self.null(kind)
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value) if isinstance(value, int) else quoted(value)

    def _case(self, expression: Case, frames: Frames) -> str:
        branches = " ".join(
            f"WHEN {self.render(condition, frames)} THEN {self.render(value, frames)}"
            for condition, value in expression.branches
        )
        fallback = expression.otherwise
        ending = "" if fallback == Literal(None) else f" ELSE {self.render(fallback, frames)}"
        return f"CASE {branches}{ending} END"

    def _call(self, call: Call, frames: Frames) -> str:
        if call.operation == "present" and isinstance(call.arguments[0], Path):
            return f"{self.render(replace(call.arguments[0], type=Type.JSON), frames)} IS NOT NULL"
        if call.operation == "sort":
            place = call.arguments[0]
            assert isinstance(place, Path)
            return self.sort(place, frames)
        arguments = [self.render(argument, frames) for argument in call.arguments]
        match call.operation:
            case "and" | "or" as word:
                return "(" + f" {word.upper()} ".join(arguments) + ")"
            case "not":
                return f"NOT ({arguments[0]})"
            case "present":
                return f"({arguments[0]}) IS NOT NULL"
            case "=" | ">" | "+" | "-" | "*" | "/" | "%" as sign:
                return "(" + f" {sign} ".join(arguments) + ")"
            case "in":
                return f"({arguments[0]} IN ({', '.join(arguments[1:])}))"
            case "starts":
                prefix = call.arguments[1]
                assert isinstance(prefix, Literal)
                return f"(substr({arguments[0]}, 1, {len(str(prefix.value))}) = {arguments[1]})"
            case "concat":
                texts = [
                    f"CAST({text} AS TEXT)" if argument.type is not Type.TEXT else text
                    for text, argument in zip(arguments, call.arguments, strict=True)
                ]
                return "(" + " || ".join(texts) + ")"
            case "text":
                return f"CAST({arguments[0]} AS TEXT)"
            case "coalesce" | "nullif" | "lower" | "substr" | "replace" | "length" as function:
                return f"{function}({', '.join(arguments)})"
            case operation:
                return self.operation(operation, arguments)

    def _over(self, over: Over, frames: Frames) -> str:
        sources: list[str] = []
        conditions: list[str] = []
        order: list[str] = []
        for listing in over.lists:
            alias = f"e{len(frames) + 1}"
            source, condition, key = self.listing(listing, alias, frames)
            sources.append(source)
            conditions += [condition] if condition else []
            order.append(key)
            frames = (*frames, Frame(alias, listing.entries))
        if over.where is not None:
            conditions.append(self.render(over.where, frames))
        rest = f"FROM {', '.join(sources)}" + (f" WHERE {' AND '.join(conditions)}" if conditions else "")
        value = self.render(over.value, frames)
        if over.order is not None:
            order.insert(0, self.bytewise(self.render(over.order, frames)))
        match over.fold:
            case "count":
                return f"(SELECT count(*) {rest})"
            case "exists":
                return f"EXISTS (SELECT 1 {rest})"
            case "sum":
                return f"(SELECT {self.sum(value, over.type)} {rest})"
            case "max":
                return f"(SELECT max({value}) {rest})"
            case "first":
                return f"(SELECT {value} {rest} ORDER BY {', '.join(order)} LIMIT 1)"
            case "last":
                reverse = ", ".join(f"{key} DESC" for key in order)
                return f"(SELECT {value} {rest} ORDER BY {reverse} LIMIT 1)"
            case "join":
                return self.join(over, value, rest, ", ".join(order))
        raise AssertionError(over.fold)

    @abstractmethod
    def null(self, kind: Type) -> str:
        """NULL of a type."""

    @abstractmethod
    def path(self, path: Path, frames: Frames) -> str: ...

    @abstractmethod
    def sort(self, path: Path, frames: Frames) -> str:
        """What is there: string, number, boolean, object, array or null; NULL for nothing."""

    @abstractmethod
    def key(self, frame: Frame) -> str: ...

    @abstractmethod
    def listing(self, listing: Listing, alias: str, frames: Frames) -> tuple[str, str, str]:
        """What to select from, a condition ('' for none), and what to order by."""

    @abstractmethod
    def bytewise(self, text: str) -> str:
        """A text that sorts as bytes."""

    @abstractmethod
    def sum(self, value: str, kind: Type) -> str: ...

    @abstractmethod
    def join(self, over: Over, value: str, rest: str, order: str) -> str: ...

    @abstractmethod
    def operation(self, name: str, arguments: list[str]) -> str:
        """now, elapsed, cores, units, integer, whole, together, trim, line, find, plain."""

    def picked(self, over: Over, frames: Frames) -> str:
        """What the dialect has for a fold besides a subquery over the items; '' for nothing."""
        return ""

    @staticmethod
    def base(path: Path, frames: Frames) -> str:
        """What a path begins at."""
        return "o.object" if path.root or not frames else f"{frames[-1 - path.up].alias}.value"
