"""What the dialects render of one expression gives one value."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

import psycopg
import pytest

from syncd.views.duration import human
from syncd.views.expression import (
    Bound,
    Expression,
    Let,
    Literal,
    Path,
    Type,
    case,
    cores,
    count,
    elapsed,
    entries,
    items,
    join,
    literal,
    moment,
    path,
    scalar,
    some,
    total,
    units,
)
from syncd.views.postgresql import FUNCTIONS, PostgresqlRenderer
from syncd.views.selector import label_selector
from syncd.views.sqlite import SqliteRenderer
from tests.contract.mirror_case import Place
from tests.contract.views.case import as_on_sqlite

pytestmark = pytest.mark.parametrize(
    "dialect", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)]
)


@pytest.fixture
def value(dialect: str, request: pytest.FixtureRequest) -> Any:
    """Computes an expression over a document."""

    def on_sqlite(expression: Expression, document: Any = None) -> Any:
        with sqlite3.connect(":memory:") as connection:
            query = f"SELECT {SqliteRenderer().render(expression)} FROM (SELECT ? AS object) AS o"
            [(found,)] = connection.execute(query, (json.dumps(document),))
        connection.close()
        return found

    def on_postgresql(expression: Expression, document: Any = None) -> Any:
        place: Place = request.getfixturevalue("postgres_place")
        with psycopg.connect(place.url, autocommit=True) as session:
            session.execute(f'CREATE SCHEMA IF NOT EXISTS "{place.schema}"'.encode())
            session.execute(f'SET search_path = "{place.schema}"'.encode())
            for text in FUNCTIONS.values():
                session.execute(text.encode())
            session.execute("CREATE TEMPORARY TABLE o AS SELECT %s::jsonb AS object", (json.dumps(document),))
            [(found,)] = session.execute(f"SELECT {PostgresqlRenderer().render(expression)} FROM o".encode())
        return as_on_sqlite(found)

    return on_sqlite if dialect == "sqlite" else on_postgresql


def whole(seconds: int) -> Expression:
    return Let("s", Literal(seconds, Type.INTEGER), human(Bound("s", Type.INTEGER)))


def test_durations_are_kubectls(value: Any) -> None:
    expected = {
        -2: "<invalid>", -1: "0s", 0: "0s", 119: "119s", 120: "2m", 200: "3m20s", 599: "9m59s", 600: "10m",
        10799: "179m", 10800: "3h", 11000: "3h3m", 28799: "7h59m", 28800: "8h", 172799: "47h", 172800: "2d",
        180000: "2d2h", 691199: "7d23h", 691200: "8d", 63071999: "729d", 63072000: "2y", 70000000: "2y80d",
        252287999: "7y364d", 252288000: "8y",
    }  # fmt: skip
    parts = [case((literal(True), whole(seconds)), otherwise="") for seconds in expected]
    assert [value(part) for part in parts] == list(expected.values())


@pytest.mark.parametrize(
    ("quantity", "in_cores", "in_units"),
    [
        ("100m", 0.1, 1), ("1", 1.0, 1), ("0.5", 0.5, 1), ("1500u", 0.002, 1), ("3n", 0.001, 1),
        ("1001m", 1.001, 2), ("2k", 2000.0, 2000), ("1Ki", 1024.0, 1024), ("1e3", 1000.0, 1000),
        ("1.5Gi", 1610612736.0, 1610612736), ("1E", 1e18, 10**18), ("16Ei", 2.0**64, 2**63 - 1),
        ("9223372036854775807", 2.0**63, 2**63 - 1),
        (None, None, None), ("0", 0.0, 0), ("much", None, None), ("1.2.3Gi", None, None), (".", None, None),
        ("", None, None), ("Gi", None, None), ("12 apples", None, None),
    ],
)  # fmt: skip
def test_quantities(value: Any, quantity: str | None, in_cores: float | None, in_units: int | None) -> None:
    document = {"q": quantity}
    assert value(units(path("q")), document) == in_units
    assert value(cores(path("q")), document) == in_cores


@pytest.mark.parametrize(
    ("text", "moment_text"),
    [
        ("2026-01-02T03:04:05Z", "2026-01-02 03:04:05.000000"),
        ("2026-01-02T03:04:05.1Z", "2026-01-02 03:04:05.100000"),
        ("2026-01-02T03:04:05.999999Z", "2026-01-02 03:04:05.999999"),
        (None, None),
    ],
)
def test_times_of_the_api(value: Any, text: str | None, moment_text: str | None) -> None:
    assert value(moment("t"), {"t": text}) == moment_text
    assert value(Path(("t",), Type.TIME, loose=True), {"t": text}) == moment_text


@pytest.mark.parametrize(
    ("text", "moment_text"),
    [
        ("2026-01-02T03:04:05+02:00", "2026-01-02 01:04:05.000000"),
        ("2026-01-02T03:04:05.25-01:30", "2026-01-02 04:34:05.250000"),
        ("2026-01-02T03:04:05.123456789Z", "2026-01-02 03:04:05.123456"),
        ("2026-01-02T03:04:05.999999999+02:00", "2026-01-02 01:04:05.999999"),
        ("2024-02-29T23:59:59Z", "2024-02-29 23:59:59.000000"),
        ("2026-02-29T00:00:00Z", None),
        ("2026-13-01T00:00:00Z", None),
        ("2026-01-02T24:00:00Z", None),
        ("2026-01-02 03:04:05Z", None),
        ("2026-01-02T03:04:05", None),
        ("yesterday", None),
        ("soon", None),
        ("", None),
        (5, None),
        (True, None),
        ({"a": 1}, None),
    ],
)
def test_times_that_no_schema_vouches_for(value: Any, text: Any, moment_text: str | None) -> None:
    assert value(Path(("t",), Type.TIME, loose=True), {"t": text}) == moment_text
    assert value(moment("t"), {"t": text}) == moment_text


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        (Type.INTEGER, 5, 5), (Type.INTEGER, "5", None), (Type.INTEGER, True, None), (Type.INTEGER, {}, None),
        (Type.NUMBER, 1.5, 1.5), (Type.NUMBER, "x", None), (Type.BOOLEAN, True, 1), (Type.BOOLEAN, False, 0),
        (Type.BOOLEAN, "true", None), (Type.INTEGER, 1.5, None), (Type.INTEGER, [5], None),
        (Type.INTEGER, 2**63 - 1, 2**63 - 1), (Type.INTEGER, 10**20, None), (Type.INTEGER, None, None),
        (Type.NUMBER, 10**20, 1e20), (Type.NUMBER, 0, 0), (Type.NUMBER, True, None), (Type.BOOLEAN, 1, None),
    ],
)  # fmt: skip
def test_values_of_another_type_are_null(value: Any, kind: Type, given: Any, expected: Any) -> None:
    assert value(Path(("v",), kind, loose=True), {"v": given}) == expected
    assert value(Path(("v",), kind), {"v": given}) == expected


@pytest.mark.parametrize(("given", "expected"), [(5, "5"), (True, "true"), (None, None)])
def test_text_is_anything_where_no_schema_vouches_for_it(value: Any, given: Any, expected: Any) -> None:
    assert value(Path(("v",), loose=True), {"v": given}) == expected


def test_items_of_another_type_are_items_without_content(value: Any) -> None:
    mixed = {"l": ["a", 5, {"k": "v", "l": ["x", {"k": "w"}]}, None, [1]]}
    assert value(count(items("l")), mixed) == 5
    assert value(join(items("l"), path("k")), mixed) == "v"
    assert value(join((items("l"), items("l")), path("k")), mixed) == "w"
    spoiled = {"matchLabels": ["a"], "matchExpressions": ["b", {"key": "k", "operator": "In", "values": "c"}]}
    assert value(label_selector("s"), {"s": spoiled}) is None


def test_sums_end_where_integers_end(value: Any) -> None:
    document = {"l": [{"q": "8Ei"}, {"q": "8Ei"}, {}]}
    assert value(total(items("l"), units(path("q"))), document) == 2**63 - 1
    assert value(total(items("l"), units(path("q"))), {"l": [{}]}) is None


def test_what_is_no_list_has_no_items(value: Any) -> None:
    no_arrays: list[Any] = [None, "text", {"a": 1}, []]
    for no_array in no_arrays:
        assert value(some(items("l")), {"l": no_array}) is None
    no_maps: list[Any] = [None, "text", ["a"], {}]
    for no_map in no_maps:
        assert value(join(entries("m")), {"m": no_map}) is None
    assert value(some(items("l")), {}) is None


def test_keys_may_be_anything(value: Any) -> None:
    document = {"a.b/c": {"k.l": "v"}, "it's": "w"}
    assert value(path("", "a.b/c", "k.l"), document) == "v"
    assert value(path("", "it's"), document) == "w"
    assert value(scalar("", "nothing"), document) is None


def test_selectors(value: Any) -> None:
    wanted = {
        "matchLabels": {"b": "2", "a": ""},
        "matchExpressions": [
            {"key": "aa", "operator": "In", "values": ["z", "A", "b"]},
            {"key": "a", "operator": "Exists"},
            {"key": "c", "operator": "NotIn", "values": ["x"]},
            {"key": "d", "operator": "DoesNotExist"},
        ],
    }
    assert value(label_selector("s"), {"s": wanted}) == "a=,a,aa in (A,b,z),b=2,c notin (x),!d"
    assert value(label_selector("s"), {"s": {}}) is None
    assert value(label_selector("s"), {}) is None


def test_elapsed_counts_whole_seconds(value: Any) -> None:
    document = {"a": "2026-01-02T03:04:05.900000Z", "b": "2026-01-02T03:04:07.100000Z"}
    assert value(elapsed(moment("a"), moment("b")), document) == 2
