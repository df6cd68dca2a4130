"""Expressions as PostgreSQL's SQL, version 14 and newer."""

# ruff: noqa: S608 - text is rendered from the catalogue and from schemas, each name and constant quoted

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from syncd.views.expression import Call, Expression, Listing, Literal, Over, Path, Type
from syncd.views.render import SPACES, Frame, Frames, Renderer, quoted

_FACTORS = (
    ("m", "0.001"), ("k", "1e3"), ("M", "1e6"), ("G", "1e9"), ("T", "1e12"), ("P", "1e15"), ("E", "1e18"),
    ("n", "1e-9"), ("u", "1e-6"),
)  # fmt: skip
_SPACE = "U&'" + "".join(f"\\{ord(space):04X}" for space in SPACES) + "'"
_SECONDS = 'strict $.datetime("YYYY-MM-DD\\"T\\"HH24:MI:SS\\"Z\\"")'
_FRACTIONS = 'strict $.datetime("YYYY-MM-DD\\"T\\"HH24:MI:SS.US\\"Z\\"")'
# Conditions of jsonpath, which are false of another type: a cast never meets what it cannot take.
_FITTING = {
    Type.INTEGER: "@.floor() == @ && @.abs() < 9223372036854775808",
    Type.NUMBER: "@.abs() < 1e308 && (@.abs() > 1e-300 || @ == 0)",
}
_DECIMAL = "\n    ".join(f"WHEN {quoted(suffix)} THEN {factor}" for suffix, factor in _FACTORS)
_MOST = 2**63 - 1
_QUANTITY = "^[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9][0-9]?)?([numkMGTPE]|[KMGTPE]i)?$"
_MOMENT = "^[0-9]{4}(-[0-9]{2}){2}T[0-9]{2}(:[0-9]{2}){2}([.][0-9]+)?(Z|[-+](0[0-9]|1[0-4]):[0-5][0-9])$"


def _quantity(name: str, kind: str, result: str) -> str:
    """A function of a quantity. In PL/pgSQL, which is called in a fifth of the time of SQL."""
    return f"""
CREATE OR REPLACE FUNCTION {name}(quantity text) RETURNS {kind}
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT AS $$
DECLARE
  exact numeric;
BEGIN
  IF quantity !~ '{_QUANTITY}' OR length(quantity) > 60 THEN
    RETURN NULL;  -- not even what arithmetic or a cast could not take
  END IF;
  exact := rtrim(quantity, 'numkKMGTPEi')::numeric * CASE right(quantity, 1)
    WHEN 'i' THEN 1::bigint << 10 * strpos('KMGTPE', left(right(quantity, 2), 1))
    {_DECIMAL}
    ELSE 1 END;
  RETURN {result};
END $$"""


def _bounded(number: str) -> str:
    """Not more than a bigint holds; NULL for NULL, which `least` does not give."""
    return f"(CASE WHEN {number} > {_MOST} THEN {_MOST} ELSE {number} END)"


def _asked_for(name: str, kind: str, resource: str, convert: str, total: str) -> str:
    """A function of what a pod's containers and sidecars ask for, or what it states as a whole. As subqueries
    in the view the four of them were half the time in which any query of pods was planned.
    """
    part = f"SELECT sum({convert}(e.value -> 'resources' -> field ->> '{resource}')) FROM jsonb_path_query"
    return f"""
CREATE OR REPLACE FUNCTION {name}(object jsonb, field text) RETURNS {kind}
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path FROM CURRENT AS $$
DECLARE
  plain {total} := ({part}(object, 'strict $.spec.containers[*]', '{{}}', true) AS e(value));
  sidecars {total} := ({part}(object,
    'strict $.spec.initContainers[*] ? (@.restartPolicy == "Always")', '{{}}', true) AS e(value));
  whole {kind} := {convert}(object -> 'spec' -> 'resources' -> field ->> '{resource}');
  total {total} := coalesce(plain + sidecars, plain, sidecars);
BEGIN
  RETURN coalesce(whole, {_bounded("total") if kind == "bigint" else "total"});
END $$"""


