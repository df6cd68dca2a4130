"""The tables as such: names that no database reserves, and times that are UTC or nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from sqlalchemy.engine import URL, Dialect

from syncd.store.column import UtcTime, time_text
from syncd.store.schema import metadata

RESERVED = Path(__file__).parents[2] / "data" / "reserved"
DOCS = Path(__file__).parents[3] / "docs" / "schema.md"
COLUMNS = sorted({column.name for table in metadata.tables.values() for column in table.columns})


@pytest.mark.parametrize("database", ["postgresql", "sqlite", "mysql"])
def test_no_column_or_table_is_a_reserved_word(database: str) -> None:
    words = set((RESERVED / f"{database}.txt").read_text(encoding="utf-8").lower().split())
    assert {"select", "table", "order"} <= words
    assert not words & {*COLUMNS, *metadata.tables}


def test_every_table_and_column_is_documented() -> None:
    text = DOCS.read_text(encoding="utf-8")
    for table in metadata.tables.values():
        section = text.split(f"## {table.name}\n", 1)[1].split("\n## ", 1)[0]
        for column in table.columns:
            assert f"`{column.name}`" in section, f"{table.name}.{column.name}"


def test_the_prefix_leaves_plain_names_free() -> None:
    assert all(name.startswith("syncd_") for name in metadata.tables)


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02 00:00:00.000000"),
        (datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC), "2026-01-02 03:04:05.000006"),
        (datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=2))), "2026-01-01 22:00:00.000000"),
        (datetime(1, 1, 1, tzinfo=UTC), "0001-01-01 00:00:00.000000"),
    ],
)
def test_times_on_sqlite_sort_as_text(moment: datetime, text: str) -> None:
    assert time_text(moment) == text
    dialect: Dialect = URL.create("sqlite").get_dialect()()
    assert UtcTime().process_bind_param(moment, dialect) == text
    back = UtcTime().process_result_value(text, dialect)
    assert back == moment
    assert back is not None
    assert back.tzinfo is UTC


@pytest.mark.parametrize("name", ["sqlite", "postgresql"])
def test_a_naive_time_is_an_error(name: str) -> None:
    dialect: Dialect = URL.create(name).get_dialect()()
    with pytest.raises(ValueError, match="naive"):
        UtcTime().process_bind_param(datetime(2026, 1, 2), dialect)  # noqa: DTZ001
    assert UtcTime().process_bind_param(None, dialect) is None
