"""Every metric's name, help and labels, once; and the few calls by which the engine feeds them.

Series are bounded: a stream has one label set (cluster, resource, namespace), histograms have none for the
namespace, and everything else takes its labels from small enumerations. `forget` removes what a stream
leaves behind. Knows no database and no HTTP: `render` gives bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics import MetricWrapperBase

import syncd
from syncd.core.change import Committed, DriftKind
from syncd.core.resource import State, Stream

_STREAM = ("cluster", "resource", "namespace")
_RESOURCE = ("cluster", "resource")
# From one small commit on SQLite to a page that a struggling database takes half a minute for.
_SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
# A whole snapshot or reconcile: a handful of objects to a hundred thousand.
_LONG_SECONDS = (0.05, 0.25, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0)
_CHANGES = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500)


@dataclass(frozen=True, slots=True)
class Declared:
    """One metric as it is exposed; `docs/metrics.md` holds the same table."""

    name: str
    type: str
    text: str
    labels: tuple[str, ...]
    metric: MetricWrapperBase


class Metrics:
    """The metrics of one process, in a registry of its own. Every method is cheap and never raises."""

    def __init__(self) -> None:
        # It would add a second series to each counter. The library has no types here.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self.declared: list[Declared] = []
        self._streams: set[tuple[str, str, str]] = set()
        ProcessCollector(registry=self.registry)
        self._declare_streams()
        self._declare_writes()
        self._declare_requests()
        self._declare_process()

    def _gauge(self, name: str, text: str, labels: tuple[str, ...] = ()) -> Gauge:
        metric = Gauge(f"syncd_{name}", text, labels, registry=self.registry)
        self.declared.append(Declared(f"syncd_{name}", "gauge", text, labels, metric))
        return metric

    def _counter(self, name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
        metric = Counter(f"syncd_{name}", text, labels, registry=self.registry)
        self.declared.append(Declared(f"syncd_{name}", "counter", text, labels, metric))
        return metric

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        metric = Histogram(f"syncd_{name}", text, _RESOURCE, registry=self.registry, buckets=buckets)
        self.declared.append(Declared(f"syncd_{name}", "histogram", text, _RESOURCE, metric))
        return metric

    def _declare_streams(self) -> None:
        self._state = self._gauge(
            "stream_state", "1 for the state that the stream is in, 0 for the others.", (*_STREAM, "state")
        )
        self._lag = self._gauge(
            "stream_lag_seconds", "Age of the oldest event received and not committed, 0 if none.", _STREAM
        )
        self._objects = self._gauge("stream_objects", "Rows that the stream holds.", _STREAM)
        self._queue = self._gauge(
            "stream_queue_bytes", "Size of the changes received and not committed.", _STREAM
        )
        self._events = self._counter(
            "events_total", "Watch events received, by type of event.", (*_STREAM, "type")
        )
        self._relists = self._counter(
            "relists_total", "Snapshots with the stream stopped, by reason.", (*_STREAM, "reason")
        )
        self._retries = self._counter(
            "retries_total", "Delays before another attempt, by class of error.", (*_STREAM, "class")
        )
        self._drift = self._counter(
            "drift_total", "Rows that a reconcile found wrong, by kind of drift.", (*_STREAM, "kind")
        )

    def _declare_writes(self) -> None:
        self._commits = self._counter("commits_total", "Transactions that were committed.", _STREAM)
        self._rows = self._counter(
            "rows_written_total",
            "Rows written, by kind of write: insert, update, delete, tombstone.",
            (*_STREAM, "kind"),
        )
        self._quarantined = self._counter(
            "quarantined_total", "Objects that the database refused for their data.", _STREAM
        )
        self._batch = self._histogram("batch_changes", "Changes in one commit.", _CHANGES)
        self._commit_seconds = self._histogram(
            "commit_duration_seconds", "Time that one commit took.", _SECONDS
        )

    def _declare_requests(self) -> None:
        self._list_seconds = self._histogram(
            "list_duration_seconds", "Time that one page of a list took, body included.", _SECONDS
        )
        self._list_bytes = self._counter("list_bytes_total", "Size of the pages that were listed.", _STREAM)
        self._snapshot_seconds = self._histogram(
            "snapshot_duration_seconds",
            "Time that a whole snapshot took, from first page to checkpoint.",
            _LONG_SECONDS,
        )
        self._reconcile_seconds = self._histogram(
            "reconcile_duration_seconds",
            "Time that a reconcile took, from first page to report.",
            _LONG_SECONDS,
        )
        self._lacking = self._gauge(
            "selection_problems", "Entries and exclusions that the cluster cannot follow.", ("cluster",)
        )
        self._warnings = self._counter(
            "api_warnings_total",
            "Warnings of the API server, each text once, and of credentials that could not be renewed.",
            ("cluster",),
        )

    def _declare_process(self) -> None:
        self._heartbeat = self._gauge(
            "heartbeat_timestamp_seconds", "When the lease was last renewed, on the database's clock."
        )
        self._database_errors = self._counter(
            "database_errors_total", "Errors of the database, by kind.", ("kind",)
        )
        self._config_valid = self._gauge(
            "config_valid", "1 while the configuration file is the one in force, 0 while it is refused."
        )
        self._config_valid.set(1)
        self._config_reloads = self._counter(
            "config_reloads_total",
            "Reloads of the configuration, by result: applied, unchanged, refused.",
            ("result",),
        )
        self._sink_events = self._counter("sink_events_total", "Events that a sink acknowledged.", ("sink",))
        self._sink_failures = self._counter(
            "sink_failures_total", "Tries that a sink did not acknowledge.", ("sink",)
        )
        self._sink_gaps = self._counter(
            "sink_gaps_total", "Times that changes were purged before a sink had them.", ("sink",)
        )
        self._sink_lag = self._gauge(
            "sink_lag_seconds", "Age of the oldest change that a sink was not given, 0 if none.", ("sink",)
        )
        self._build = self._gauge("build_info", "Always 1; the label says which version runs.", ("version",))
        self._build.labels(syncd.__version__).set(1)

    def stream_state(self, stream: Stream, state: State) -> None:
        labels = self._labels(stream)
        for each in State:
            self._state.labels(*labels, each.value).set(each is state)

    def lag(self, stream: Stream, seconds: float) -> None:
        self._lag.labels(*self._labels(stream)).set(seconds)

    def queue(self, stream: Stream, nbytes: int) -> None:
        self._queue.labels(*self._labels(stream)).set(nbytes)

    def received(self, stream: Stream, event_type: str, count: int = 1) -> None:
        """Watch events, by the wire's type: ADDED, MODIFIED, DELETED, BOOKMARK, ERROR."""
        self._events.labels(*self._labels(stream), event_type).inc(count)

    def relist(self, stream: Stream, reason: str) -> None:
        """A snapshot with the stream stopped; the reason is one of a few fixed words."""
        self._relists.labels(*self._labels(stream), reason).inc()

    def retry(self, stream: Stream, error_class: str) -> None:
        """A delay before another attempt; the class is one of a few fixed words."""
        self._retries.labels(*self._labels(stream), error_class).inc()

    def drift(self, stream: Stream, kind: DriftKind, count: int = 1) -> None:
        self._drift.labels(*self._labels(stream), kind.value).inc(count)

    def committed(self, stream: Stream, committed: Committed, seconds: float, events: int) -> None:
        """One commit: what it wrote, how long it took, how many changes were in its batch."""
        labels = self._labels(stream)
        self._commits.labels(*labels).inc()
        self._objects.labels(*labels).set(committed.row.object_count)
        written = {
            "insert": committed.inserted,
            "update": committed.updated,
            "delete": committed.deleted,
            "tombstone": committed.tombstones,
        }
        for kind, count in written.items():
            if count:
                self._rows.labels(*labels, kind).inc(count)
        if committed.quarantined:
            self._quarantined.labels(*labels).inc(committed.quarantined)
        self._batch.labels(*labels[:2]).observe(events)
        self._commit_seconds.labels(*labels[:2]).observe(seconds)

    def listed(self, stream: Stream, seconds: float, nbytes: int) -> None:
        """One page of a list: the histogram's count is the number of pages."""
        labels = self._labels(stream)
        self._list_seconds.labels(*labels[:2]).observe(seconds)
        self._list_bytes.labels(*labels).inc(nbytes)

    def snapshot(self, stream: Stream, seconds: float) -> None:
        """A snapshot that came to its end."""
        self._snapshot_seconds.labels(*self._labels(stream)[:2]).observe(seconds)

    def reconciled(self, stream: Stream, seconds: float) -> None:
        """A reconcile that came to its report."""
        self._reconcile_seconds.labels(*self._labels(stream)[:2]).observe(seconds)

    def api_warning(self, cluster: str) -> None:
        self._warnings.labels(cluster).inc()

    def lacking(self, cluster: str, problems: int) -> None:
        """What the configuration asks for and the cluster does not give; 0 where it gives all."""
        self._lacking.labels(cluster).set(problems)

    def forget_cluster(self, cluster: str) -> None:
        """Drops the series of a cluster that is mirrored no more; those of its streams go with them."""
        for metric in (self._lacking, self._warnings):
            metric.remove_by_labels({"cluster": cluster})

    def heartbeat(self, timestamp: float) -> None:
        """Seconds since the epoch, UTC."""
        self._heartbeat.set(timestamp)

    def database_error(self, kind: str) -> None:
        """The kind is one of a few fixed words."""
        self._database_errors.labels(kind).inc()

    def config_reloaded(self, result: str) -> None:
        """The result is `applied`, `unchanged` or `refused`; the one in force is not the file's then."""
        self._config_reloads.labels(result).inc()
        self._config_valid.set(result != "refused")

    def sink_delivered(self, sink: str) -> None:
        self._sink_events.labels(sink).inc()

    def sink_failed(self, sink: str) -> None:
        self._sink_failures.labels(sink).inc()

    def sink_gap(self, sink: str) -> None:
        self._sink_gaps.labels(sink).inc()

    def sink_lag(self, sink: str, seconds: float) -> None:
        self._sink_lag.labels(sink).set(seconds)

    def sink_forget(self, sink: str) -> None:
        """Drops the series of a sink that is no more."""
        for metric in (self._sink_events, self._sink_failures, self._sink_gaps, self._sink_lag):
            metric.remove_by_labels({"sink": sink})

    def forget(self, stream: Stream) -> None:
        """Drops the series of a stream that is no more; histograms with the last stream of the resource."""
        labels = (stream.cluster, stream.resource.qualified, stream.namespace)
        self._streams.discard(labels)
        shared = any(known[:2] == labels[:2] for known in self._streams)
        for declared in self.declared:
            if declared.labels[:3] == _STREAM:
                declared.metric.remove_by_labels(dict(zip(_STREAM, labels, strict=True)))
            elif declared.labels == _RESOURCE and not shared:
                declared.metric.remove_by_labels(dict(zip(_RESOURCE, labels[:2], strict=True)))

    def render(self) -> tuple[bytes, str]:
        """The text exposition, and its content type."""
        return generate_latest(self.registry), CONTENT_TYPE_LATEST

    def _labels(self, stream: Stream) -> tuple[str, str, str]:
        labels = (stream.cluster, stream.resource.qualified, stream.namespace)
        self._streams.add(labels)
        return labels
