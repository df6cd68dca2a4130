"""What queries were measured to trip over, and what is derived."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import psycopg
import pytest

from tests.contract.steampipe.case import LIVE, Session, names, rows, value

pytestmark = pytest.mark.postgres


def test_a_json_null_is_absent_and_a_nested_one_stays(session: Session) -> None:
    [found] = rows(
        session,
        (
            "SELECT volumes IS NULL, tolerations IS NULL, conditions IS NULL FROM kubernetes_pod "
            "WHERE name = 'bare'"
        ),
    )
    assert found == (True, True, True)
    assert value(session, "SELECT rules IS NULL FROM kubernetes_role WHERE name = 'empty'")
    assert value(
        session,
        "SELECT template -> 'metadata' -> 'creationTimestamp' = 'null' FROM kubernetes_deployment "
        "WHERE uid = 'deploy-web'",
    )
    assert value(
        session,
        "SELECT bool_and(c -> 'lastProbeTime' = 'null') FROM kubernetes_pod, "
        "jsonb_array_elements(conditions) AS c WHERE uid = 'pod-web'",
    )


def test_zero_values_are_not_null(session: Session) -> None:
    [found] = rows(
        session,
        "SELECT host_pid, host_network, node_name, phase, service_account_name, generate_name, generation, "
        "priority, security_context, runtime_class_name FROM kubernetes_pod WHERE context_name = 'bare'",
    )
    assert found == (False, False, "", "", "", "", 0, None, None, None)
    [found] = rows(
        session,
        "SELECT paused, replicas, status_replicas, min_ready_seconds, selector_query, template, strategy "
        "FROM kubernetes_deployment WHERE context_name = 'bare'",
    )
    assert found == (False, None, 0, 0, "", {}, {})


def test_the_context_is_the_cluster_in_every_row(session: Session) -> None:
    for table in LIVE:
        found = names(session, f"SELECT DISTINCT context_name FROM {table.name}")
        assert found == {"prod", "bare"}, table.name


SELECTORS = {
    "app=web": {"web-5d8f-abcde"},
    "app==web": {"web-5d8f-abcde"},
    " app = web , tier=front ": {"web-5d8f-abcde"},
    "app=web,tier=back": set(),
    "app=web,app=agent": set(),
    "app=web,app=web": {"web-5d8f-abcde"},
    "app!=web": {"agent-x1", "bare"},
    "app in (web,agent)": {"web-5d8f-abcde", "agent-x1"},
    "app in ( web )": {"web-5d8f-abcde"},
    "app notin (web)": {"agent-x1", "bare"},
    "app in (web, agent),tier notin (back)": {"web-5d8f-abcde"},
    "track": {"agent-x1"},
    "!track": {"web-5d8f-abcde", "bare"},
    "app,!track": {"web-5d8f-abcde"},
    "! app": {"bare"},
    "track>11": {"agent-x1"},
    "track<12": set(),
    "app>1": set(),
    "": {"web-5d8f-abcde", "agent-x1", "bare"},
    "app=": set(),
    "in in (a),notin": set(),
    "example.com/kept=yes": set(),
}


@pytest.mark.parametrize("selector", SELECTORS)
def test_a_selector_is_evaluated(session: Session, selector: str) -> None:
    """Written out in the query, as a parameter, and from the other side of the comparison."""
    query = "SELECT name FROM kubernetes_pod WHERE context_name = 'prod' AND "
    written = selector.replace("'", "''")
    assert names(session, f"{query} selector_search = '{written}'") == SELECTORS[selector]
    assert names(session, f"{query} '{written}' = selector_search") == SELECTORS[selector]
    assert {row[0] for row in rows(session, f"{query} selector_search = %s", selector)} == SELECTORS[selector]
    joined = (
        f"SELECT p.name FROM (VALUES ('{written}' || left(now()::text, 0))) AS s (query), "
        f"kubernetes_pod AS p "
    )
    assert (
        names(session, f"{joined} WHERE p.selector_search = s.query AND context_name = 'prod'")
        == (SELECTORS[selector])
    )


@pytest.mark.parametrize(
    "selector", ["=web", "app=web,", "!app=web", "app in web", "app=a=b", ",", "a b", "(a)"]
)
def test_what_is_no_selector_is_refused(session: Session, selector: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="is no label selector"):
        rows(session, "SELECT name FROM kubernetes_pod WHERE selector_search = %s", selector)


def test_selectors_of_workloads_and_services_find_their_pods(session: Session) -> None:
    query = (
        "SELECT w.name, p.name FROM {} AS w JOIN kubernetes_pod AS p ON p.selector_search = w.selector_query "
        "AND p.namespace = w.namespace WHERE w.context_name = 'prod' AND p.context_name = 'prod'"
    )
    assert rows(session, query.format("kubernetes_service")) == [("web", "web-5d8f-abcde")]
    assert rows(session, query.format("kubernetes_daemonset")) == [("agent", "agent-x1")]
    assert rows(session, query.format("kubernetes_replicaset")) == [("web-5d8f", "web-5d8f-abcde")]
    assert ("web", "web-5d8f-abcde") in rows(session, query.format("kubernetes_deployment"))
    assert value(
        session, "SELECT name FROM kubernetes_pod WHERE selector_search IS NULL AND context_name = 'prod'"
    ) == ("bare")


def test_a_selector_is_written_as_kubernetes_writes_it(session: Session) -> None:
    assert dict(
        rows(session, "SELECT name, selector_query FROM kubernetes_deployment WHERE context_name = 'prod'")
    ) == {
        "web": "app=web,env notin (dev),!legacy,pod-template-hash,shared in (label,z),tier=front",
        "idle": "",
    }
    assert dict(
        rows(session, "SELECT uid, selector_query FROM kubernetes_service WHERE context_name = 'prod'")
    ) == {
        "svc-web": "app=web,tier=front",
        "svc-outside": None,
    }
    query = "SELECT selector_query FROM kubernetes_replication_controller WHERE context_name = 'prod'"
    assert value(session, query) == "app=old,tier=back"


def test_what_upstream_leaves_empty_is_filled(session: Session) -> None:
    assert value(session, "SELECT selector FROM kubernetes_daemonset WHERE uid = 'ds-agent'") == {
        "matchLabels": {"app": "agent"}
    }
    [condition] = value(session, "SELECT conditions FROM kubernetes_namespace WHERE name = 'leaving'")
    assert condition["reason"] == "SomeResourcesRemain"
    assert value(session, "SELECT reporting_component FROM kubernetes_event WHERE uid = 'ev-1'") == "kubelet"
    query = (
        "SELECT name, min_available, max_unavailable FROM kubernetes_pod_disruption_budget WHERE "
        "name IN ('web', 'db')"
    )
    assert set(rows(session, query)) == {("web", "1", None), ("db", None, "50%")}


def test_a_cron_jobs_policy_is_a_json_string(session: Session) -> None:
    query = (
        "SELECT concurrency_policy, jsonb_typeof(concurrency_policy) FROM kubernetes_cronjob "
        "ORDER BY context_name"
    )
    assert rows(session, query) == [("", "string"), ("Forbid", "string")]


def test_two_cluster_scoped_tables_have_a_namespace_and_the_others_none(session: Session) -> None:
    assert names(session, "SELECT namespace FROM kubernetes_storage_class") == {""}
    assert names(session, "SELECT namespace FROM kubernetes_custom_resource_definition") == {""}
    without = {table.name for table in LIVE if "namespace" not in {column.name for column in table.columns}}
    assert without == {
        "kubernetes_cluster_role",
        "kubernetes_cluster_role_binding",
        "kubernetes_namespace",
        "kubernetes_node",
        "kubernetes_persistent_volume",
    }


def test_a_pods_phase_is_its_phase(session: Session) -> None:
    query = "SELECT name, phase, status_reason FROM kubernetes_pod WHERE context_name = 'prod'"
    assert set(rows(session, query)) == {
        ("web-5d8f-abcde", "Running", ""),
        ("agent-x1", "Failed", "Evicted"),
        ("bare", "Pending", ""),
    }


def test_large_integers_stay_exact(session: Session) -> None:
    assert (
        value(session, "SELECT generation FROM kubernetes_deployment WHERE uid = 'deploy-web'") == 2**53 + 1
    )
    assert value(session, "SELECT resource_version FROM kubernetes_pod WHERE uid = 'pod-web'") == str(
        2**53 + 1
    )
    assert (
        value(session, "SELECT revision_history_limit FROM kubernetes_certificate WHERE uid = 'cert-1'")
        == 2**53 + 1
    )


def test_secrets_stay_redacted(session: Session) -> None:
    assert value(session, "SELECT data FROM kubernetes_secret WHERE uid = 'sec-web'") == {
        "password": "redacted",
        "user": "redacted",
    }


def test_quantities_are_whole_numbers_rounded_up(session: Session) -> None:
    cases = {
        "1": (1000, 1),
        "0.1": (100, 1),
        "100m": (100, 1),
        "1500m": (1500, 2),
        "1n": (1, 1),
        "1000001n": (2, 1),
        "1u": (1, 1),
        ".5": (500, 1),
        "2.": (2000, 2),
        "+2": (2000, 2),
        "-1.5": (-1500, -2),
        "1k": (10**6, 10**3),
        "2M": (2 * 10**9, 2 * 10**6),
        "3G": (3 * 10**12, 3 * 10**9),
        "4T": (4 * 10**15, 4 * 10**12),
        "5P": (5 * 10**18, 5 * 10**15),
        "6E": (2**63 - 1, 6 * 10**18),
        "1Ki": (1024000, 1024),
        "1.5Gi": (1610612736000, 1610612736),
        "1Mi": (2**20 * 1000, 2**20),
        "1Ti": (2**40 * 1000, 2**40),
        "1Pi": (2**50 * 1000, 2**50),
        "7Ei": (2**63 - 1, 7 * 2**60),
        "9Ei": (2**63 - 1, 2**63 - 1),
        "12e6": (12 * 10**9, 12 * 10**6),
        "12E6": (12 * 10**9, 12 * 10**6),
        "1e-3": (1, 1),
        "": (None, None),
        "1e": (None, None),
        "1 Gi": (None, None),
        "Gi": (None, None),
        "1gi": (None, None),
    }
    for text, (thousandths, whole) in cases.items():
        found = rows(session, "SELECT kubernetes.quantity(%s, 1000), kubernetes.quantity(%s, 1)", text, text)
        assert found == [(thousandths, whole)], text


def test_a_nodes_and_a_pods_resources_are_comparable(session: Session) -> None:
    [node] = rows(
        session,
        "SELECT capacity_cpu, capacity_cpu_std, capacity_memory, capacity_memory_std, allocatable_cpu_std, "
        "allocatable_memory_std FROM kubernetes_node WHERE uid = 'node-1'",
    )
    assert node == ("4", 4000, "16393244Ki", 16393244 * 1024, 3920, 31 * 2**29)
    [(limits, requests)] = rows(
        session,
        "SELECT containers_resources_limits_std, containers_resources_requests_std FROM kubernetes_pod "
        "WHERE uid = 'pod-web'",
    )
    web = {"containerName": "web", "containerImage": "nginx:1.27"}
    sidecar = {"containerName": "sidecar", "containerImage": "envoy@sha256:bb"}
    assert limits == [web | {"cpu": 500, "memory": 2**28}, sidecar]
    assert requests == [web | {"cpu": 100, "memory": 2**26}, sidecar | {"cpu": 100}]


def test_a_node_that_reports_nothing_yet_has_no_capacity(session: Session) -> None:
    """A quantity that is not there is Go's zero of one, which prints as 0."""
    node = "FROM kubernetes_node WHERE name = 'new-1'"
    for what in ("capacity", "allocatable"):
        query = f"SELECT {what}_cpu, {what}_memory, {what}_cpu_std, {what}_memory_std, {what} {node}"
        assert rows(session, query) == [("0", "0", 0, 0, None)]


