"""Queries in the manner of the ecosystem's, and how they are planned."""

from __future__ import annotations

import pytest

from syncd.views.steampipe.table import tables
from tests.contract.steampipe.case import Session, names, rows
from tests.contract.steampipe.queries import EXAMPLES, inventory_queries, workload_queries

pytestmark = pytest.mark.postgres


@pytest.mark.parametrize("query", EXAMPLES, ids=lambda query: " ".join(query.split())[:60])
def test_an_example_runs(session: Session, query: str) -> None:
    cursor = session.execute(query.encode())
    assert cursor.description


def test_controls_of_every_workload_run(session: Session) -> None:
    count = 0
    for query in workload_queries():
        found = rows(session, query)
        assert found, query
        assert {row[1] for row in found} <= {"ok", "alarm"} or "as volume" in query
        count += 1
    assert count > 200


def test_inventories_of_every_table_run(session: Session) -> None:
    everything = {table.name: {column.name for column in table.columns} for table in tables()}
    for query in inventory_queries(everything):
        rows(session, query)


def test_controls_find_what_is_wrong(session: Session) -> None:
    query = (
        "SELECT name FROM kubernetes_pod, jsonb_array_elements(containers) AS c WHERE "
        "context_name = 'prod' AND "
    )
    assert names(session, f"{query} c -> 'securityContext' ->> 'privileged' = 'true'") == {"web-5d8f-abcde"}
    assert names(session, f"{query} c ->> 'image' LIKE '%:latest'") == {"bare"}
    assert names(session, f"{query} c -> 'resources' -> 'limits' ->> 'cpu' IS NULL") == {
        "bare",
        "web-5d8f-abcde",
    }
    assert names(session, "SELECT name FROM kubernetes_pod WHERE host_network") == {"web-5d8f-abcde"}
    hierarchy = """
        SELECT d.name, r.name, p.name FROM kubernetes_deployment AS d, kubernetes_replicaset AS r,
          jsonb_array_elements(r.owner_references) AS ro, kubernetes_pod AS p,
          jsonb_array_elements(p.owner_references) AS po
        WHERE ro ->> 'uid' = d.uid AND po ->> 'uid' = r.uid"""
    assert rows(session, hierarchy) == [("web", "web-5d8f", "web-5d8f-abcde")]


@pytest.mark.parametrize(
    ("query", "index", "condition"),
    [
        (
            "SELECT count(*) FROM kubernetes_pod WHERE namespace = 'x'",
            "syncd_objects_name",
            "namespace = 'x'",
        ),
        ("SELECT * FROM kubernetes_pod WHERE uid = 'x'", "syncd_objects_uid", "uid = 'x'"),
        (
            "SELECT * FROM kubernetes_job WHERE namespace = 'x' AND name = 'y'",
            "syncd_objects_name",
            "name = 'y'",
        ),
    ],
)
def test_what_the_row_has_is_found_by_index(session: Session, query: str, index: str, condition: str) -> None:
    session.execute("SET LOCAL enable_seqscan = off")
    plan = "\n".join(row[0] for row in rows(session, f"EXPLAIN {query}"))
    assert index in plan
    assert condition in plan.split("Filter")[0]


def test_a_selector_that_is_written_out_is_left_to_the_index(session: Session) -> None:
    session.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_indexscan = off")
    query = "EXPLAIN SELECT name FROM kubernetes_pod WHERE selector_search = 'app=web,tier=front'"
    plan = "\n".join(row[0] for row in rows(session, query))
    assert """labels @> '{"app": "web", "tier": "front"}'::jsonb""" in plan
    assert "satisfies" not in plan
