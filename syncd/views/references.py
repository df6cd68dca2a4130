"""The view `relations`, rendered.

It is meant to be asked about one object: each part of it can begin at the object, whichever side it is
on, and reach the other by an index. What is matched by kind, namespace and name is written so, though
`object_key` would do, for then the way back has an index too.
"""

# ruff: noqa: S608 - text is rendered from constants, each quoted

from __future__ import annotations

from syncd.core.relation import Relation, RelationColumn
from syncd.views.expression import Type, items, path
from syncd.views.owners import api_group
from syncd.views.part import STREAM
from syncd.views.relationship import REFERENCES, SELECTIONS, Place, Reference, Selection
from syncd.views.render import Frame, Frames, Renderer, quoted
from syncd.views.sqlite import SqliteRenderer, content

_SIDE = (
    ("api_group", "API group"),
    ("kind", "kind"),
    ("namespace", "namespace"),
    ("name", "name"),
    ("uid", "uid"),
)
_COLUMNS = (
    ("cluster", "The cluster's name in the configuration; both are in it."),
    *((f"source_{name}", f"The {about} of the object that refers to another.") for name, about in _SIDE),
    (
        "relation",
        "OWNED_BY, RUNS_ON, SELECTS, MOUNTS, USES_SERVICE_ACCOUNT, BOUND_TO or ROUTES_TO.",
    ),
    *((f"target_{name}", f"The {about} of the object that is referred to.") for name, about in _SIDE[:-1]),
    ("target_uid", "The uid of that object; NULL where it is not in the mirror."),
)
_MAPPED = "CASE jsonb_typeof({0}) WHEN 'object' THEN {0} ELSE '{{}}' END"


def relation(renderer: Renderer) -> Relation:
    """The view `relations`."""
    selects = [_owned(renderer, first=True), _owned(renderer, first=False)]
    selects += [_referring(one, renderer) for one in REFERENCES]
    selects += [_selecting(one, renderer) for one in SELECTIONS]
    columns = [RelationColumn(name, Type.TEXT.value, f"r.{name}", about) for name, about in _COLUMNS]
    columns.append(RelationColumn("stream_id", STREAM.type.value, "r.stream_id", STREAM.description))
    return Relation(
        "relations",
        "Which object refers to which: owners, nodes, selected pods, what is mounted, bound or routed to.",
        tuple(columns),
        "FROM (" + "\n  UNION ALL ".join(selects) + ") AS r",
    )


def _select(relation: str, target: tuple[str, str, str, str, str], rest: str) -> str:
    """Target: SQL of API group, kind, namespace, name and uid."""
    values = (
        "o.cluster",
        "o.api_group",
        "o.kind",
        "o.namespace",
        "o.name",
        "o.uid",
        quoted(relation),
        *target,
    )
    named = zip(values, (name for name, _ in _COLUMNS), strict=True)
    return f"SELECT {', '.join(f'{value} AS {name}' for value, name in named)}, o.stream_id\n  {rest}"


def _owned(renderer: Renderer, *, first: bool) -> str:
    """The owner as its reference has it; what is not known of one that is not here is NULL.

    Args:
        first: the owner that `owner_uid` names, which has an index; else the others, where there are any.
    """
    table, condition, _ = renderer.listing(items("metadata.ownerReferences"), "e1", ())
    frames, also = (Frame("e1", False),), _also(renderer)
    uid, version, kind, name = (
        renderer.render(path(key), frames) for key in ("uid", "apiVersion", "kind", "name")
    )
    which = f"{uid} = o.owner_uid" if first else f"{uid} <> o.owner_uid"
    return _select(
        "OWNED_BY",
        (api_group(version, renderer), kind, f"{also}t.namespace", name, "t.uid"),
        f"FROM syncd_objects o CROSS JOIN {table} LEFT JOIN syncd_objects t"
        f" ON {also}t.cluster = {also}o.cluster AND t.uid = {'o.owner_uid' if first else uid}"
        f"\n  WHERE {' AND '.join(filter(None, ('o.owner_uid IS NOT NULL', condition, which)))}",
    )


def _referring(one: Reference, renderer: Renderer) -> str:
    if len(one.places) == 1 and not one.places[0].each:
        place = one.places[0]
        kind, name, named = renderer.render(place.kind), renderer.render(place.name), ""
    else:
        kind, name, named = *_fields(renderer), f" CROSS JOIN {_named(one.places, renderer)}"
    group, resource, source = one.source
    namespace = "o.namespace" if one.namespaced else "''"
    if one.namespace is not None:
        namespace = renderer.render(one.namespace)
    also = _also(renderer)
    matches = [
        f"{also}t.cluster = o.cluster",
        f"{also}t.api_group = {quoted(one.group)}",
        f"t.kind = {kind}",
        f"t.namespace = {namespace}",
        f"t.name = {name}",
    ]
    if one.kinds:  # no object of another kind need be looked for
        matches.append(f"t.kind IN ({', '.join(map(quoted, one.kinds))})")
    if one.uid is not None:
        matches.append(f"t.uid = coalesce({renderer.render(one.uid)}, t.uid)")
    return _select(
        one.relation,
        (quoted(one.group), kind, namespace, name, "t.uid"),
        f"FROM syncd_objects o{named} LEFT JOIN syncd_objects t ON {' AND '.join(matches)}"
        f"\n  WHERE {_among(group, resource, source)} AND {name} IS NOT NULL",
    )


def _among(group: str, resource: str, kind: str) -> str:
    """Plural and kind say the same; the table has indexes by either."""
    return f"o.api_group = {quoted(group)} AND o.resource = {quoted(resource)} AND o.kind = {quoted(kind)}"


