"""Expressions as SQLite's SQL, version 3.38 and newer. Plain SQL alone: any client of SQLite reads the views,
so no function is defined by an application, and none is used that is compiled in only sometimes.
"""

# ruff: noqa: S608 - text is rendered from the catalogue and from schemas, each name and constant quoted

from __future__ import annotations

import re

from syncd.views.expression import Listing, Over, Path, Type
from syncd.views.render import SPACES, Frame, Frames, Renderer, quoted

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_SPACE = f"char({', '.join(str(ord(space)) for space in SPACES)})"
# Factors of a quantity's decimal suffixes, in thousandths: what is counted stays a whole number.
_FACTORS = (
    ("n", "1e-6"), ("u", "1e-3"), ("m", "1.0"), ("k", "1e6"), ("M", "1e9"), ("G", "1e12"), ("T", "1e15"),
    ("P", "1e18"), ("E", "1e21"),
)  # fmt: skip

_KINDS = {
    Type.INTEGER: "('integer')",
    Type.NUMBER: "('integer', 'real')",
    Type.BOOLEAN: "('true', 'false')",
}
"""What SQLite calls a JSON value of a type."""
_SORTS = (
    ("text", "string"), ("integer", "number"), ("real", "number"), ("true", "boolean"), ("false", "boolean"),
)  # fmt: skip


class SqliteRenderer(Renderer):
    """See `Renderer`."""

    def null(self, kind: Type) -> str:
        return "NULL"

    def path(self, path: Path, frames: Frames) -> str:
        if not path.keys:
            return self._whole(path, Renderer.base(path, frames))
        base, place = self.base(path, frames), _place(path)
        if path.type is Type.JSON:
            return f"nullif({base} -> {place}, 'null')"
        value = f"({base} ->> {place})"
        if path.type is Type.TIME:
            return loose_time(value) if path.loose else time(value)
        if not path.loose:
            return value
        kind = f"json_type({base}, {place})"
        if path.type is Type.TEXT:
            return f"CASE WHEN {kind} IN ('true', 'false') THEN {kind} ELSE CAST({value} AS TEXT) END"
        return f"CASE WHEN {kind} IN {_KINDS[path.type]} THEN {value} END"

    def _whole(self, path: Path, base: str) -> str:
        if base == "o.object":
            return base
        kind = f"{base.removesuffix('.value')}.type"
        if path.type is Type.JSON:
            return (
                f"CASE WHEN {kind} IN ('object', 'array') THEN {base}"
                f" WHEN {kind} IN ('true', 'false') THEN {kind}"
                f" WHEN {kind} <> 'null' THEN json_quote({base}) END"
            )
        if path.type is Type.TIME:
            return loose_time(base) if path.loose else time(base)
        if path.loose and path.type in _KINDS:
            return f"CASE WHEN {kind} IN {_KINDS[path.type]} THEN {base} END"
        return base

    def sort(self, path: Path, frames: Frames) -> str:
        if path.keys:
            kind = f"json_type({self.base(path, frames)}, {_place(path)})"
        else:
            kind = f"{Renderer.base(path, frames).removesuffix('.value')}.type"
        names = " ".join(f"WHEN {quoted(own)} THEN {quoted(name)}" for own, name in _SORTS)
        return f"CASE {kind} {names} ELSE {kind} END"

    def key(self, frame: Frame) -> str:
        return f"{frame.alias}.key"

    def listing(self, listing: Listing, alias: str, frames: Frames) -> tuple[str, str, str]:
        base, place = self.base(listing.path, frames), _place(listing.path)
        if listing.outer:
            present = f"CASE WHEN json_array_length({base}, {place}) > 0 THEN {base} -> {place}"
            return f"json_each({present} ELSE '[null]' END) AS {alias}", "", f"{alias}.key"
        # json_each makes one row, without a key, of what is no list, and takes a map for an array.
        kind = "text" if listing.entries else "integer"
        fits = f"typeof({alias}.key) = '{kind}'"
        if listing.path.loose and not listing.entries:
            fits = f"json_type({base}, {place}) = 'array'"
        return f"json_each({base}, {place}) AS {alias}", fits, f"{alias}.key"

    @staticmethod
    def base(path: Path, frames: Frames) -> str:
        text = Renderer.base(path, frames)
        if path.root or not frames or not frames[-1 - path.up].loose:
            return text
        # A path into what is no JSON is an error, and the value of a string is not.
        return f"(CASE WHEN {frames[-1 - path.up].alias}.type = 'object' THEN {text} END)"

    def bytewise(self, text: str) -> str:
        return text

    def sum(self, value: str, kind: Type) -> str:
        return f"sum({value})"

    def join(self, over: Over, value: str, rest: str, order: str) -> str:
        limit = -1 if over.limit is None else over.limit  # a limit also keeps the order from being dropped
        distinct, order = ("DISTINCT ", "1") if over.unique else ("", order)
        inner = f"SELECT {distinct}{value} AS value {rest} ORDER BY {order} LIMIT {limit}"
        return f"(SELECT group_concat(s.value, {quoted(over.separator)}) FROM ({inner}) AS s)"

    def operation(self, name: str, arguments: list[str]) -> str:
        match name, arguments:
            case "now", []:
                return "(strftime('%Y-%m-%d %H:%M:%f', 'now') || '000')"
            case "elapsed", [since, until]:
                return (
                    f"(CAST(strftime('%s', {until}) AS INTEGER) - CAST(strftime('%s', {since}) AS INTEGER))"
                )
            case "cores", [quantity]:
                return f"({_ceiling(_thousandths(quantity), 'q.value')} / 1000.0)"
            case "units", [quantity]:
                large = (
                    "CASE WHEN q.value < 9.2e18 THEN CAST(q.value AS INTEGER) ELSE 9223372036854775807 END"
                )
                rounded = _ceiling(f"({_thousandths(quantity)} / 1000.0)", large)
                plain = f"{quantity} NOT GLOB '*[^0-9]*'"
                return f"CASE WHEN {plain} THEN CAST({quantity} AS INTEGER) ELSE {rounded} END"
            case "greatest", [left, right]:
                return f"coalesce(max({left}, {right}), {left}, {right})"
            case "selector", [value]:
                return _selector(value)
            case "integer", [text]:
                return f"CAST({text} AS INTEGER)"
            case "whole", [number]:
                return f"CASE WHEN abs({number}) < 9e18 THEN CAST({number} AS INTEGER) END"
            case "trim", [text]:
                return f"trim({text}, {_SPACE})"
            case "line", [text]:
                broken = f"instr(replace(replace({text}, char(13), char(10)), char(12), char(10)), char(10))"
                cut = f"CASE WHEN {broken} > 0 THEN substr({text}, 1, {broken} - 1) || '...' ELSE {text} END"
                return f"replace({cut}, char(27), '^[')"
            case "find", [text, part]:
                return f"instr({text}, {part})"
            case "plain", [value]:
                return f"CASE substr({value}, 1, 1) WHEN '\"' THEN {value} ->> '$' ELSE {value} END"
        raise AssertionError(name)


