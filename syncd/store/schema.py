"""Every table of syncd, as docs/schema.md describes them to users; it must not touch a connection.

The tables are a public interface: names, types, keys and indexes change by a migration only, and a test
holds this metadata equal to the migrations at head on both dialects.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from syncd.store.column import IDENTITY, KEY, CurrentTransaction, Json, UtcTime, Xid8

metadata = sa.MetaData()

FUNCTIONS = ("syncd_as_of", "syncd_changed_paths", "syncd_differing_paths")
"""What the migrations make on PostgreSQL besides."""

clusters = sa.Table(
    "syncd_clusters",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("uid", sa.Text, nullable=False),
    sa.Column("weak_uid", sa.Boolean, nullable=False),
    sa.Column("server", sa.Text, nullable=False),
    sa.Column("kubernetes_version", sa.Text, nullable=False),
    sa.Column("labels", Json, nullable=False),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("first_seen_at", UtcTime, nullable=False),
    sa.Column("last_seen_at", UtcTime, nullable=False),
    sa.Column("last_error", sa.Text, nullable=False, server_default=""),
)

streams = sa.Table(
    "syncd_streams",
    metadata,
    sa.Column("stream_id", IDENTITY, primary_key=True, autoincrement=True),
    sa.Column("cluster", sa.Text, nullable=False),
    sa.Column("api_group", sa.Text, nullable=False),
    sa.Column("api_version", sa.Text, nullable=False),
    sa.Column("resource", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("namespace", sa.Text, nullable=False),
    sa.Column("label_selector", sa.Text, nullable=False),
    sa.Column("field_selector", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("resource_version", sa.Text),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("projection", sa.Text, nullable=False),
    sa.Column("holder", sa.Text, nullable=False),
    sa.Column("object_count", sa.BigInteger, nullable=False),
    sa.Column("unordered", sa.Boolean, nullable=False),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("syncing_since", UtcTime),
    sa.Column("last_event_at", UtcTime),
    sa.Column("last_bookmark_at", UtcTime),
    sa.Column("last_commit_at", UtcTime),
    sa.Column("last_list_at", UtcTime),
    sa.Column("verified_at", UtcTime),
    sa.Column("deadline_at", UtcTime),
    sa.Column("lag_seconds", sa.Double, nullable=False),
    sa.Column("last_error", sa.Text, nullable=False),
    sa.Column("history", sa.Text, nullable=False, server_default="none"),
    sa.UniqueConstraint(
        "cluster",
        "api_group",
        "resource",
        "namespace",
        "label_selector",
        "field_selector",
        name="syncd_streams_identity",
    ),
    sqlite_autoincrement=True,  # an id is never given twice: tombstones keep it
)


_OBJECT_KEY = ("cluster", "api_group", "resource", "object_key")


def _object_columns(*extra: sa.Column[Any], key: tuple[str, ...] = _OBJECT_KEY) -> list[sa.Column[Any]]:
    """An object's columns; the documents come last, so that SQLite reads the others without them."""
    columns: list[sa.Column[Any]] = [
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("api_group", sa.Text, nullable=False),
        sa.Column("resource", sa.Text, nullable=False),
        sa.Column("object_key", KEY, nullable=False),
        sa.Column("stream_id", sa.BigInteger, nullable=False),
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("api_version", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("uid", sa.Text, nullable=False),
        sa.Column("resource_version", sa.Text, nullable=False),
        sa.Column("resource_version_number", sa.BigInteger),
        sa.Column("generation", sa.BigInteger),
        sa.Column("creation_timestamp", UtcTime),
        sa.Column("deletion_timestamp", UtcTime),
        sa.Column("owner_uid", sa.Text),
        sa.Column("first_seen_at", UtcTime, nullable=False),
        sa.Column("committed_at", UtcTime, nullable=False),
        *extra,
        sa.Column("labels", Json),
        sa.Column("annotations", Json),
        sa.Column("object", Json, nullable=False),
    ]
    for column in columns:
        column.primary_key = column.name in key
    return columns


def _label_index(name: str, label: str) -> sa.Index:
    """PostgreSQL: for `labels ->> 'label' = …`; the index on all of `labels` serves `@>` and `?` alone."""
    value = f"labels ->> '{label}'"
    index = sa.Index(name, sa.text(f"({value})"), postgresql_where=sa.text(f"{value} IS NOT NULL"))
    return index.ddl_if(dialect="postgresql")


GENERATED = ("pod_node", "pod_phase", "pod_status", "pod_restarts")
"""What PostgreSQL computes of a pod when it is written. Nobody writes these columns of syncd_objects, and
migrations alone make them and their indexes.
"""

objects = sa.Table(
    "syncd_objects",
    metadata,
    *_object_columns(),
    sa.Index("syncd_objects_stream", "stream_id", "object_key"),
    sa.Index("syncd_objects_name", "kind", "namespace", "name"),
    sa.Index("syncd_objects_uid", "uid"),
    sa.Index("syncd_objects_owner", "owner_uid"),
    sa.Index("syncd_objects_labels", "labels", postgresql_using="gin").ddl_if(dialect="postgresql"),
    _label_index("syncd_objects_label_app", "app"),
    _label_index("syncd_objects_label_name", "app.kubernetes.io/name"),
    # On PostgreSQL it would cost every update its HOT path, and a scan of one stream is quick enough there.
    sa.Index("syncd_objects_version", "stream_id", "resource_version_number").ddl_if(dialect="sqlite"),
)

deleted_objects = sa.Table(
    "syncd_deleted_objects",
    metadata,
    *_object_columns(
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("cause", sa.Text, nullable=False),
        sa.Column("deleted_at", UtcTime, nullable=False),
        sa.Column("last_alive_at", UtcTime, nullable=False),
        key=(*_OBJECT_KEY, "uid", "epoch"),
    ),
    sa.Index("syncd_deleted_objects_uid", "uid"),
    sa.Index("syncd_deleted_objects_name", "kind", "namespace", "name"),
    sa.Index("syncd_deleted_objects_deleted_at", "deleted_at"),
)

_TRANSACTION = sa.BigInteger().with_variant(Xid8(), "postgresql")

changes = sa.Table(
    "syncd_changes",
    metadata,
    sa.Column("sequence", IDENTITY, primary_key=True, autoincrement=True),
    sa.Column("transaction_id", _TRANSACTION, nullable=False, server_default=CurrentTransaction()),
    sa.Column("cluster", sa.Text, nullable=False),
    sa.Column("api_group", sa.Text, nullable=False),
    sa.Column("resource", sa.Text, nullable=False),
    sa.Column("object_key", KEY, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("namespace", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("uid", sa.Text, nullable=False),
    sa.Column("resource_version", sa.Text, nullable=False),
    sa.Column("change_type", sa.Text, nullable=False),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("initial", sa.Boolean, nullable=False),
    sa.Column("cause", sa.Text),
    sa.Column("committed_at", UtcTime, nullable=False),
    sa.Column("changed_paths", Json),
    sa.Column("object", Json),
    sa.Index("syncd_changes_object", "object_key", "sequence"),  # the type tells few apart, and costs more
    sa.Index("syncd_changes_position", "transaction_id", "sequence").ddl_if(dialect="postgresql"),
    sqlite_autoincrement=True,
)

cursors = sa.Table(
    "syncd_cursors",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("transaction_id", _TRANSACTION, nullable=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("updated_at", UtcTime, nullable=False),
)

purges = sa.Table(
    "syncd_purges",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("transaction_id", _TRANSACTION, nullable=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("committed_at", UtcTime, nullable=False),
    sa.Column("purged_at", UtcTime, nullable=False),
)

reconciliations = sa.Table(
    "syncd_reconciliations",
    metadata,
    sa.Column("reconciliation_id", IDENTITY, primary_key=True, autoincrement=True),
    sa.Column("stream_id", sa.BigInteger, nullable=False),
    sa.Column("cluster", sa.Text, nullable=False),
    sa.Column("api_group", sa.Text, nullable=False),
    sa.Column("resource", sa.Text, nullable=False),
    sa.Column("namespace", sa.Text, nullable=False),
    sa.Column("depth", sa.Text, nullable=False),
    sa.Column("dry_run", sa.Boolean, nullable=False),
    sa.Column("request_id", sa.BigInteger),
    sa.Column("list_version", sa.Text, nullable=False),
    sa.Column("checked", sa.BigInteger, nullable=False),
    sa.Column("missing", sa.BigInteger, nullable=False),
    sa.Column("stale", sa.BigInteger, nullable=False),
    sa.Column("ghost", sa.BigInteger, nullable=False),
    sa.Column("altered", sa.BigInteger, nullable=False),
    sa.Column("repaired", sa.BigInteger, nullable=False),
    sa.Column("error", sa.Text, nullable=False),
    sa.Column("started_at", UtcTime, nullable=False),
    sa.Column("finished_at", UtcTime),
    sa.Index("syncd_reconciliations_stream", "stream_id", "started_at"),
    sa.Index("syncd_reconciliations_request", "request_id"),
    sqlite_autoincrement=True,
)

drift = sa.Table(
    "syncd_drift",
    metadata,
    sa.Column("drift_id", IDENTITY, primary_key=True, autoincrement=True),
    sa.Column("reconciliation_id", sa.BigInteger, nullable=False),
    sa.Column("stream_id", sa.BigInteger, nullable=False),
    sa.Column("cluster", sa.Text, nullable=False),
    sa.Column("api_group", sa.Text, nullable=False),
    sa.Column("resource", sa.Text, nullable=False),
    sa.Column("object_key", KEY, nullable=False),
    sa.Column("namespace", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("uid", sa.Text, nullable=False),
    sa.Column("finding", sa.Text, nullable=False),
    sa.Column("table_version", sa.Text),
    sa.Column("cluster_version", sa.Text),
    sa.Column("repaired", sa.Boolean, nullable=False),
    sa.Column("found_at", UtcTime, nullable=False),
    sa.Index("syncd_drift_reconciliation", "reconciliation_id"),
    sqlite_autoincrement=True,
)

quarantine = sa.Table(
    "syncd_quarantine",
    metadata,
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("api_group", sa.Text, primary_key=True),
    sa.Column("resource", sa.Text, primary_key=True),
    sa.Column("object_key", KEY, primary_key=True),
    sa.Column("stream_id", sa.BigInteger, nullable=False),
    sa.Column("namespace", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("uid", sa.Text, nullable=False),
    sa.Column("resource_version", sa.Text, nullable=False),
    sa.Column("error", sa.Text, nullable=False),
    sa.Column("first_seen_at", UtcTime, nullable=False),
    sa.Column("last_tried_at", UtcTime, nullable=False),
    sa.Column("attempts", sa.BigInteger, nullable=False),
    sa.Index("syncd_quarantine_stream", "stream_id", "object_key"),
)

views = sa.Table(
    "syncd_views",
    metadata,
    sa.Column("relation", sa.Text, primary_key=True),
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("short", sa.Boolean, nullable=False),
    sa.Column("description", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("note", sa.Text, nullable=False),
    sa.Column("applied_at", UtcTime, nullable=False),
)

view_columns = sa.Table(
    "syncd_view_columns",
    metadata,
    sa.Column("relation", sa.Text, primary_key=True),
    sa.Column("place", sa.BigInteger, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("type", sa.Text, nullable=False),
    sa.Column("description", sa.Text, nullable=False),
    sa.Column("origin", sa.Text, nullable=False),
)

definitions = sa.Table(
    "syncd_definitions",
    metadata,
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("uid", sa.Text, nullable=False),
    sa.Column("generation", sa.BigInteger, nullable=False),
    sa.Column("document", Json, nullable=False),
)

leases = sa.Table(
    "syncd_leases",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("token", sa.Text, nullable=False),
    sa.Column("host", sa.Text, nullable=False),
    sa.Column("pid", sa.BigInteger, nullable=False),
    sa.Column("version", sa.Text, nullable=False),
    sa.Column("lock_held", sa.Boolean, nullable=False),
    sa.Column("since", UtcTime, nullable=False),
    sa.Column("heartbeat_at", UtcTime, nullable=False),
)

requests = sa.Table(
    "syncd_requests",
    metadata,
    sa.Column("request_id", IDENTITY, primary_key=True, autoincrement=True),
    sa.Column("command", sa.Text, nullable=False),
    sa.Column("arguments", Json, nullable=False),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("claimed_at", UtcTime),
    sa.Column("answered_at", UtcTime),
    sa.Column("progress", Json, nullable=False),
    sa.Column("result", Json, nullable=False),
    sa.Column("error", sa.Text, nullable=False),
    sa.Index("syncd_requests_answered_at", "answered_at"),
    sqlite_autoincrement=True,
)
