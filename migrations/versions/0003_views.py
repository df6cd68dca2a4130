"""What is known of the views, and what PostgreSQL computes of a pod when it is written.

A revision imports nothing from syncd: it stays what it was when the code moves on.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")

# printPod of kubectl's printers in one pass. It must not fail, whatever a document holds: an error would send
# the row to quarantine. `wanted`: status, restarts, restarted (the last time, as in the document), ready.
POD = r"""
CREATE FUNCTION syncd_pod(object jsonb, wanted text) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  status jsonb := object -> 'status';
  phase text := status ->> 'phase';
  reason text := coalesce(nullif(status ->> 'reason', ''), phase);
  inits jsonb := CASE jsonb_typeof(status -> 'initContainerStatuses')
    WHEN 'array' THEN status -> 'initContainerStatuses' ELSE '[]' END;
  mains jsonb := CASE jsonb_typeof(status -> 'containerStatuses')
    WHEN 'array' THEN status -> 'containerStatuses' ELSE '[]' END;
  specs jsonb := CASE jsonb_typeof(object -> 'spec' -> 'initContainers')
    WHEN 'array' THEN object -> 'spec' -> 'initContainers' ELSE '[]' END;
  restarts bigint := 0;
  sidecar_restarts bigint := 0;
  restarted text;
  sidecar_restarted text;
  ready int := 0;
  initialized boolean := true;
  running boolean := false;
  failure text;
  item jsonb;
  ended jsonb;
  waits text;
  times bigint;
  sidecar boolean;
BEGIN
  IF status @? '$.conditions[*] ? (@.type == "PodScheduled" && @.reason == "SchedulingGated")' THEN
    reason := 'SchedulingGated';
  END IF;
  FOR i IN 0 .. jsonb_array_length(inits) - 1 LOOP
    item := inits -> i;
    ended := nullif(item -> 'state' -> 'terminated', 'null');
    waits := item -> 'state' -> 'waiting' ->> 'reason';
    times := CASE jsonb_typeof(item -> 'restartCount') WHEN 'number'
      THEN least(greatest((item -> 'restartCount')::numeric, 0), 2147483647) ELSE 0 END;
    sidecar := jsonb_path_exists(specs, '$[*] ? (@.name == $name && @.restartPolicy == "Always")',
      jsonb_build_object('name', item -> 'name'));
    restarts := restarts + times;
    restarted := greatest(restarted, item -> 'lastState' -> 'terminated' ->> 'finishedAt');
    IF sidecar THEN
      sidecar_restarts := sidecar_restarts + times;
      sidecar_restarted :=
        greatest(sidecar_restarted, item -> 'lastState' -> 'terminated' ->> 'finishedAt');
    END IF;
    CONTINUE WHEN ended IS NOT NULL AND coalesce(ended -> 'exitCode', '0') = '0';
    IF sidecar AND item -> 'started' = 'true' THEN
      ready := ready + (coalesce(item -> 'ready', 'false') = 'true')::int;
      CONTINUE;
    END IF;
    reason := 'Init:' || CASE
      WHEN ended IS NOT NULL THEN coalesce(nullif(ended ->> 'reason', ''),
        'Signal:' || nullif(ended ->> 'signal', '0'), 'ExitCode:' || coalesce(ended ->> 'exitCode', '0'))
      WHEN waits <> '' AND waits <> 'PodInitializing' THEN waits
      ELSE i || '/' || jsonb_array_length(specs) END;
    initialized := coalesce(jsonb_path_query_first(status,
      '$.conditions[*] ? (@.type == "Initialized").status') = '"True"', false);
    EXIT;
  END LOOP;
  IF initialized THEN
    restarts := sidecar_restarts;
    restarted := sidecar_restarted;
    FOR i IN REVERSE jsonb_array_length(mains) - 1 .. 0 LOOP
      item := mains -> i;
      ended := nullif(item -> 'state' -> 'terminated', 'null');
      waits := item -> 'state' -> 'waiting' ->> 'reason';
      times := CASE jsonb_typeof(item -> 'restartCount') WHEN 'number'
        THEN least(greatest((item -> 'restartCount')::numeric, 0), 2147483647) ELSE 0 END;
      restarts := restarts + times;
      restarted := greatest(restarted, item -> 'lastState' -> 'terminated' ->> 'finishedAt');
      IF waits <> '' THEN
        reason := waits;
      ELSIF ended IS NOT NULL THEN
        reason := coalesce(nullif(ended ->> 'reason', ''),
          'Signal:' || nullif(ended ->> 'signal', '0'), 'ExitCode:' || coalesce(ended ->> 'exitCode', '0'));
        IF coalesce(ended -> 'exitCode', '0') <> '0' THEN
          failure := reason;
        END IF;
      ELSIF item -> 'ready' = 'true' AND nullif(item -> 'state' -> 'running', 'null') IS NOT NULL THEN
        running := true;
        ready := ready + 1;
      END IF;
    END LOOP;
    IF reason = 'Completed' THEN
      IF running AND status @? '$.conditions[*] ? (@.type == "Ready" && @.status == "True")' THEN
        reason := 'Running';
      ELSIF failure IS NOT NULL THEN
        reason := failure;
      ELSIF running THEN
        reason := 'NotReady';
      END IF;
    END IF;
  END IF;
  IF nullif(object -> 'metadata' -> 'deletionTimestamp', 'null') IS NOT NULL THEN
    IF status ->> 'reason' = 'NodeLost' THEN
      reason := 'Unknown';
    ELSIF phase IS NULL OR phase NOT IN ('Failed', 'Succeeded') THEN
      reason := 'Terminating';
    END IF;
  END IF;
  RETURN CASE wanted WHEN 'status' THEN reason WHEN 'restarts' THEN restarts::text
    WHEN 'restarted' THEN restarted ELSE ready::text END;
