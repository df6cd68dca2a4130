"""The history of objects and the feed of their changes.

A revision imports nothing from syncd: it stays what it was when the code moves on.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


class Xid8(sa.types.UserDefinedType[str]):
    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "xid8"


TIME = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")
JSON_VALUE = sa.Text().with_variant(postgresql.JSONB(), "postgresql")
IDENTITY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
TRANSACTION = sa.BigInteger().with_variant(Xid8(), "postgresql")

# A server built without lz4 keeps its default, which takes several times the CPU of it.
QUICKER_COMPRESSION = """
DO $$ BEGIN
  ALTER TABLE syncd_changes ALTER COLUMN object SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN NULL;
END $$
"""

# Where two documents differ, spelt and cut as by syncd.core.history. It goes down only where they do.
DIFFERING = """
CREATE FUNCTION syncd_differing_paths(was jsonb, became jsonb, at text) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  found text[] := '{}';
  step record;
BEGIN
  IF was IS NULL OR became IS NULL THEN
    RETURN ARRAY[at];
  ELSIF jsonb_typeof(was) = 'object' AND jsonb_typeof(became) = 'object' THEN
    FOR step IN
      SELECT coalesce(o.key, n.key) AS key, o.value AS was, n.value AS became
      FROM jsonb_each(was) o FULL JOIN jsonb_each(became) n ON n.key = o.key
      WHERE o.value IS DISTINCT FROM n.value
      ORDER BY coalesce(o.key, n.key) COLLATE "C"
    LOOP
      CONTINUE WHEN at = 'metadata' AND step.key IN ('managedFields', 'resourceVersion');
      found := found || syncd_differing_paths(step.was, step.became,
        CASE WHEN at = '' THEN '' ELSE at || '.' END
        || CASE WHEN step.key ~ '^[A-Za-z_][A-Za-z0-9_]*$' THEN step.key ELSE to_json(step.key)::text END);
    END LOOP;
  ELSIF jsonb_typeof(was) = 'array' AND jsonb_typeof(became) = 'array'
    AND jsonb_array_length(was) = jsonb_array_length(became) THEN
    FOR step IN
      SELECT o.place, o.value AS was, n.value AS became
      FROM jsonb_array_elements(was) WITH ORDINALITY o (value, place)
        JOIN jsonb_array_elements(became) WITH ORDINALITY n (value, place) ON n.place = o.place
      WHERE o.value <> n.value ORDER BY o.place
    LOOP
      found := found || syncd_differing_paths(step.was, step.became, at || '[' || step.place - 1 || ']');
    END LOOP;
  ELSIF was <> became THEN
    RETURN ARRAY[at];
  END IF;
  IF at <> '' AND cardinality(found) > 64 THEN
    RETURN ARRAY[at];
  END IF;
  RETURN found;
END $$
"""

CHANGED = """
CREATE FUNCTION syncd_changed_paths(was jsonb, became jsonb, with_status boolean) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
  found text[] := syncd_differing_paths(was, became, '');
BEGIN
  IF cardinality(found) = 0 OR NOT (with_status OR EXISTS (
    SELECT 1 FROM unnest(found) AS path WHERE path !~ '^status([.[]|$)')) THEN
    RETURN NULL;
  END IF;
  RETURN to_jsonb(found);
END $$
"""

# The newest version of each object up to the moment, where it was not a deletion. Only of what is recorded
# with its versions; a moment before what is kept is an error, never a part of the truth.
AS_OF = """
CREATE FUNCTION syncd_as_of(moment timestamptz) RETURNS TABLE (
  cluster text, api_group text, resource text, object_key text, kind text, namespace text, name text,
  uid text, resource_version text, committed_at timestamptz, object jsonb)
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM syncd_purges p WHERE p.name = 'changes' AND p.committed_at > moment) THEN
    RAISE EXCEPTION USING MESSAGE = 'the versions of ' || moment || ' are no longer kept',
      HINT = 'changes.keep in the configuration says for how long they are';
  END IF;
  RETURN QUERY
  SELECT c.cluster, c.api_group, c.resource, c.object_key, c.kind, c.namespace, c.name, c.uid,
    c.resource_version, c.committed_at, c.object
  FROM (
    SELECT DISTINCT ON (h.cluster, h.api_group, h.resource, h.object_key) h.*
    FROM syncd_changes h
    WHERE h.committed_at <= moment
    ORDER BY h.cluster, h.api_group, h.resource, h.object_key, h.sequence DESC
  ) c
  WHERE c.change_type <> 'deleted' AND c.object IS NOT NULL;
END $$
"""


def upgrade() -> None:
    on_postgresql = op.get_bind().dialect.name == "postgresql"
    transaction = sa.text("pg_current_xact_id()") if on_postgresql else sa.text("0")
    op.add_column("syncd_streams", sa.Column("history", sa.Text, nullable=False, server_default="none"))
    op.create_table(
        "syncd_changes",
        sa.Column("sequence", IDENTITY, autoincrement=True, nullable=False),
        sa.Column("transaction_id", TRANSACTION, nullable=False, server_default=transaction),
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
        sa.Column("committed_at", TIME, nullable=False),
        sa.Column("changed_paths", JSON_VALUE),
        sa.Column("object", JSON_VALUE),
        sa.PrimaryKeyConstraint("sequence"),
        sqlite_autoincrement=True,
    )
    op.create_index("syncd_changes_object", "syncd_changes", ["object_key", "sequence"])
    op.create_table(
        "syncd_cursors",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("transaction_id", TRANSACTION, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "syncd_purges",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("transaction_id", TRANSACTION, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("committed_at", TIME, nullable=False),
        sa.Column("purged_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    if on_postgresql:
        op.create_index("syncd_changes_position", "syncd_changes", ["transaction_id", "sequence"])
        for statement in (QUICKER_COMPRESSION, DIFFERING, CHANGED, AS_OF):
            op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION syncd_as_of(timestamptz)")
        op.execute("DROP FUNCTION syncd_changed_paths(jsonb, jsonb, boolean)")
        op.execute("DROP FUNCTION syncd_differing_paths(jsonb, jsonb, text)")
    for table in ("syncd_purges", "syncd_cursors", "syncd_changes"):
        op.drop_table(table)
    op.drop_column("syncd_streams", "history")
