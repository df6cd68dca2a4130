"""The view `dictionary`: every table and view of syncd's with its columns, in any SQL client."""

# ruff: noqa: S608 - text is rendered from constants, each quoted

from __future__ import annotations

import json
from collections.abc import Sequence

from syncd.core.relation import Described, Relation, RelationColumn
from syncd.views.expression import Type
from syncd.views.render import quoted

_COLUMNS = (
    ("relation", Type.TEXT, "The table or view."),
    ("relation_type", Type.TEXT, "table or view."),
    ("place", Type.INTEGER, "The column's place, from 1; 0 of the row that is about the relation itself."),
    ("column_name", Type.TEXT, "The column; NULL of the row that is about the relation itself."),
    ("type", Type.TEXT, "The column's type as PostgreSQL names it, on SQLite too."),
    ("description", Type.TEXT, "What it is."),
    (
        "source_path",
        Type.TEXT,
        "Where in the object it comes from; '' where it is computed or the row's own.",
    ),
    ("subject", Type.TEXT, "API group/resource of the objects of a view that shows one kind, else ''."),
    ("note", Type.TEXT, "Why a view is not as it should be, else ''."),
)


def relation(tables: Sequence[Described], dialect: str) -> Relation:
    """The view, for `sqlite` or `postgresql`.

    Args:
        tables: what is said of the tables; views are described in the database already.
    """
    return Relation(
        "dictionary",
        "What every table and view of syncd is, and every column of it.",
        tuple(RelationColumn(name, kind.value, f"d.{name}", about) for name, kind, about in _COLUMNS),
        f"FROM (\n{_views()}\n  UNION ALL {_tables(tables, dialect)}\n) AS d",
    )


def _views() -> str:
    return (
        "SELECT v.relation, 'view' AS relation_type, 0 AS place, NULL AS column_name, NULL AS type,"
        " v.description, '' AS source_path, v.subject, v.note"
        " FROM syncd_views v WHERE v.relation NOT LIKE '(%'\n"
        "  UNION ALL SELECT c.relation, 'view', c.place, c.name, c.type, c.description, c.origin,"
        " v.subject, v.note FROM syncd_view_columns c JOIN syncd_views v ON v.relation = c.relation"
    )


def _tables(tables: Sequence[Described], dialect: str) -> str:
    """As one JSON text: a row each would be parsed by every connection to SQLite, asked for or not."""
    rows: list[list[str | int | None]] = []
    for table in tables:
        rows.append([table.name, 0, None, None, table.description])
        rows += [
            [table.name, place, column.name, column.type, column.description]
            for place, column in enumerate(table.columns, 1)
        ]
    text = quoted(json.dumps(rows, ensure_ascii=False, separators=(",", ":")))
    if dialect == "sqlite":
        item, source = "t.value ->> '$[{}]'", f"json_each({text}) AS t"
    else:
        item, source = "t.value ->> {}", f"jsonb_array_elements({text}::jsonb) AS t(value)"
    name, place, column, kind, description = (item.format(index) for index in range(5))
    place = place if dialect == "sqlite" else f"({place})::bigint"
    return f"SELECT {name}, 'table', {place}, {column}, {kind}, {description}, '', '', '' FROM {source}"
