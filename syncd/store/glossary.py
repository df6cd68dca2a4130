"""What every table of syncd and every column of it is, in a line: for the dictionary and for comments.

docs/schema.md says more. A test holds this to the tables; nothing here touches a connection.
"""

from __future__ import annotations

import re

import sqlalchemy as sa

from syncd.core.relation import Described, DescribedColumn
from syncd.store.column import Json, UtcTime, Xid8
from syncd.store.schema import metadata

# A table, then its columns; what many tables have is said once, under '*'.
_TEXT = """
*
  cluster: The cluster's name in the configuration.
  api_group: The API group, '' for the core group.
  resource: The plural: pods.
  object_key: namespace/name, or name when cluster-scoped; compared as bytes.
  stream_id: The stream that it belongs to.
  namespace: The namespace, '' when cluster-scoped.
  api_version: The version of the API alone: v1.
  kind: As in the API.
  name: As in the API.
  uid: As in the API.
  resource_version: As in the API, text.
  resource_version_number: The resource version as a number; NULL where it does not compare.
  generation: As in the API.
  creation_timestamp: As in the API; NULL where it cannot be read.
  deletion_timestamp: As in the API; NULL where it cannot be read.
  owner_uid: The controller's uid, else the first owner's, else NULL.
  first_seen_at: When syncd first wrote it.
  committed_at: When syncd last wrote it.
  labels: All labels, NULL where there is none.
  annotations: All annotations, NULL where there is none.
  object: The document as the server sent it, less managedFields; values of Secrets are redacted.
  epoch: The generation of the cluster's versions that it belongs to.
  last_error: What went wrong, '' when all is well.
syncd_objects: What is selected and alive, nothing else: a row an object.
  pod_node: Of a pod: the node that it is bound to.
  pod_phase: Of a pod: its phase.
  pod_status: Of a pod: what kubectl prints as its status.
  pod_restarts: Of a pod: restarts of its containers.
syncd_deleted_objects: What left syncd_objects, kept for a time, as it last was.
  resource_version: Of the deletion, or of the list that found it absent.
  cause: Why it left: deleted, snapshot, left_selection, type_removed, deselected or reconcile.
  deleted_at: When syncd learnt that it left.
  last_alive_at: When it was last known to be there.
syncd_streams: One list and watch of one resource in one scope: the durable state of the mirror.
  stream_id: Never given twice.
  api_version: The version that was served last.
  namespace: The namespace that it is confined to, '' for all.
  label_selector: The labels that it is confined to, '' for all.
  field_selector: The fields that it is confined to, '' for all.
  state: pending, syncing, live, backoff or parked.
  resource_version: The checkpoint: every change up to it is in the tables.
  projection: A hash of what shapes a stored document besides its version.
  holder: The token of the lease under which it is written.
  object_count: Its rows in syncd_objects.
  unordered: Whether the API once listed it out of order.
  created_at: When it was first selected.
  syncing_since: When the unfinished snapshot began, else NULL.
  last_event_at: When its last event came.
  last_bookmark_at: When its last bookmark came.
  last_commit_at: When its last commit was.
  last_list_at: When its last list was.
  verified_at: When it was last known to be level with the API.
  deadline_at: By when its watch must have brought something, or been renewed.
  lag_seconds: The age of the oldest event received and not committed, as of the last heartbeat.
  history: What is recorded of its changes: none, changes or versions.
syncd_changes: What happened to the objects, a row a change, written with the rows that it moved.
  sequence: An object's changes have it in their order.
  transaction_id: PostgreSQL: the transaction that wrote it; 0 on SQLite.
  change_type: created, updated or deleted.
  source: How it came to be known: watch, snapshot, reconcile or epoch.
  initial: Whether it was there when the stream, or the record, began.
  cause: Of a deletion, as in syncd_deleted_objects.
  committed_at: When it was written.
  changed_paths: Of an update: where the documents differ, an array of paths.
  object: The object as of then, where versions are kept; of a deletion its last content.
syncd_cursors: How far each named reader of changes has read.
  name: The reader's name.
  transaction_id: Of the last change that it was given.
  sequence: Of the last change that it was given.
  updated_at: When it was last given one.
syncd_purges: What retention has taken from the tables that are read by cursors.
  name: The table without its prefix.
  transaction_id: Of the last change that was taken.
  sequence: Of the last change that was taken.
  committed_at: Every change from before may be gone.
  purged_at: When it was last taken from.
syncd_clusters: A row a cluster.
  name: Its name in the configuration.
  uid: Of the namespace kube-system.
  weak_uid: Whether that may not be read: uid is then a hash of server and CA.
  server: Its URL, as last seen.
  kubernetes_version: As last seen.
  labels: What the configuration says of it.
  epoch: The generation of its versions; a rollback begins a new one.
  first_seen_at: When it was first reached.
  last_seen_at: When it was last reached.
  last_error: Why it cannot be had, or what of the configuration cannot; '' when all is well.
syncd_reconciliations: A row a run of a reconcile and a stream.
  reconciliation_id: Never given twice.
  stream_id: What was compared.
  depth: version (uid and version) or content (documents too).
  dry_run: Whether it only reported.
  request_id: The request that asked for it, NULL when the schedule did.
  list_version: The version of the list that was compared with.
  checked: Objects compared.
  missing: Found in the cluster only.
  stale: Found with another version, or as another object.
  ghost: Found in the table only.
  altered: Found with other content at the same version.
  repaired: How many of them were repaired.
  error: '' when it came to its end.
  started_at: When it began.
  finished_at: When it ended; NULL while it runs.
syncd_drift: A row a finding of a reconcile.
  drift_id: Never given twice.
  reconciliation_id: The run that found it.
  finding: missing, stale, ghost or altered.
  table_version: The version in the table; NULL where it was not there.
  cluster_version: The version in the cluster; NULL where it was not there.
  repaired: Whether it was repaired.
  found_at: When it was found.
syncd_quarantine: Objects that the database refused for their data.
  error: Class and code of the error; never a value.
  first_seen_at: When it was first refused.
  last_tried_at: When it was last refused.
  attempts: How often it was refused.
syncd_views: A row a view that syncd makes, or could not make.
  relation: Its name; one in parentheses stands for something else that is made with the views.
  subject: API group/resource of what it shows.
  short: Whether it is a short name, which another resource may want too.
  description: What it shows.
  digest: A hash of its definition; '' where it is not there.
  note: Why it is not there, or ''.
  applied_at: When it was last made or changed.
syncd_view_columns: A row a column of a view.
  relation: The view.
  place: From 1, in the order of the view.
  name: The column's name.
  type: As PostgreSQL names it, on SQLite too.
  description: What it means.
  origin: Where in the object it comes from; '' where it is computed.
syncd_definitions: A row a CustomResourceDefinition of a cluster: what shapes the views of custom resources.
  name: plural.group.
  uid: Of the definition.
  generation: Of the definition.
  document: Its names, and of each served version the printer columns and what is directly in spec and status.
syncd_leases: The daemon that owns this database; no row when there is none.
  name: Always daemon.
  token: What fences its writes.
  host: Where it runs.
  pid: Its process.
  version: Its version.
  lock_held: Whether it also holds the lock that makes a takeover quick.
  since: Since when it has the lease.
  heartbeat_at: When it last renewed the lease; older than 15 s, the lease has lapsed.
syncd_requests: What is asked of the running daemon.
  request_id: Never given twice.
  command: reconcile.
  arguments: What is asked for.
  created_at: When it was asked.
  claimed_at: When the daemon saw it.
  answered_at: When it was done.
  progress: How far it is, {} at first.
  result: What came of it, {} at first.
  error: '' when it went well.
syncd_migrations: The schema's revision.
  version_num: The revision.
"""

