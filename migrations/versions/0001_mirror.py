"""The mirror: clusters, streams, objects and what is kept of them, reports, the lease and requests.

A revision imports nothing from syncd: it stays what it was when the code moves on.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")
JSON_VALUE = sa.Text().with_variant(postgresql.JSONB(), "postgresql")
IDENTITY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

# A server built without lz4 keeps its default, which takes several times the CPU of it.
QUICKER_COMPRESSION = """
DO $$ BEGIN
  ALTER TABLE {table} ALTER COLUMN object SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN NULL;
END $$
"""


def upgrade() -> None:
    on_postgresql = op.get_bind().dialect.name == "postgresql"
    op.create_table(
        "syncd_clusters",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("uid", sa.Text, nullable=False),
        sa.Column("weak_uid", sa.Boolean, nullable=False),
        sa.Column("server", sa.Text, nullable=False),
        sa.Column("kubernetes_version", sa.Text, nullable=False),
        sa.Column("labels", JSON_VALUE, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("first_seen_at", TIME, nullable=False),
        sa.Column("last_seen_at", TIME, nullable=False),
        sa.Column("last_error", sa.Text, nullable=False, server_default=""),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "syncd_streams",
        sa.Column("stream_id", IDENTITY, autoincrement=True, nullable=False),
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
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("syncing_since", TIME),
        sa.Column("last_event_at", TIME),
        sa.Column("last_bookmark_at", TIME),
        sa.Column("last_commit_at", TIME),
        sa.Column("last_list_at", TIME),
        sa.Column("verified_at", TIME),
        sa.Column("deadline_at", TIME),
        sa.Column("lag_seconds", sa.Double, nullable=False),
        sa.Column("last_error", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("stream_id"),
        sa.UniqueConstraint(
            "cluster",
            "api_group",
            "resource",
            "namespace",
            "label_selector",
            "field_selector",
            name="syncd_streams_identity",
        ),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "syncd_objects",
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
        sa.Column("creation_timestamp", TIME),
        sa.Column("deletion_timestamp", TIME),
        sa.Column("owner_uid", sa.Text),
        sa.Column("first_seen_at", TIME, nullable=False),
        sa.Column("committed_at", TIME, nullable=False),
        sa.Column("labels", JSON_VALUE),
        sa.Column("annotations", JSON_VALUE),
        sa.Column("object", JSON_VALUE, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "api_group", "resource", "object_key"),
    )
    if on_postgresql:
        op.create_index("syncd_objects_labels", "syncd_objects", ["labels"], postgresql_using="gin")
    op.create_index("syncd_objects_name", "syncd_objects", ["kind", "namespace", "name"])
    op.create_index("syncd_objects_owner", "syncd_objects", ["owner_uid"])
    op.create_index("syncd_objects_stream", "syncd_objects", ["stream_id", "object_key"])
    op.create_index("syncd_objects_uid", "syncd_objects", ["uid"])
    if not on_postgresql:
        op.create_index("syncd_objects_version", "syncd_objects", ["stream_id", "resource_version_number"])
    op.create_table(
        "syncd_deleted_objects",
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
        sa.Column("creation_timestamp", TIME),
        sa.Column("deletion_timestamp", TIME),
        sa.Column("owner_uid", sa.Text),
        sa.Column("first_seen_at", TIME, nullable=False),
        sa.Column("committed_at", TIME, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("cause", sa.Text, nullable=False),
        sa.Column("deleted_at", TIME, nullable=False),
        sa.Column("last_alive_at", TIME, nullable=False),
        sa.Column("labels", JSON_VALUE),
        sa.Column("annotations", JSON_VALUE),
        sa.Column("object", JSON_VALUE, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "api_group", "resource", "object_key", "uid", "epoch"),
    )
    op.create_index("syncd_deleted_objects_deleted_at", "syncd_deleted_objects", ["deleted_at"])
    op.create_index("syncd_deleted_objects_name", "syncd_deleted_objects", ["kind", "namespace", "name"])
    op.create_index("syncd_deleted_objects_uid", "syncd_deleted_objects", ["uid"])
    op.create_table(
        "syncd_reconciliations",
        sa.Column("reconciliation_id", IDENTITY, autoincrement=True, nullable=False),
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
        sa.Column("started_at", TIME, nullable=False),
        sa.Column("finished_at", TIME),
        sa.PrimaryKeyConstraint("reconciliation_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("syncd_reconciliations_request", "syncd_reconciliations", ["request_id"])
    op.create_index("syncd_reconciliations_stream", "syncd_reconciliations", ["stream_id", "started_at"])
    op.create_table(
        "syncd_drift",
        sa.Column("drift_id", IDENTITY, autoincrement=True, nullable=False),
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
        sa.Column("found_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("drift_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("syncd_drift_reconciliation", "syncd_drift", ["reconciliation_id"])
    op.create_table(
        "syncd_quarantine",
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("api_group", sa.Text, nullable=False),
        sa.Column("resource", sa.Text, nullable=False),
        sa.Column("object_key", KEY, nullable=False),
        sa.Column("stream_id", sa.BigInteger, nullable=False),
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("uid", sa.Text, nullable=False),
        sa.Column("resource_version", sa.Text, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("first_seen_at", TIME, nullable=False),
        sa.Column("last_tried_at", TIME, nullable=False),
        sa.Column("attempts", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "api_group", "resource", "object_key"),
    )
    op.create_index("syncd_quarantine_stream", "syncd_quarantine", ["stream_id", "object_key"])
    op.create_table(
        "syncd_leases",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("token", sa.Text, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("pid", sa.BigInteger, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("lock_held", sa.Boolean, nullable=False),
        sa.Column("since", TIME, nullable=False),
        sa.Column("heartbeat_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "syncd_requests",
        sa.Column("request_id", IDENTITY, autoincrement=True, nullable=False),
        sa.Column("command", sa.Text, nullable=False),
        sa.Column("arguments", JSON_VALUE, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("claimed_at", TIME),
        sa.Column("answered_at", TIME),
        sa.Column("progress", JSON_VALUE, nullable=False),
        sa.Column("result", JSON_VALUE, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("request_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("syncd_requests_answered_at", "syncd_requests", ["answered_at"])
    if on_postgresql:
        for table in ("syncd_objects", "syncd_deleted_objects"):
            op.execute(QUICKER_COMPRESSION.format(table=table))


def downgrade() -> None:
    for table in (
        "syncd_requests",
        "syncd_leases",
        "syncd_quarantine",
        "syncd_drift",
        "syncd_reconciliations",
        "syncd_deleted_objects",
        "syncd_objects",
        "syncd_streams",
        "syncd_clusters",
    ):
        op.drop_table(table)