def _also(renderer: Renderer) -> str:
    """Before a column that is no reason to choose an index: SQLite, which knows no statistics, would take the
    primary key's first columns, which are the same for half of the table, for a better one.
    """
    return "+" if isinstance(renderer, SqliteRenderer) else ""


def _fields(renderer: Renderer) -> tuple[str, str]:
    """Kind and name of an item of `_named`."""
    if isinstance(renderer, SqliteRenderer):
        return "(m.value ->> '$[0]')", "(m.value ->> '$[1]')"
    return "m.kind", "m.name"


def _named(places: tuple[Place, ...], renderer: Renderer) -> str:
    """Everything that one object names, each once.

    On PostgreSQL the object is taken out of its storage once and not for every place; on SQLite, where no
    table depends on another but by the arguments of a function, it goes through one as an array.
    """
    lite = isinstance(renderer, SqliteRenderer)
    selects: list[str] = []
    for place in places:
        frames: Frames = ()
        tables, conditions = [] if lite else ["o"], list[str]()
        for listing in place.each:
            alias = f"e{len(frames) + 1}"
            table, condition, _ = renderer.listing(listing, alias, frames)
            tables.append(table)
            conditions += [condition] if condition else []
            frames = (*frames, Frame(alias, listing.entries))
        name = renderer.render(place.name, frames)
        conditions.append(f"{name} IS NOT NULL")
        source = f"FROM {' CROSS JOIN '.join(tables)} " if tables else ""
        kind = renderer.render(place.kind, frames)
        selects.append(f"SELECT {kind} AS kind, {name} AS name {source}WHERE {' AND '.join(conditions)}")
    union = " UNION ".join(selects)
    if lite:
        return f"json_each((SELECT json_group_array(json_array(n.kind, n.name)) FROM ({union}) AS n)) AS m"
    kept = (
        "SELECT jsonb_build_object('spec', o.object -> 'spec', 'metadata',"
        " jsonb_build_object('name', o.name)) AS object"
    )
    return f"LATERAL (WITH o AS MATERIALIZED ({kept}) {union}) AS m"


def _selecting(one: Selection, renderer: Renderer) -> str:
    group, resource, source = one.source
    selector = renderer.render(one.selector)
    matches, also = _matching(selector, one, renderer), _also(renderer)
    return _select(
        "SELECTS",
        ("''", "'Pod'", "t.namespace", "t.name", "t.uid"),
        f"FROM syncd_objects o JOIN syncd_objects t ON {also}t.cluster = o.cluster"
        f" AND {also}t.api_group = '' AND t.kind = 'Pod' AND t.namespace = o.namespace"
        f"\n  WHERE {_among(group, resource, source)} AND {matches}",
    )


def _matching(selector: str, one: Selection, renderer: Renderer) -> str:
    if isinstance(renderer, SqliteRenderer):
        return _matching_sqlite(one, renderer)
    if one.plain:
        return f"{selector} <> '{{}}' AND t.labels @> {selector}"
    labels = "coalesce(t.labels, '{}')"
    wanted = _MAPPED.format(f"({selector} -> 'matchLabels')")
    expressions = f"{selector} -> 'matchExpressions'"
    has = f"{labels} ? (x.value ->> 'key')"
    within = f"coalesce(x.value -> 'values' ? ({labels} ->> (x.value ->> 'key')), false)"
    return (
        f"jsonb_typeof({selector}) = 'object' AND {labels} @> {wanted} AND NOT EXISTS (SELECT 1"
        f" FROM jsonb_array_elements(CASE jsonb_typeof({expressions}) WHEN 'array' THEN {expressions} END)"
        f" AS x(value) WHERE NOT coalesce({_operator('x.value ->> {}', has, within)}, false))"
    )


def _matching_sqlite(one: Selection, renderer: Renderer) -> str:
    place = "$." + ".".join(str(key) for key in one.selector.keys)
    labels = "coalesce(t.labels, '{}')"

    def lacking(at: str) -> str:
        """An entry of a map that the labels lack; what is no map has no keys."""
        return (
            f"EXISTS (SELECT 1 FROM json_each(o.object, {quoted(at)}) AS l WHERE l.key IS NOT NULL"
            f" AND (instr({labels}, l.value) = 0"  # most often it settles it, and reads no JSON
            f" OR json_extract({labels}, '$.\"' || l.key || '\"') IS NOT l.value))"
        )

    if one.plain:
        some = f"EXISTS (SELECT 1 FROM json_each(o.object, {quoted(place)}) AS l WHERE l.key IS NOT NULL)"
        return f"{some} AND NOT {lacking(place)}"
    item = content("x")
    key = f"json_extract({labels}, '$.\"' || ({item} ->> '$.key') || '\"')"
    has = f"{key} IS NOT NULL"
    within = f"{key} IN (SELECT v.value FROM json_each({item}, '$.values') AS v)"
    return (
        f"json_type(o.object, {quoted(place)}) = 'object' AND NOT {lacking(place + '.matchLabels')}"
        f" AND NOT EXISTS (SELECT 1 FROM json_each(o.object, {quoted(place + '.matchExpressions')}) AS x"
        f" WHERE x.key IS NOT NULL"
        f" AND NOT coalesce({_operator(f'{item} ->> {{}}', has, f'coalesce({within}, 0)', '$.')}, 0))"
    )


def _operator(field: str, has: str, within: str, root: str = "") -> str:
    operator = field.format(quoted(f"{root}operator"))
    return (
        f"CASE {operator} WHEN 'In' THEN {within} WHEN 'NotIn' THEN NOT ({within})"
        f" WHEN 'Exists' THEN {has} WHEN 'DoesNotExist' THEN NOT ({has}) END"
    )
