"""Expressions as SQLite's SQL, version 3.38 and newer. Plain SQL alone: any client of SQLite reads the views,
so no function is defined by an application, and none is used that is compiled in only sometimes.
"""

# ruff: noqa: S608 - text is rendered from the catalogue and from schemas, each name and constant quoted

from __future__ import annotations

import re

from syncd.views.expression import Listing, Over, Path, Type
from syncd.views.render import SPACES, Frame, Frames, Renderer, quoted

_BACKSLASH = "\\\\"  # as JSON has it
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_SPACE = f"char({', '.join(str(ord(space)) for space in SPACES)})"
# Factors of a quantity's decimal suffixes, in thousandths: what is counted stays a whole number.
_FACTORS = (
    ("n", "1e-6"), ("u", "1e-3"), ("m", "1.0"), ("k", "1e6"), ("M", "1e9"), ("G", "1e12"), ("T", "1e15"),
    ("P", "1e18"), ("E", "1e21"),
)  # fmt: skip

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
        value, kind = f"({base} ->> {place})", f"json_type({base}, {place})"
        match path.type:
            case Type.TIME:
                return time(value)
            case Type.BOOLEAN:
                return f"CASE {kind} WHEN 'true' THEN 1 WHEN 'false' THEN 0 END"
            case Type.TEXT if path.loose:
                return f"CASE WHEN {kind} IN ('true', 'false') THEN {kind} ELSE CAST({value} AS TEXT) END"
            case Type.TEXT:
                return value
            case numeric:
                return _number(kind, value, numeric)

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
        match path.type:
            case Type.TIME:
                return time(base)
            case Type.BOOLEAN:
                return f"CASE {kind} WHEN 'true' THEN 1 WHEN 'false' THEN 0 END"
            case Type.TEXT:
                return base
            case numeric:
                return _number(kind, base, numeric)

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
        return f"json_each({base}, {place}) AS {alias}", fits, f"{alias}.key"

    @staticmethod
    def base(path: Path, frames: Frames) -> str:
        text = Renderer.base(path, frames)
        if path.root or not frames:
            return text
        return content(frames[-1 - path.up].alias)

    def bytewise(self, text: str) -> str:
        return text

    def sum(self, value: str, kind: Type) -> str:
        # sum fails where there are more than an integer can say.
        return (
            f"iif(count({value}), CAST(total({value}) AS INTEGER), NULL)"
            if kind is Type.INTEGER
            else f"sum({value})"
        )

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
                rounded = f"({_ceiling(_thousandths('r.t'), 'q.value')} / 1000.0)"
                return _quantity(quantity, f"WHEN {_IS_QUANTITY} THEN {rounded}")
            case "units", [quantity]:
                large = (
                    "CASE WHEN q.value < 9.2e18 THEN CAST(q.value AS INTEGER) ELSE 9223372036854775807 END"
                )
                rounded = _ceiling(f"({_thousandths('r.t')} / 1000.0)", large)
                plain = "WHEN r.t NOT GLOB '*[^0-9]*' AND r.t <> '' THEN CAST(r.t AS INTEGER)"
                return _quantity(quantity, f"{plain} WHEN {_IS_QUANTITY} THEN {rounded}")
            case "greatest", [left, right]:
                return f"coalesce(max({left}, {right}), {left}, {right})"
            case "selector", [value]:
                return _selector(value)
            case "integer", [text]:
                return f"CAST({text} AS INTEGER)"
            case "whole", [number]:
                return f"CASE WHEN abs({number}) < 9e18 THEN CAST({number} AS INTEGER) END"
            case "together", [left, right]:
                return f"CAST({left} + {right} AS INTEGER)"
            case "trim", [text]:
                return f"trim({text}, {_SPACE})"
            case "line", [text]:
                broken = f"instr(replace(replace({text}, char(13), char(10)), char(12), char(10)), char(10))"
                cut = f"CASE WHEN {broken} > 0 THEN substr({text}, 1, {broken} - 1) || '...' ELSE {text} END"
                return f"replace({cut}, char(27), '^[')"
            case "find", [text, part]:
                return f"instr({text}, {part})"
            case "plain", [value]:
                return (
                    f"CASE substr({value}, 1, 1) WHEN '\"' THEN {value} ->> '$' ELSE {_unescaped(value)} END"
                )
        raise AssertionError(name)