def test_a_volumes_source_is_its_spec_without_the_rest(session: Session) -> None:
    assert value(
        session, "SELECT persistent_volume_source FROM kubernetes_persistent_volume WHERE uid = 'pv-1'"
    ) == {"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1", "fsType": "ext4"}}


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("010.0.0.1", "10.0.0.1"),
        ("::1", "::1"),
        ("fd00:10:244:1::8", "fd00:10:244:1::8"),
        ("1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"),
        ("256.0.0.1", None),
        ("1.2.3", None),
        ("1::2::3", None),
        ("1:2:3:4:5:6:7:8:9", None),
        ("12345::", None),
        ("lb.example.com", None),
        ("", None),
    ],
)
def test_an_address_that_is_none_breaks_no_query(session: Session, text: str, address: str | None) -> None:
    found = rows(session, "SELECT kubernetes.inet_of(%s)", text)
    assert found == [(ip_address(address) if address else None,)]


@pytest.mark.parametrize(
    ("text", "network"),
    [
        ("10.1.2.3/24", "10.1.2.0/24"),
        ("fd00::/64", "fd00::/64"),
        ("10.0.0.0/33", None),
        ("10.0.0.0", None),
        ("", None),
    ],
)
def test_a_network_that_is_none_breaks_no_query(session: Session, text: str, network: str | None) -> None:
    found = rows(session, "SELECT kubernetes.cidr_of(%s)", text)
    assert found == [(ip_network(network) if network else None,)]