FUNCTIONS = {
    "syncd_cores": _quantity("syncd_cores", "double precision", "ceil(exact * 1000) / 1000"),
    "syncd_units": _quantity("syncd_units", "bigint", f"greatest(least(ceil(exact), {_MOST}), -{_MOST})"),
    # First as the API writes a time. What jsonpath reads can be cast. No EXCEPTION: before PostgreSQL 17 a
    # parallel query that meets a block with one fails.
    "syncd_time": f"""
CREATE OR REPLACE FUNCTION syncd_time(value jsonb) RETURNS timestamptz
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT AS $$
BEGIN
  RETURN coalesce(
    (coalesce(jsonb_path_query_first(value, '{_SECONDS}', '{{}}', true),
      jsonb_path_query_first(value, '{_FRACTIONS}', '{{}}', true)) #>> '{{}}')::timestamp AT TIME ZONE 'UTC',
    CASE WHEN value #>> '{{}}' ~ '{_MOMENT}' AND value #>> '{{}}' !~ '^0000' AND
      jsonb_path_exists(to_jsonb(left(value #>> '{{}}', 19) || 'Z'), '{_SECONDS}', '{{}}', true)
      THEN regexp_replace(value #>> '{{}}', '([.][0-9]{{6}})[0-9]+', '\\1')::timestamptz END);
END $$""",
    # Keys in the order of their bytes, as Kubernetes writes a map. It calls itself, wherever the caller is.
    "syncd_json": """
CREATE OR REPLACE FUNCTION syncd_json(document jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SET search_path FROM CURRENT
AS $$ BEGIN
  RETURN CASE jsonb_typeof(document)
    WHEN 'object' THEN '{' || coalesce((SELECT string_agg(to_json(e.key)::text || ':' || syncd_json(e.value),
      ',' ORDER BY e.key COLLATE "C") FROM jsonb_each(document) AS e(key, value)), '') || '}'
    WHEN 'array' THEN '[' || coalesce((SELECT string_agg(syncd_json(e.value), ',' ORDER BY e.place)
      FROM jsonb_array_elements(document) WITH ORDINALITY AS e(value, place)), '') || ']'
    ELSE document::text END;
END $$""",
    "syncd_pod_cores": _asked_for(
        "syncd_pod_cores", "double precision", "cpu", "syncd_cores", "double precision"
    ),
    "syncd_pod_bytes": _asked_for("syncd_pod_bytes", "bigint", "memory", "syncd_units", "numeric"),
}
"""What the views call, in the order in which they are made."""