def _number(sort: str, value: str, kind: Type) -> str:
    """A JSON value if it is a number of the type; what passes an integer is a floating point number."""
    if kind is Type.NUMBER:  # never an integer: SQLite drops what a division of two leaves
        return f"CASE WHEN {sort} IN ('integer', 'real') THEN CAST({value} AS REAL) END"
    return f"CASE WHEN {sort} = 'integer' AND typeof({value}) = 'integer' THEN {value} END"


def _unescaped(json: str) -> str:
    """Compact JSON without the escapes that Go writes of what needs none. An escaped backslash before such a
    text is kept from it by a character that no JSON has.
    """
    text = f"replace({json}, '{_BACKSLASH}', char(1))"
    for sign in "<>&\u2028\u2029":
        text = f"replace({text}, '\\u{ord(sign):04x}', char({ord(sign)}))"
    return f"replace({text}, char(1), '{_BACKSLASH}')"


def _selector(value: str) -> str:
    item = content("x")
    values = (
        f"(SELECT group_concat(w.value, ',') FROM (SELECT v.value FROM json_each({item}, '$.values') AS v"
        " WHERE typeof(v.key) = 'integer' ORDER BY v.value LIMIT -1) AS w)"
    )
    return (
        "(SELECT group_concat(s.text, ',') FROM (SELECT r.text FROM ("
        "SELECT l.key AS key, 0 AS place, l.key || '=' || l.value AS text"
        f" FROM json_each({value}, '$.matchLabels') AS l WHERE typeof(l.key) = 'text'"
        f" UNION ALL SELECT {item} ->> '$.key', x.key + 1, CASE {item} ->> '$.operator'"
        f" WHEN 'In' THEN ({item} ->> '$.key') || ' in (' || {values} || ')'"
        f" WHEN 'NotIn' THEN ({item} ->> '$.key') || ' notin (' || {values} || ')'"
        f" WHEN 'Exists' THEN {item} ->> '$.key'"
        f" WHEN 'DoesNotExist' THEN '!' || ({item} ->> '$.key') END"
        f" FROM json_each({value}, '$.matchExpressions') AS x WHERE typeof(x.key) = 'integer'"
        ") AS r ORDER BY r.key, r.place LIMIT -1) AS s)"
    )


def content(alias: str) -> str:
    """An item of json_each, for a path to lead into: into what is no JSON it is an error."""
    return f"iif({alias}.atom IS NULL, {alias}.value, 0)"


def time(text: str) -> str:
    """An RFC 3339 text as `YYYY-MM-DD HH:MM:SS.ffffff` in UTC, NULL where it is none.

    The fraction is carried as text: SQLite's functions know thousandths alone, and round the second. To add
    nothing makes it of February 30 what it is not.
    """
    fraction = "substr(m.v, 20, 1) = '.' AND trim(substr(m.v, 21), '0123456789')"
    moved, before = "datetime(m.d || substr(m.v, -6))", "substr(m.v, 20, length(m.v) - 25)"
    zone = (
        f" WHEN length(m.v) = 25 THEN {moved} || '.000000'"
        f" WHEN {fraction} GLOB '[-+][01][0-9]:' THEN {moved} || substr({before} || '000000', 1, 7)"
    )
    return (
        f"(SELECT CASE WHEN replace(m.d, ' ', 'T') <> substr(m.v, 1, 19) THEN NULL"
        f" WHEN substr(m.v, 20) = 'Z' THEN m.d || '.000000'"
        f" WHEN {fraction} = 'Z' THEN m.d || substr(rtrim(substr(m.v, 20), 'Z') || '000000', 1, 7)"
        f"{zone} END FROM (SELECT n.v, datetime(substr(n.v, 1, 19), '+0 days') AS d"
        f" FROM (SELECT {text} AS v LIMIT 1) AS n LIMIT 1) AS m)"
    )


_IS_QUANTITY = (
    "rtrim(r.t, 'numkKMGTPEi') GLOB '*[0-9]'"
    " AND r.t NOT GLOB '*[^-+.0-9enumkKMGTPEi]*' AND r.t NOT GLOB '*.*.*'"
)


def _quantity(text: str, branches: str) -> str:
    """Reads `r.t` once."""
    return f"(SELECT CASE {branches} END FROM (SELECT {text} AS t LIMIT 1) AS r)"


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
