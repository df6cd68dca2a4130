"""The view `owners`, rendered: from every object up to its root, a row an owner.

It climbs by `owner_uid`, which is the controller, else the first owner, and begins anew for each object, so
that a filter on the object is applied before and not after.
"""

# ruff: noqa: S608 - text is rendered from constants, each quoted

from __future__ import annotations

from syncd.core.relation import Relation, RelationColumn
from syncd.views.expression import Type, items, path
from syncd.views.part import IDENTITY, KIND, STREAM
from syncd.views.render import Frame, Renderer
from syncd.views.sqlite import SqliteRenderer
from syncd.views.view import Column

_DEEPEST = 32
"""Steps; more is a ring."""


def api_group(version: str, renderer: Renderer) -> str:
    """SQL of the group in `apps/v1`; '' of `v1`."""
    slash = renderer.operation("find", [version, "'/'"])
    return f"CASE WHEN {slash} > 0 THEN substr({version}, 1, {slash} - 1) ELSE '' END"


def relation(renderer: Renderer) -> Relation:
    """The view."""
    lite = isinstance(renderer, SqliteRenderer)
    uid, owner, depth = (
        (f"(u.value ->> '$[{place}]')" for place in range(3)) if lite else ("u.uid", "u.owner_uid", "u.depth")
    )

    def referred(field: str) -> str:
        """Of an owner that is not here, what the object below says of it."""
        table, condition, order = renderer.listing(items("metadata.ownerReferences"), "e1", ())
        frames = (Frame("e1", False),)
        text = renderer.render(path(field), frames)
        value = api_group(text, renderer) if field == "apiVersion" else text
        match = " AND ".join(filter(None, (condition, f"{renderer.render(path('uid'), frames)} = {owner}")))
        return (
            f"(SELECT {value} FROM syncd_objects o CROSS JOIN {table} WHERE o.uid = {uid}"
            f" AND {match} ORDER BY {order} LIMIT 1)"
        )

    def either(column: str, field: str) -> str:
        return f"CASE WHEN t.uid IS NULL THEN {referred(field)} ELSE t.{column} END"

    columns = [_plain(column) for column in (IDENTITY[0], *KIND, *IDENTITY[1:])]
    columns += [
        RelationColumn("depth", Type.INTEGER.value, depth, "1 for the owner, 2 for the owner of that, …"),
        RelationColumn(
            "is_root",
            Type.BOOLEAN.value,
            "t.owner_uid IS NULL",
            "Whether nothing that is known owns the owner.",
        ),
        RelationColumn(
            "owner_api_group", Type.TEXT.value, either("api_group", "apiVersion"), "The owner's API group."
        ),
        RelationColumn("owner_kind", Type.TEXT.value, either("kind", "kind"), "The owner's kind."),
        RelationColumn(
            "owner_namespace",
            Type.TEXT.value,
            "t.namespace",
            "The owner's namespace; NULL where it is not in the mirror.",
        ),
        RelationColumn("owner_name", Type.TEXT.value, either("name", "name"), "The owner's name."),
        RelationColumn("owner_uid", Type.TEXT.value, owner, "The owner's uid."),
        RelationColumn(
            "is_mirrored", Type.BOOLEAN.value, "t.uid IS NOT NULL", "Whether the owner is in the mirror."
        ),
        _plain(STREAM),
    ]
    return Relation(
        "owners",
        "Every object that has an owner, with each owner up to its root.",
        tuple(columns),
        f"FROM syncd_objects o CROSS JOIN {_climb(lite=lite)}"
        f" LEFT JOIN syncd_objects t ON t.uid = {owner} AND {'+' if lite else ''}t.cluster = o.cluster"
        "\nWHERE o.owner_uid IS NOT NULL",
    )


def _plain(column: Column) -> RelationColumn:
    return RelationColumn(column.name, column.type.value, f"o.{column.name}", column.description)


def _climb(*, lite: bool) -> str:
    recursion = (
        "WITH RECURSIVE up(uid, owner_uid, depth) AS (SELECT o.uid, o.owner_uid, 1"
        " UNION ALL SELECT a.uid, a.owner_uid, up.depth + 1 FROM up JOIN syncd_objects a"
        f" ON a.uid = up.owner_uid AND {'+' if lite else ''}a.cluster = o.cluster"
        f" WHERE a.owner_uid IS NOT NULL AND up.depth < {_DEEPEST})"
    )
    if lite:
        array = "json_group_array(json_array(up.uid, up.owner_uid, up.depth))"
        return f"json_each(({recursion} SELECT {array} FROM up)) AS u"
    return f"LATERAL ({recursion} SELECT up.uid, up.owner_uid, up.depth::bigint AS depth FROM up) AS u"
