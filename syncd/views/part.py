"""A view whose rows are parts of objects, as data: containers of pods, rules of roles, conditions of all.

`View` is for rows that are objects. A part carries who its object is and nothing else of it: `uid` joins it
to the view of its kind, `stream_id` to its freshness.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from syncd.core.relation import Relation, RelationColumn
from syncd.views.expression import Expression, Field, Listing, Path, Type
from syncd.views.render import Frame, Frames, Renderer, quoted
from syncd.views.view import Column


@dataclass(frozen=True, slots=True)
class Beside:
    """The item of another list that belongs to a row: it is the innermost item for the row's expressions.

    Attributes:
        matching: which one; at most one does.
    """

    listing: Listing
    matching: Expression


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of a part's view.

    Attributes:
        resources: (API group, plural) of the objects that they are in; none: of every object.
        each: the lists, each inside the item of the one before; none: a row an object.
        beside: what each row is joined to, if it is there.
        where: which items are rows.
        values: what columns are in these rows, where that is not the column's own expression.
    """

    resources: tuple[tuple[str, str], ...]
    each: tuple[Listing, ...] = ()
    beside: Beside | None = None
    where: Expression | None = None
    values: Mapping[str, Expression] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Part:
    """One view.

    Attributes:
        members: the columns between the object's and `stream_id`.
        spanning: whether the objects are of several kinds; it has `api_group` and `kind` then.
    """

    name: str
    description: str
    members: tuple[Column, ...]
    rows: tuple[Rows, ...]
    spanning: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        """All of them, in the order of the view."""
        own = (IDENTITY[0], *KIND, *IDENTITY[1:]) if self.spanning else IDENTITY
        return (*own, *self.members, STREAM)


def _field(name: str, description: str, kind: Type = Type.TEXT) -> Column:
    return Column(name, kind, Field(name, kind), description)


IDENTITY = (
    _field("cluster", "The cluster's name in the configuration."),
    _field("namespace", "The object's namespace, '' where its kind has none."),
    _field("name", "The object's name."),
    _field("uid", "The object's uid."),
)
KIND = (
    _field("api_group", "The object's API group, '' for the core group."),
    _field("kind", "The object's kind."),
)
STREAM = _field("stream_id", "The stream that the object came by, for its freshness.", Type.INTEGER)


def relation(part: Part, renderer: Renderer) -> Relation:
    """The view."""
    selects = [_select(part, rows, renderer) for rows in part.rows]
    if len(selects) == 1:
        values, source = selects[0]
    else:
        texts = [
            "SELECT " + ", ".join(f"{value} AS {name}" for name, value in one.items()) + f"\n  {rest}"
            for one, rest in selects
        ]
        values = {column.name: f"p.{column.name}" for column in part.columns}
        source = "FROM (" + "\n  UNION ALL ".join(texts) + ") AS p"
    columns = tuple(
        RelationColumn(
            column.name, column.type.value, values[column.name], column.description, _origin(part, column)
        )
        for column in part.columns
    )
    return Relation(part.name, part.description, columns, source)


def _select(part: Part, rows: Rows, renderer: Renderer) -> tuple[dict[str, str], str]:
    frames: Frames = ()
    source, conditions = ["syncd_objects o"], [_subject(rows)] if rows.resources else []
    for listing in rows.each:
        alias = f"e{len(frames) + 1}"
        table, condition, _ = renderer.listing(listing, alias, frames)
        source.append(f"CROSS JOIN {table}")
        conditions += [condition] if condition else []
        frames = (*frames, Frame(alias, listing.entries))
    if rows.beside is not None:
        alias = f"e{len(frames) + 1}"
        table, condition, _ = renderer.listing(rows.beside.listing, alias, frames)
        frames = (*frames, Frame(alias, rows.beside.listing.entries))
        matching = " AND ".join(filter(None, (condition, renderer.render(rows.beside.matching, frames))))
        source.append(f"LEFT JOIN {table} ON {matching}")
    if rows.where is not None:
        conditions.append(renderer.render(rows.where, frames))
    values = {
        column.name: renderer.render(rows.values.get(column.name, column.value), frames)
        for column in part.columns
    }
    ending = f"\nWHERE {' AND '.join(conditions)}" if conditions else ""
    return values, f"FROM {' '.join(source)}{ending}"


def _subject(rows: Rows) -> str:
    by_group: dict[str, list[str]] = {}
    for group, resource in rows.resources:
        by_group.setdefault(group, []).append(quoted(resource))
    each = [
        f"o.api_group = {quoted(group)} AND o.resource "
        + (f"= {names[0]}" if len(names) == 1 else f"IN ({', '.join(names)})")
        for group, names in by_group.items()
    ]
    return each[0] if len(each) == 1 else "(" + " OR ".join(each) + ")"


def _origin(part: Part, column: Column) -> str:
    """`spec.containers[].image`, of the first rows; '' for what is computed."""
    first = part.rows[0]
    value = first.values.get(column.name, column.value)
    return _place(value, first) if isinstance(value, Path) else ""


def _place(path: Path, rows: Rows) -> str:
    text = ".".join(str(key) for key in path.keys)
    lists = [*rows.each, rows.beside.listing] if rows.beside else list(rows.each)
    if path.root or not lists:
        return text
    around = lists[: len(lists) - path.up]
    outer = around[-1].path
    if rows.beside is not None and path.up == 0:
        return f"{_place(replace(outer, up=0, root=True), rows)}[].{text}"
    inside = Rows(rows.resources, tuple(around[:-1]))
    return f"{_place(outer, inside)}[]" + (f".{text}" if text else "")