# What no metadata holds: PostgreSQL's computed columns, and Alembic's table.
_COMPUTED = {"pod_node": "text", "pod_phase": "text", "pod_status": "text", "pod_restarts": "bigint"}
_TYPES = {
    UtcTime: "timestamptz",
    Json: "jsonb",
    Xid8: "xid8",
    sa.Boolean: "boolean",
    sa.Double: "double precision",
    sa.BigInteger: "bigint",
    sa.Text: "text",
}


def described(dialect: str) -> tuple[Described, ...]:
    """Every table of syncd's, by name, as a database of this dialect has it.

    Raises:
        KeyError: one of them, or a column, is not described here.
    """
    said = _said()
    found = [
        Described(
            name,
            said[name][""],
            tuple(
                DescribedColumn(column, kind, said[name].get(column) or said["*"][column])
                for column, kind in _columns(table, dialect)
            ),
        )
        for name, table in metadata.tables.items()
    ]
    revision = DescribedColumn("version_num", "character varying", said["syncd_migrations"]["version_num"])
    found.append(Described("syncd_migrations", said["syncd_migrations"][""], (revision,)))
    return tuple(sorted(found, key=lambda each: each.name))


def _said() -> dict[str, dict[str, str]]:
    """What is said of each table's columns, and of the table under ''."""
    said: dict[str, dict[str, str]] = {}
    for line in _TEXT.strip().splitlines():
        [(indent, name, text)] = re.findall(r"( *)([a-z0-9_*]+):? ?(.*)", line)
        if not indent:
            said[name] = {"": text}
            table = name
        else:
            said[table][name] = text
    return said


def _columns(table: sa.Table, dialect: str) -> list[tuple[str, str]]:
    known = [(column.name, _type(column, dialect)) for column in table.columns]
    if table.name == "syncd_objects" and dialect == "postgresql":
        known += _COMPUTED.items()
    return known


def _type(column: sa.Column[object], dialect: str) -> str:
    if column.name == "transaction_id":
        return "xid8" if dialect == "postgresql" else "bigint"
    return next(name for kind, name in _TYPES.items() if isinstance(column.type, kind))