class PostgresqlRenderer(Renderer):
    """See `Renderer`."""

    # syncd_pod and the columns that are stored of it are made by a migration.
    quicker: ClassVar[Mapping[str, str]] = {
        "pod_node": "o.pod_node",
        "pod_phase": "o.pod_phase",
        "pod_status": "o.pod_status",
        "pod_restarts": "o.pod_restarts",
        "pod_last_restart": "syncd_time(to_jsonb(syncd_pod(o.object, 'restarted')))",
        "pod_ready": "syncd_pod(o.object, 'ready')::bigint",
        "pod_cpu_requests": "syncd_pod_cores(o.object, 'requests')",
        "pod_cpu_limits": "syncd_pod_cores(o.object, 'limits')",
        "pod_memory_requests": "syncd_pod_bytes(o.object, 'requests')",
        "pod_memory_limits": "syncd_pod_bytes(o.object, 'limits')",
    }

    def null(self, kind: Type) -> str:
        return f"NULL::{kind.value}"

    def path(self, path: Path, frames: Frames) -> str:
        if path.type is Type.JSON:
            return f"nullif({self._json(path, frames)}, 'null')"
        match path.type:
            case Type.TEXT:
                return self._text(path, frames)
            case Type.BOOLEAN:
                return f"CASE {self._json(path, frames)} WHEN 'true' THEN true WHEN 'false' THEN false END"
            case Type.TIME:
                return f"syncd_time({self._json(path, frames)})"
            case kind:
                return f"{self._found(path, frames, f' ? ({_FITTING[kind]})')}::{kind.value}"

    def _found(self, path: Path, frames: Frames, more: str) -> str:
        """What a jsonpath finds, NULL instead of errors. The document is unpacked once."""
        place = quoted("strict $" + "".join(map(_step, path.keys)) + more)
        return f"jsonb_path_query_first({self.base(path, frames)}, {place}, '{{}}', true)"

    def _text(self, path: Path, frames: Frames) -> str:
        if not path.keys:
            return f"({self.base(path, frames)} #>> '{{}}')"
        outer = self._json(replace(path, keys=path.keys[:-1]), frames)
        return f"({outer} ->> {_key(path.keys[-1])})"

    def _json(self, path: Path, frames: Frames) -> str:
        return " -> ".join([self.base(path, frames), *map(_key, path.keys)])

    def sort(self, path: Path, frames: Frames) -> str:
        return f"jsonb_typeof({self._json(path, frames)})"

    def key(self, frame: Frame) -> str:
        return f"{frame.alias}.key" if frame.entries else f"({frame.alias}.ordinal - 1)"

    def listing(self, listing: Listing, alias: str, frames: Frames) -> tuple[str, str, str]:
        value = self._json(listing.path, frames)
        if listing.entries:
            guarded = f"CASE jsonb_typeof({value}) WHEN 'object' THEN {value} END"
            return f"jsonb_each({guarded}) AS {alias}(key, value)", "", f'{alias}.key COLLATE "C"'
        if listing.outer:
            guarded = f"CASE jsonb_typeof({value}) WHEN 'array' THEN nullif({value}, '[]') END"
            found = f"jsonb_array_elements(coalesce({guarded}, '[null]'))"
        else:
            found = f"jsonb_path_query({self._items(listing, frames)})"
        source = f"{found} WITH ORDINALITY AS {alias}(value, ordinal)"
        return source, "", f"{alias}.ordinal"

    def _items(self, listing: Listing, frames: Frames, condition: str = "") -> str:
        """The arguments of a jsonpath function for the items. Strict and silent: anything but an array has
        none. The document is unpacked once.
        """
        place = quoted("strict $" + "".join(map(_step, listing.path.keys)) + "[*]" + condition)
        return f"{self.base(listing.path, frames)}, {place}, '{{}}', true"

    def picked(self, over: Over, frames: Frames) -> str:
        """A jsonpath: planned in a tenth of the time of a subquery, which every query of a view pays for,
        whether it wants the column or not.
        """
        listing, *inner = over.lists
        holds = None if over.where is None else _condition(over.where)
        if inner or listing.entries or listing.outer or holds == "":
            return ""
        items = self._items(listing, frames, f" ? ({holds})" if holds else "")
        match over.fold, over.value:
            case "count", _:
                return f"jsonb_array_length(jsonb_path_query_array({items}))::bigint"
            case "exists", _:
                return f"coalesce(jsonb_path_exists({items}), false)"
            case "first", Path((*outer, last), Type.TEXT, 0, False):
                found = " -> ".join([f"jsonb_path_query_first({items})", *map(_key, outer)])
                return f"({found} ->> {_key(last)})"
        return ""

    def bytewise(self, text: str) -> str:
        return f'{text} COLLATE "C"'

    def sum(self, value: str, kind: Type) -> str:
        found = f"sum({value})"
        return f"{_bounded(found) if kind is Type.INTEGER else found}::{kind.value}"

    def join(self, over: Over, value: str, rest: str, order: str) -> str:
        separator = quoted(over.separator)
        if over.unique:
            text = f'({value}) COLLATE "C"'
            return f"(SELECT string_agg(DISTINCT {text}, {separator} ORDER BY {text}) {rest})"
        if over.limit is None:
            return f"(SELECT string_agg({value}, {separator} ORDER BY {order}) {rest})"
        numbered = f"SELECT {value} AS value, row_number() OVER (ORDER BY {order}) AS place {rest}"
        return (
            f"(SELECT string_agg(s.value, {separator} ORDER BY s.place) FROM ({numbered}) AS s"
            f" WHERE s.place <= {over.limit})"
        )

    def operation(self, name: str, arguments: list[str]) -> str:
        match name, arguments:
            case "now", []:
                return "now()"
            case "elapsed", [since, until]:
                seconds = (f"extract(epoch from date_trunc('second', {one}))" for one in (until, since))
                return f"({' - '.join(seconds)})::bigint"
            case "cores", [quantity]:
                return f"syncd_cores({quantity})"
            case "units", [quantity]:
                return f"syncd_units({quantity})"
            case "greatest", _:
                return f"greatest({', '.join(arguments)})"
            case "selector", [value]:
                return _selector(value)
            case "integer", [text]:
                return f"({text})::bigint"
            case "whole", [number]:
                return f"CASE WHEN abs({number}) < 9e18 THEN trunc({number})::bigint END"
            case "together", [left, right]:
                return f"{_bounded(f'{left}::numeric + {right}')}::bigint"
            case "trim", [text]:
                return f"btrim({text}, {_SPACE})"
            case "line", [text]:
                return f"replace(regexp_replace({text}, '[\\f\\n\\r].*', '...'), E'\\x1b', '^[')"
            case "find", [text, part]:
                return f"strpos({text}, {part})"
            case "plain", [value]:
                compact = f"jsonb_typeof({value}) IN ('object', 'array') THEN syncd_json({value})"
                return f"CASE WHEN {compact} ELSE {value} #>> '{{}}' END"
        raise AssertionError(name)


