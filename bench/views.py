"""What a question costs through a view, beside the same one of a table with plain and indexed columns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg import sql

from bench.world import Place

RUNS = 200
QUESTIONS = {
    "a filter on node": ("SELECT namespace, name FROM {table} WHERE node = {value}", "node"),
    "a filter on phase": ("SELECT namespace, name FROM {table} WHERE phase = {value}", "phase"),
    "a filter on a label": ("SELECT namespace, name FROM {table} WHERE {app} = {value}", "app"),
    "the count by namespace and status": (
        "SELECT namespace, status, count(*) FROM {table} GROUP BY namespace, status",
        "",
    ),
}
"""By name; and the column whose rarest value is asked for."""
BARE = (
    "CREATE TABLE bare_pods AS SELECT cluster, namespace, name, node, phase, status, labels ->> 'app' AS app"
    " FROM pods",
    *(f"CREATE INDEX ON bare_pods ({column})" for column in ("node", "phase", "app", "namespace, status")),
    "VACUUM ANALYZE",
)


def questions(place: Place) -> Iterator[tuple[str, float, float]]:
    """(name, milliseconds through `pods`, milliseconds of the table) of each, planned every time and once."""
    with psycopg.connect(place.url, autocommit=True) as connection:
        connection.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(place.schema)))
        connection.execute("DROP TABLE IF EXISTS bare_pods")
        for statement in BARE:
            connection.execute(statement)
        for name, (text, column) in QUESTIONS.items():
            value = _rarest(connection, column) if column else None
            for how, prepare in (("planned each time", False), ("prepared", True)):
                spent = [
                    _median(connection, _spelt(text, table, label, value), prepare=prepare)
                    for table, label in (("pods", "labels ->> 'app'"), ("bare_pods", "app"))
                ]
                yield f"{name}, {how}", spent[0], spent[1]
        connection.execute("DROP TABLE bare_pods")


def _spelt(text: str, table: str, label: str, value: Any) -> sql.Composed:
    parts = {"table": sql.Identifier(table), "app": sql.SQL(label), "value": sql.Literal(value)}
    return sql.SQL(text).format(**parts)


def _rarest(connection: psycopg.Connection[Any], column: str) -> Any:
    query = sql.SQL("SELECT {0} FROM bare_pods GROUP BY 1 ORDER BY count(*), 1 LIMIT 1")
    found = connection.execute(query.format(sql.Identifier(column))).fetchone()
    assert found is not None
    return found[0]


def _median(connection: psycopg.Connection[Any], query: sql.Composed, *, prepare: bool) -> float:
    taken = []
    for _ in range(RUNS):
        begun = time.perf_counter()
        connection.execute(query, prepare=prepare).fetchall()
        taken.append((time.perf_counter() - begun) * 1_000)
    return statistics.median(taken)
