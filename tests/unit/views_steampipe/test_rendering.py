"""The statements of Steampipe's schema, as text; what they do is shown in tests/contract/steampipe."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from syncd.views.steampipe.column import expression
from syncd.views.steampipe.rendering import statements
from syncd.views.steampipe.table import Column, tables


def test_all_of_steampipes_tables_and_columns_are_here() -> None:
    assert len(tables()) == 38
    assert sum(len(table.columns) for table in tables()) == 1132
    assert sum(table.group is not None for table in tables()) == 32


def test_every_table_has_the_columns_that_all_share() -> None:
    for table in tables():
        names = [column.name for column in table.columns]
        assert len(names) == len(set(names)), table.name
        assert names[-3:] == ["sp_connection_name", "sp_ctx", "_ctx"], table.name
        if table.name.startswith("kubernetes_"):
            assert {"name", "uid", "context_name", "source_type", "labels", "path", "start_line"} <= set(
                names
            )


def test_nothing_is_dropped_and_everything_can_be_run_again() -> None:
    for statement in statements("public"):
        assert not re.search(r"\b(DROP|DELETE|TRUNCATE|ALTER)\b", statement)
        assert re.match(
            (
                r"CREATE OR REPLACE (VIEW|FUNCTION) |COMMENT ON |DO \$\$ "
                r"BEGIN\n  IF "
            ),
            statement,
        ), statement[:80]
        assert not statement.endswith(";")


def test_the_mirrors_schema_is_quoted() -> None:
    made = [each for each in statements('odd"name') if "syncd_objects" in each]
    assert len(made) == 32
    assert all('FROM "odd""name".syncd_objects AS o' in each for each in made)


def test_no_view_joins_anything() -> None:
    """A column that is not asked for costs nothing, and a filter reaches the table's own indexes."""
    for statement in statements("public"):
        if statement.startswith("CREATE OR REPLACE VIEW"):
            assert not re.search(r"\b(JOIN|LATERAL|GROUP BY|DISTINCT)\b", statement)


@pytest.mark.parametrize(
    ("column", "sql"),
    [
        (Column("a", "text", ("spec", "a"), absent="''"), "coalesce(o.object #>> ARRAY['spec', 'a'], '')"),
        (Column("a", "bigint", ("spec", "a")), "(o.object #>> ARRAY['spec', 'a'])::bigint"),
        (Column("a", "jsonb", ("a",)), "nullif(o.object #> ARRAY['a'], 'null'::jsonb)"),
        (Column("a", "jsonb", ("it's",)), "nullif(o.object #> ARRAY['it''s'], 'null'::jsonb)"),
        (Column("a", "text", row="cluster"), "o.cluster"),
        (Column("a", "bigint"), "NULL::bigint"),
    ],
)
def test_a_column_is_a_plain_expression(column: Column, sql: str) -> None:
    assert expression(column) == sql


def test_the_page_names_every_table() -> None:
    page = (Path(__file__).parents[3] / "docs" / "steampipe.md").read_text()
    for table in tables():
        assert f"`{table.name}`" in page, table.name
