"""Every table: its columns, their types, their values, and what they are when there is none."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from syncd.views.steampipe.table import Column, Table, tables
from tests.contract.steampipe.case import LIVE, Session, documents, resource, rows, value

pytestmark = pytest.mark.postgres


def test_every_table_is_there_with_its_columns_and_types(session: Session) -> None:
    found: dict[str, list[tuple[str, str]]] = {}
    for table, column, type_ in rows(
        session,
        "SELECT c.relname, a.attname, format_type(a.atttypid, NULL) FROM pg_class c JOIN pg_attribute a "
        "ON a.attrelid = c.oid AND a.attnum > 0 WHERE c.relnamespace = 'kubernetes'::regnamespace "
        "AND c.relkind = 'v' ORDER BY c.relname, a.attnum",
    ):
        found.setdefault(table, []).append((column, type_.replace("timestamp with time zone", "timestamptz")))
    for table in tables():
        assert found[table.name] == [(column.name, column.type) for column in table.columns], table.name


@pytest.mark.parametrize("table", LIVE, ids=lambda table: table.name)
def test_every_object_is_a_row_whose_columns_are_its_fields(session: Session, table: Table) -> None:
    wanted = {
        document["metadata"]["name"]: document
        for document in documents()
        if document["kind"] == table.kind and resource(document).group == table.group
    }
    assert wanted, f"objects.yaml has no {table.kind}"
    plain = [column for column in table.columns if column.path and not column.function]
    listed = ", ".join(["name", *(f'"{column.name}"' for column in plain)])
    found = rows(session, f"SELECT {listed} FROM {table.name} WHERE context_name = 'prod'")
    assert {row[0] for row in found} == set(wanted)
    for name, *values in found:
        for column, there in zip(plain, values, strict=True):
            assert there == field(stored(wanted[name]), column), f"{name}.{column.name}"


def stored(document: dict[str, Any]) -> dict[str, Any]:
    """As the mirror keeps it: without the values of a Secret."""
    if document["kind"] != "Secret":
        return document
    return document | {"data": dict.fromkeys(document["data"], "redacted")}


def field(document: dict[str, Any], column: Column) -> Any:
    """What a column is to say of a document, by Python alone."""
    there: Any = document
    for key in column.path:
        there = there.get(key) if isinstance(there, dict) else None
    if there is None:
        return absent(column)
    match column.type:
        case "text":
            return str(there)
        case "timestamptz":
            return datetime.fromisoformat(there)
        case "inet":
            return ip_address(there) if there != "not-an-address" else None
        case "cidr":
            return ip_network(there)
        case _:
            return there


def absent(column: Column) -> Any:
    """The value that stands for none."""
    if column.absent is None:
        return None
    return column.absent.strip("'") if column.type == "text" else json.loads(column.absent)


@pytest.mark.parametrize("table", LIVE, ids=lambda table: table.name)
def test_an_object_with_nothing_in_it_has_the_absent_values(session: Session, table: Table) -> None:
    """Zero values where Go has no pointer, NULL where it has, and NULL is never a JSON null."""
    columns = [column for column in table.columns if not column.row and column.function != "label_set"]
    listed = ", ".join(f'"{column.name}"' for column in columns)
    [found] = rows(session, f"SELECT {listed} FROM {table.name} WHERE context_name = 'bare'")
    expected = {
        "source_type": "deployed",
        "tags": {},
        "sp_ctx": {"connection_name": "bare"},
        "_ctx": {"connection_name": "bare"},
    }
    for column, there in zip(columns, found, strict=True):
        assert there == expected.get(column.name, absent(column)), column.name
    [(context, connection)] = rows(
        session, f"SELECT context_name, sp_connection_name FROM {table.name} WHERE context_name = 'bare'"
    )
    assert (context, connection) == ("bare", "bare")


def test_tables_of_what_a_mirror_never_has_are_empty(session: Session) -> None:
    empty = [table.name for table in tables() if table.group is None]
    assert Counter(name.split("_")[0] for name in empty) == {"helm": 5, "kubernetes": 1}
    for name in empty:
        assert value(session, f"SELECT count(*) FROM {name}") == 0


def test_the_title_is_the_name_and_labels_win_over_annotations_in_the_tags(session: Session) -> None:
    [(title, tags)] = rows(session, "SELECT title, tags FROM kubernetes_pod WHERE uid = 'pod-web'")
    assert title == "web-5d8f-abcde"
    assert tags["shared"] == "label"
    assert tags["prometheus.io/scrape"] == "true"
    assert tags["app"] == "web"


def test_times_are_times(session: Session) -> None:
    [found] = rows(
        session,
        "SELECT event_time, last_timestamp, creation_timestamp FROM kubernetes_event WHERE uid = 'ev-2'",
    )
    assert found == (
        datetime(2026, 1, 5, 10, 0, 0, 123456, UTC),
        None,
        datetime(2026, 1, 5, 10, 0, tzinfo=UTC),
    )