END $$
"""

# Cut where no name and no reason is as long: an index refuses what passes its bound, and nobody shall keep an
# object from the mirror by what they write into its status.
POD_COLUMNS = (
    ("pod_node", "text", "left(nullif(object #>> '{spec,nodeName}', ''), 253)"),
    ("pod_phase", "text", "left(object #>> '{status,phase}', 253)"),
    ("pod_status", "text", "left(syncd_pod(object, 'status'), 253)"),
    ("pod_restarts", "bigint", "syncd_pod(object, 'restarts')::bigint"),
)
A_POD = "resource = 'pods' AND api_group = ''"


def upgrade() -> None:
    op.create_table(
        "syncd_views",
        sa.Column("relation", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("short", sa.Boolean, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
        sa.Column("applied_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("relation"),
    )
    op.create_table(
        "syncd_view_columns",
        sa.Column("relation", sa.Text, nullable=False),
        sa.Column("place", sa.BigInteger, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("origin", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("relation", "place"),
    )
    if op.get_bind().dialect.name != "postgresql":
        return
    op.get_bind().exec_driver_sql(POD)
    added = ", ".join(
        f"ADD COLUMN {name} {kind} GENERATED ALWAYS AS (CASE WHEN {A_POD} THEN {value} END) STORED"
        for name, kind, value in POD_COLUMNS
    )
    op.execute(f"ALTER TABLE syncd_objects {added}")
    for name, columns, more in (
        ("node", "pod_node", ""),
        ("phase", "pod_phase", ""),
        ("status", "pod_status, namespace, cluster", ""),  # counts by namespace and status read it alone
        ("restarts", "pod_restarts", " AND pod_restarts > 0"),  # few have any
    ):
        where = f"kind = 'Pod' AND {A_POD}{more}"
        op.execute(f"CREATE INDEX syncd_objects_pod_{name} ON syncd_objects ({columns}) WHERE {where}")


def downgrade() -> None:
    made = "SELECT relation FROM syncd_views WHERE digest <> '' AND relation <> '(functions)'"
    for (relation,) in op.get_bind().execute(sa.text(made)).all():
        op.execute(f'DROP VIEW IF EXISTS "{relation}"')
    if op.get_bind().dialect.name == "postgresql":
        for name, _, _ in POD_COLUMNS:
            op.drop_column("syncd_objects", name)
        op.execute("DROP FUNCTION syncd_pod(jsonb, text)")
        functions = ("cores(text)", "units(text)", "time(text)", "time(jsonb)", "json(jsonb)")
        for function in (*functions, "pod_cores(jsonb, text)", "pod_bytes(jsonb, text)"):
            op.execute(f"DROP FUNCTION IF EXISTS syncd_{function}")
    op.drop_table("syncd_view_columns")
    op.drop_table("syncd_views")
