"""The statements that make the schema `kubernetes`: its functions, its views, what they say of themselves.

Every statement can be run again, in one transaction with the others. None drops or empties anything; a view
is only ever replaced by one with the same columns, or more at its end.
"""

from __future__ import annotations

import re
from importlib.resources import files

from syncd.views.steampipe.column import expression, identifier, literal, sql_type
from syncd.views.steampipe.table import Column, Table, tables

SCHEMA = "kubernetes"
_SCHEMA_MADE = (  # IF NOT EXISTS asks for the right to make one even where it is there
    f"DO $$ BEGIN\n  IF to_regnamespace('{SCHEMA}') IS NULL THEN\n"
    f"    CREATE SCHEMA {SCHEMA};\n  END IF;\nEND $$"
)


def statements(objects_schema: str) -> list[str]:
    """All of it, save custom resources, over `objects_schema`.syncd_objects."""
    rendered = [_SCHEMA_MADE, *functions()]
    for table in tables():
        rendered += view(table, objects_schema, _about(table))
    return rendered


def functions() -> list[str]:
    """The types, functions and operators that the views and their readers use."""
    text = files(__package__).joinpath("functions.sql").read_text(encoding="utf-8")
    parts = (re.sub(r"^--.*\n?", "", part, flags=re.MULTILINE).strip() for part in re.split(r"\n{2,}", text))
    return [part.removesuffix(";") for part in parts if part]


def view(table: Table, objects_schema: str, about: str) -> list[str]:
    """One view and its comments; `about` is the view's own."""
    name = f"{SCHEMA}.{identifier(table.name)}"
    source = "WHERE false"
    if table.group is not None:
        source = (
            f"FROM {identifier(objects_schema)}.syncd_objects AS o\n"
            f"WHERE o.kind = {literal(table.kind)} AND o.api_group = {literal(table.group)}"
        )
    value = expression if table.group is not None else _nothing
    selected = ",\n".join(f"  {value(column)} AS {identifier(column.name)}" for column in table.columns)
    return [
        f"CREATE OR REPLACE VIEW {name} AS\nSELECT\n{selected}\n{source}",
        f"COMMENT ON VIEW {name} IS {literal(about)}",
        *(
            f"COMMENT ON COLUMN {name}.{identifier(column.name)} IS {literal(_said(column))}"
            for column in table.columns
            if table.group is not None
        ),
    ]


def _nothing(column: Column) -> str:
    return f"NULL::{sql_type(column)}"


def _about(table: Table) -> str:
    if table.group is None:
        return "Empty: nothing of the kind is in a mirror. Here so that queries that name it can be run."
    where = f" of {table.group}" if table.group else ""
    return f"{table.kind}{where}, under the names of Steampipe's Kubernetes plugin."


def _said(column: Column) -> str:
    """Where a column's value comes from, and what it is without one."""
    if not column.source:
        return "Always NULL."
    if column.row in ("name", "namespace", "uid", "cluster") or column.function in _NEVER_ABSENT:
        return f"From {column.source}."
    absent = "NULL" if column.absent is None else column.absent
    return f"From {column.source}; {absent} when absent."


_NEVER_ABSENT = ("deployed", "context", "tags", "label_set")