def _selector(value: str) -> str:
    labels = f"{value} -> 'matchLabels'"
    expressions = f"{value} -> 'matchExpressions'"
    values = (
        "(SELECT string_agg(v.value, ',' ORDER BY v.value COLLATE \"C\")"
        " FROM jsonb_array_elements_text(CASE jsonb_typeof(x.value -> 'values') WHEN 'array'"
        " THEN x.value -> 'values' END) AS v(value))"
    )
    return (
        "(SELECT string_agg(r.text, ',' ORDER BY r.key COLLATE \"C\", r.place) FROM ("
        "SELECT l.key, 0 AS place, l.key || '=' || l.value AS text"
        f" FROM jsonb_each_text(CASE jsonb_typeof({labels}) WHEN 'object' THEN {labels} END) AS l(key, value)"
        " UNION ALL SELECT x.value ->> 'key', x.ordinal, CASE x.value ->> 'operator'"
        f" WHEN 'In' THEN (x.value ->> 'key') || ' in (' || {values} || ')'"
        f" WHEN 'NotIn' THEN (x.value ->> 'key') || ' notin (' || {values} || ')'"
        " WHEN 'Exists' THEN x.value ->> 'key'"
        " WHEN 'DoesNotExist' THEN '!' || (x.value ->> 'key') END"
        f" FROM jsonb_array_elements(CASE jsonb_typeof({expressions}) WHEN 'array' THEN {expressions} END)"
        " WITH ORDINALITY AS x(value, ordinal)) AS r)"
    )


def _condition(where: Expression) -> str:
    """A condition of an item as jsonpath's, '' where that has no equal."""
    match where:
        case Call("=", (Path(keys, Type.TEXT, 0, False), Literal(str(text)))) if (
            text.isalpha() and text not in ("true", "false")
        ):
            # Only a text is spelt so: a number, true or false that `->>` would write alike cannot be meant.
            return f'@{"".join(map(_step, keys))} == "{text}"'
        case Call("coalesce", (Path(keys, Type.BOOLEAN, 0, False), Literal(False))):
            return f"@{''.join(map(_step, keys))} == true"
        case Call("and", parts):
            conditions = [_condition(part) for part in parts]
            return " && ".join(conditions) if all(conditions) else ""
    return ""


def _step(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]" if key >= 0 else f"[last - {-1 - key}]"
    return '."' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _key(key: str | int) -> str:
    return str(key) if isinstance(key, int) else quoted(key)
