"""The metrics: what the engine's calls expose, and the table in the documentation."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from syncd.core.change import Committed, DriftKind, StreamRow
from syncd.core.resource import Resource, State, Stream
from syncd.metrics import Metrics

PODS = Resource("", "v1", "pods", "Pod", True)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", True)
IN_A = Stream("prod", PODS, "a")
IN_B = Stream("prod", PODS, "b")
ALL = Stream("prod", DEPLOYMENTS)


def samples(metrics: Metrics) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every exposed value by name and labels, as a Prometheus server would read it."""
    text = metrics.render()[0].decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return samples(metrics).get((f"syncd_{name}", frozenset(labels.items())))


def committed(**counts: int) -> Committed:
    return Committed(StreamRow(1, "h", 1, "p", State.LIVE, "9", object_count=41), **counts)


def everything(metrics: Metrics, stream: Stream) -> None:
    metrics.stream_state(stream, State.LIVE)
    metrics.lag(stream, 0.5)
    metrics.queue(stream, 100)
    metrics.received(stream, "ADDED", 3)
    metrics.relist(stream, "expired")
    metrics.retry(stream, "server_error")
    metrics.drift(stream, DriftKind.GHOST, 2)
    metrics.committed(
        stream, committed(inserted=5, updated=4, deleted=3, tombstones=2, quarantined=1), 0.02, 12
    )
    metrics.listed(stream, 0.3, 5000)
    metrics.snapshot(stream, 3.0)
    metrics.reconciled(stream, 4.0)


def test_a_stream_is_in_one_state() -> None:
    metrics = Metrics()
    for state in (State.SYNCING, State.LIVE):
        metrics.stream_state(ALL, state)
    states = {
        dict(labels)["state"]: number
        for (name, labels), number in samples(metrics).items()
        if name == "syncd_stream_state"
    }
    assert states == {"pending": 0, "syncing": 0, "live": 1, "backoff": 0, "parked": 0}


def test_a_commit_is_counted_by_kind_of_write() -> None:
    metrics = Metrics()
    everything(metrics, IN_A)
    labels = {"cluster": "prod", "resource": "pods", "namespace": "a"}
    for kind, count in {"insert": 5, "update": 4, "delete": 3, "tombstone": 2}.items():
        assert value(metrics, "rows_written_total", **labels, kind=kind) == count
    assert value(metrics, "commits_total", **labels) == 1
    assert value(metrics, "quarantined_total", **labels) == 1
    assert value(metrics, "stream_objects", **labels) == 41
    assert value(metrics, "batch_changes_sum", cluster="prod", resource="pods") == 12
    assert value(metrics, "commit_duration_seconds_sum", cluster="prod", resource="pods") == 0.02


def test_what_the_engine_tells_is_exposed() -> None:
    metrics = Metrics()
    everything(metrics, ALL)
    labels = {"cluster": "prod", "resource": "deployments.apps", "namespace": ""}
    assert value(metrics, "stream_lag_seconds", **labels) == 0.5
    assert value(metrics, "stream_queue_bytes", **labels) == 100
    assert value(metrics, "events_total", **labels, type="ADDED") == 3
    assert value(metrics, "relists_total", **labels, reason="expired") == 1
    assert value(metrics, "retries_total", **labels, **{"class": "server_error"}) == 1
    assert value(metrics, "drift_total", **labels, kind="ghost") == 2
    assert value(metrics, "list_bytes_total", **labels) == 5000
    assert value(metrics, "list_duration_seconds_count", cluster="prod", resource="deployments.apps") == 1
    assert value(metrics, "snapshot_duration_seconds_sum", cluster="prod", resource="deployments.apps") == 3
    assert value(metrics, "reconcile_duration_seconds_sum", cluster="prod", resource="deployments.apps") == 4


def test_the_process_tells_of_itself() -> None:
    metrics = Metrics()
    metrics.heartbeat(1234.5)
    metrics.database_error("unavailable")
    metrics.api_warning("prod")
    assert value(metrics, "heartbeat_timestamp_seconds") == 1234.5
    assert value(metrics, "database_errors_total", kind="unavailable") == 1
    assert value(metrics, "api_warnings_total", cluster="prod") == 1
    assert value(metrics, "build_info", version="0.1.0") == 1


def test_a_forgotten_stream_leaves_nothing() -> None:
    metrics = Metrics()
    before = set(samples(metrics))
    for stream in (IN_A, IN_B, ALL):
        everything(metrics, stream)
    metrics.forget(IN_A)
    left = [dict(labels) for _, labels in samples(metrics)]
    assert not [labels for labels in left if labels.get("namespace") == "a"]
    assert value(metrics, "list_duration_seconds_count", cluster="prod", resource="pods") == 2
    metrics.forget(IN_B)
    metrics.forget(ALL)
    metrics.forget(ALL)
    after = {key for key in samples(metrics) if key[0].startswith("syncd_")}
    assert after == {key for key in before if key[0].startswith("syncd_")}


def test_two_sets_of_metrics_do_not_meet() -> None:
    left, right = Metrics(), Metrics()
    left.heartbeat(1)
    assert value(right, "heartbeat_timestamp_seconds") == 0


def test_the_documentation_holds_the_same_table() -> None:
    text = (Path(__file__).parents[2] / "docs/metrics.md").read_text()
    rows = [re.split(r"\s*\|\s*", line.strip("| \n")) for line in text.splitlines() if line.startswith("| `")]
    documented = {row[0].strip("`"): (row[1], tuple(re.findall(r"`(\w+)`", row[2])), row[3]) for row in rows}
    declared = {each.name: (each.type, each.labels, each.text) for each in Metrics().declared}
    assert documented == declared


def test_names_follow_the_rules_of_prometheus() -> None:
    for each in Metrics().declared:
        assert each.name.startswith("syncd_")
        assert each.name.endswith("_total") == (each.type == "counter")
        assert not re.search(r"_(ms|millis|minutes|kb|mb)(_|$)", each.name)
        assert each.text.endswith(".")
