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
    ("query", "argument", "found"),
    [
        ("SELECT name FROM kubernetes_pod WHERE uid = $1", "'pod-web'", {"web-5d8f-abcde"}),
        ("SELECT name FROM kubernetes_node WHERE uid = any($1)", "'{node-1,node-2}'", {"worker-1", "new-1"}),
        (
            "SELECT s.name FROM kubernetes_service AS s JOIN unnest($1::text[]) AS picked "
            "ON s.uid = split_part(picked, '/', 1) AND s.context_name = split_part(picked, '/', 2)",
            "'{svc-web/prod,svc-web/bare}'",
            {"web"},
        ),
        (
            "SELECT p.name FROM kubernetes_pod AS p WHERE p.selector_search IN "
            "(SELECT selector_query FROM kubernetes_service WHERE uid = $1)",
            "'svc-web'",
            {"web-5d8f-abcde"},
        ),
        (
            "SELECT name FROM kubernetes_pod WHERE selector_search = $1 AND context_name = 'prod'",
            "'app=agent'",
            {"agent-x1"},
        ),
        (
            "SELECT r.name FROM kubernetes_role AS r, jsonb_array_elements(rules) AS rule, "
            "jsonb_array_elements_text(rule -> 'verbs') AS verb "
            "WHERE verb IN (SELECT unnest(string_to_array($1, ',')::text[])) OR verb = '*'",
            "'watch,delete'",
            {"reader"},
        ),
        (
            "SELECT $1 AS id FROM kubernetes_deployment WHERE uid = $1 UNION ALL "
            "SELECT r.uid FROM kubernetes_replicaset AS r, jsonb_array_elements(r.owner_references) AS owner "
            "WHERE owner ->> 'uid' = $1",
            "'deploy-web'",
            {"deploy-web", "rs-web"},
        ),
    ],
)
def test_a_parameter_needs_no_type(session: Session, query: str, argument: str, found: set[str]) -> None:
    """Dashboards send what a person picked, and leave its type to the server."""
    session.execute(f"PREPARE dashboard AS {query}".encode())
    assert names(session, f"EXECUTE dashboard({argument})") == found
    session.execute("DEALLOCATE dashboard")


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
