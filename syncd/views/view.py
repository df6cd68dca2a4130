"""A view as data: which objects, which columns, and what kubectl prints of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from syncd.core.relation import relation_name
from syncd.views.duration import human
from syncd.views.expression import (
    Bound,
    Call,
    Expression,
    Field,
    Let,
    Listing,
    Ref,
    Type,
    boolean,
    call,
    case,
    coalesce,
    concat,
    elapsed,
    first,
    items,
    path,
    true,
)


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        name: snake_case, reserved in no database.
        description: for users; comments, dictionary and pages repeat it.
        shown: the heading under which kubectl prints it, '' where it does not.
        absent: what kubectl prints for NULL.
    """

    name: str
    type: Type
    value: Expression
    description: str
    shown: str = ""
    absent: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """What kubectl prints in one column where that is no column of the view as it stands.

    Attributes:
        relative: it depends on when it is printed.
    """

    heading: str
    value: Expression
    relative: bool = False


Member = Column | Cell


@dataclass(frozen=True, slots=True)
class View:
    """One kind's view.

    Attributes:
        resource: the plural, which is the view's short name.
        groups: API groups whose objects it shows, most often one.
        members: columns and cells, those that kubectl prints in its order.
        each: rows are the items of these lists in an object, instead of objects.
        name: the short name where it is not the resource.
        short_groups: what the view shows under its short name where that is more: one storage served twice.
    """

    resource: str
    groups: tuple[str, ...]
    kind: str
    description: str
    members: tuple[Member, ...]
    namespaced: bool = True
    each: tuple[Listing, ...] = ()
    name: str = ""
    short_groups: tuple[str, ...] = ()

    @property
    def short_name(self) -> str:
        return relation_name(self.name or self.resource)

    @property
    def long_name(self) -> str:
        """With the group: `deployments_apps`, `pods_core`."""
        return relation_name(self.name or self.resource, self.groups[0] or "core")

    @property
    def columns(self) -> tuple[Column, ...]:
        """All of them, in the order of the view."""
        own = tuple(member for member in self.members if isinstance(member, Column))
        return (*IDENTITY, *own, *TRAILING)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """What `kubectl get -A -o wide` prints, column by column."""
        found = [Cell("Namespace", Ref("namespace"))] if self.namespaced else []
        named = any(isinstance(member, Cell) and member.heading == "Name" for member in self.members)
        found += [] if named else [Cell("Name", Ref("name"))]
        for member in self.members:
            if isinstance(member, Cell):
                found.append(replace(member, value=shown(member.value)))
            elif member.shown:
                text = shown(Ref(member.name, member.type))
                found.append(Cell(member.shown, coalesce(text, member.absent)))
        return tuple(cell if cell.relative else replace(cell, value=_printed(cell.value)) for cell in found)


def shown(value: Expression) -> Expression:
    """A value as kubectl prints it."""
    if value.type is Type.BOOLEAN:
        return case((value, "true"), (call("not", Type.BOOLEAN, value), "false"))
    return value if value.type is Type.TEXT else Call("text", (value,), Type.TEXT)


# --- a column is one line --------------------------------------------------------------------------


def _value(value: str | Expression, kind: Type) -> Expression:
    return path(value, kind=kind) if isinstance(value, str) else value


def text(name: str, value: str | Expression, description: str, shown: str = "", absent: str = "") -> Column:
    return Column(name, Type.TEXT, _value(value, Type.TEXT), description, shown, absent)


def number(name: str, value: str | Expression, description: str, shown: str = "", absent: str = "") -> Column:
    """A whole number."""
    return Column(name, Type.INTEGER, _value(value, Type.INTEGER), description, shown, absent)


def quantity(name: str, value: Expression, description: str) -> Column:
    """A number that need not be whole."""
    return Column(name, Type.NUMBER, value, description)


def yes(name: str, value: str | Expression, description: str, shown: str = "", absent: str = "") -> Column:
    """True or false; NULL where a path leads nowhere."""
    return Column(name, Type.BOOLEAN, _value(value, Type.BOOLEAN), description, shown, absent)


def at(name: str, value: str | Expression, description: str) -> Column:
    """A time."""
    return Column(name, Type.TIME, _value(value, Type.TIME), description)


def json(name: str, value: str | Expression, description: str) -> Column:
    """A part of the document as it is."""
    return Column(name, Type.JSON, _value(value, Type.JSON), description)


def since(heading: str, value: Expression, absent: str = "<unknown>") -> Cell:
    """How long ago something was."""
    return Cell(heading, coalesce(human(elapsed(value)), absent), relative=True)


def slash(left: str, right: str) -> Expression:
    """Two columns of the view as `3/4`."""
    return concat(Ref(left, Type.INTEGER), "/", Ref(right, Type.INTEGER))


def named_default(column: str) -> Cell:
    """The name, marked where a column says that it is the default."""
    mark = case((Ref(column, Type.BOOLEAN), " (default)"), otherwise="")
    return Cell("Name", concat(Ref("name"), mark))


def _printed(text: Expression) -> Let:
    """A text as kubectl prints it (cli-runtime's tableprinter): up to the first break, and `...`, with what
    would speak to a terminal escaped; empty for NULL.
    """
    return Let("text", text, coalesce(call("line", Type.TEXT, Bound("text")), ""))


AGE = since("Age", Ref("created_at", Type.TIME))
CREATED = Cell("Created At", path("metadata.creationTimestamp"))


def _owner(field: str) -> Expression:
    owners = items("metadata.ownerReferences", root=True)
    return coalesce(first(owners, path(field), true(boolean("controller"))), first(owners, path(field)))


def _field(name: str, description: str, kind: Type = Type.TEXT, field: str = "") -> Column:
    return Column(name, kind, Field(field or name, kind), description)


IDENTITY = (
    _field("cluster", "The cluster's name in the configuration."),
    _field("namespace", "The namespace, '' where the kind has none."),
    _field("name", "The object's name."),
    _field("uid", "The object's uid, unique over all time."),
)
"""What every view begins with."""

TRAILING = (
    text("owner_kind", _owner("kind"), "Kind of the controller that owns it, else of its first owner."),
    text("owner_name", _owner("name"), "Name of that owner."),
    _field("owner_uid", "Uid of that owner."),
    _field("api_version", "The version of the API in which the object is stored here."),
    _field("resource_version", "The object's resource version."),
    _field("generation", "Counts the changes of what is wanted.", Type.INTEGER),
    _field("created_at", "When the object was made.", Type.TIME, "creation_timestamp"),
    _field("deletion_requested_at", "When its deletion was asked for.", Type.TIME, "deletion_timestamp"),
    _field("first_seen_at", "When syncd first wrote it.", Type.TIME),
    _field("committed_at", "When syncd last wrote it.", Type.TIME),
    _field("labels", "All labels.", Type.JSON),
    _field("annotations", "All annotations.", Type.JSON),
    _field("object", "The whole object.", Type.JSON),
    _field("stream_id", "The stream that it came by, for its freshness.", Type.INTEGER),
)
"""What every view ends with."""
