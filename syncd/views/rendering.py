"""Views as relations of a dialect, and what kubectl prints of them as a query over them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from syncd.core.relation import Relation, RelationColumn, Relations, relation_name
from syncd.views.expression import Expression, Path
from syncd.views.postgresql import FUNCTIONS, PostgresqlRenderer
from syncd.views.render import Frame, Frames, Renderer, identifier, quoted
from syncd.views.sqlite import SqliteRenderer
from syncd.views.view import Column, View

RENDERERS: dict[str, type[Renderer]] = {"sqlite": SqliteRenderer, "postgresql": PostgresqlRenderer}


def relations(views: Iterable[View], dialect: str) -> Relations:
    """What a database of this dialect (`sqlite` or `postgresql`) shall have: each view under its name with
    the group, and under its short name where no view before it has that.
    """
    found: list[Relation] = []
    taken: set[str] = set()
    for view in views:
        long = relation(view, dialect, by_kind=True)
        found.append(long)
        if view.short_name not in taken:
            taken.add(view.short_name)
            wider = replace(view, groups=view.short_groups)
            wide = relation(wider, dialect, by_kind=True) if view.short_groups else long
            found.append(shortened(wide, view.short_name, dialect, over=not view.short_groups))
    return Relations(tuple(FUNCTIONS.items()) if dialect == "postgresql" else (), tuple(found))


def relation(view: View, dialect: str, *, by_kind: bool = False) -> Relation:
    """The view under its name with the group.

    Args:
        by_kind: ask for the kind too, which the index over kind, namespace and name serves. Not where
            clusters may have a resource with different kinds.
    """
    columns = {column.name: column.value for column in view.columns}
    renderer = RENDERERS[dialect](columns)
    frames: Frames = ()
    source, conditions = ["syncd_objects o"], [_subject(view, by_kind=by_kind)]
    for place, listing in enumerate(view.each, 1):
        table, condition, _ = renderer.listing(listing, f"e{place}", frames)
        source.append(table)
        conditions += [condition] if condition else []
        frames = (*frames, Frame(f"e{place}", listing.entries))
    return Relation(
        view.long_name,
        view.description,
        tuple(_column(column, renderer, frames) for column in view.columns),
        f"FROM {', '.join(source)}\nWHERE {' AND '.join(conditions)}",
        f"{view.groups[0]}/{view.resource}",
    )


def shortened(long: Relation, name: str, dialect: str, *, over: bool = True) -> Relation:
    """The same view under a short name.

    Args:
        over: on SQLite, select from the long one: each connection there parses the text of every view before
            it answers anything. On PostgreSQL it would tie the two together for whoever changes one.
    """
    if dialect == "sqlite" and over:
        columns = tuple(replace(column, value=f'o."{column.name}"') for column in long.columns)
        long = replace(long, columns=columns, source=f"FROM {long.name} AS o")
    return replace(long, name=name, short=True)


def kubectl(view: View, dialect: str, name: str = "") -> str:
    """The query, over the view, whose rows are those of `kubectl get RESOURCE -A -o wide`, a text a cell.

    Args:
        name: of the relation; left out: the view's name with the group.
    """
    renderer = RENDERERS[dialect]()
    cells = ",\n  ".join(
        f"{renderer.render(cell.value)} AS {identifier(cell.heading)}" for cell in view.cells
    )
    return f"SELECT\n  {cells}\nFROM {relation_name(name) if name else view.long_name} AS o"


def _subject(view: View, *, by_kind: bool) -> str:
    groups = ", ".join(quoted(group) for group in view.groups)
    group = f"o.api_group IN ({groups})" if len(view.groups) > 1 else f"o.api_group = {groups}"
    kind = f"o.kind = {quoted(view.kind)} AND " if by_kind else ""
    return f"{kind}{group} AND o.resource = {quoted(view.resource)}"


def _column(column: Column, renderer: Renderer, frames: Frames) -> RelationColumn:
    value = renderer.render(column.value, frames)
    return RelationColumn(column.name, column.type.value, value, column.description, origin(column.value))


def origin(value: Expression) -> str:
    """Where in the document a value comes from, `spec.nodeName`; '' where it is computed."""
    if not isinstance(value, Path):
        return ""
    return ".".join(str(key) if "." not in str(key) else f"[{key}]" for key in value.keys)