def _selector(value: str) -> str:
    values = (
        "(SELECT group_concat(w.value, ',') FROM (SELECT v.value FROM json_each(x.value, '$.values') AS v"
        " ORDER BY v.value LIMIT -1) AS w)"
    )
    return (
        "(SELECT group_concat(s.text, ',') FROM (SELECT r.text FROM ("
        "SELECT l.key AS key, 0 AS place, l.key || '=' || l.value AS text"
        f" FROM json_each({value}, '$.matchLabels') AS l WHERE l.key IS NOT NULL"
        " UNION ALL SELECT x.value ->> '$.key', x.key + 1, CASE x.value ->> '$.operator'"
        f" WHEN 'In' THEN (x.value ->> '$.key') || ' in (' || {values} || ')'"
        f" WHEN 'NotIn' THEN (x.value ->> '$.key') || ' notin (' || {values} || ')'"
        " WHEN 'Exists' THEN x.value ->> '$.key'"
        " WHEN 'DoesNotExist' THEN '!' || (x.value ->> '$.key') END"
        f" FROM json_each({value}, '$.matchExpressions') AS x WHERE x.key IS NOT NULL"
        ") AS r ORDER BY r.key, r.place LIMIT -1) AS s)"
    )


def time(text: str) -> str:
    """A time as the API server writes it, in UTC, as `YYYY-MM-DD HH:MM:SS.ffffff`."""
    fraction = f"CASE substr({text}, 20, 1) WHEN '.' THEN rtrim(substr({text}, 20), 'Z') ELSE '.' END"
    return f"substr(replace(substr({text}, 1, 19), 'T', ' ') || {fraction} || '000000', 1, 26)"


def loose_time(text: str) -> str:
    """An RFC 3339 text as `YYYY-MM-DD HH:MM:SS.ffffff` in UTC, NULL where it is none.

    The fraction is carried as text: strftime knows thousandths alone, and rounds the second.
    """
    zoned = f"substr({text}, -1) NOT IN ('Z', 'z')"
    zone = f"CASE WHEN {zoned} THEN substr({text}, -6) ELSE '' END"
    end = f"CASE WHEN {zoned} THEN 6 ELSE 1 END"
    digits = f"substr({text}, 21, length({text}) - 20 - {end})"
    fraction = f"CASE substr({text}, 20, 1) WHEN '.' THEN {digits} ELSE '' END"
    seconds = f"strftime('%Y-%m-%d %H:%M:%S', substr({text}, 1, 19) || {zone})"
    value = f"{seconds} || '.' || substr({fraction} || '000000', 1, 6)"
    return f"CASE WHEN {text} GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*' THEN {value} END"


def _thousandths(quantity: str) -> str:
    decimal = " ".join(f"WHEN {quoted(suffix)} THEN {factor}" for suffix, factor in _FACTORS)
    binary = f"WHEN 'i' THEN 1000.0 * (1 << 10 * instr('KMGTPE', substr({quantity}, -2, 1)))"
    factor = f"CASE substr({quantity}, -1) {binary} {decimal} ELSE 1000.0 END"
    return f"(CAST(rtrim({quantity}, 'numkKMGTPEi') AS REAL) * {factor})"


def _ceiling(number: str, large: str) -> str:
    """Rounds up; a billionth more than a whole number is noise of the arithmetic. From 9e15 on, where
    floating point has no fractions, `large` says what becomes of `q.value`.
    """
    whole = "CAST(q.value AS INTEGER)"
    rounded = f"{whole} + (q.value - {whole} > 1e-9)"
    source = f"FROM (SELECT {number} AS value LIMIT 1) AS q"
    return f"(SELECT CASE WHEN q.value >= 9e15 THEN {large} ELSE {rounded} END {source})"


def _place(path: Path) -> str:
    parts = ["$"]
    for key in path.keys:
        if isinstance(key, int):
            parts.append(f"[{key}]" if key >= 0 else f"[#{key}]")
        elif _PLAIN.match(key):
            parts.append(f".{key}")
        else:
            parts.append(f'."{key}"')
    return quoted("".join(parts))
