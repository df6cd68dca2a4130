"""On PostgreSQL, the two labels that most workloads are found by: for `labels ->> 'app' = …`, since the index
on the whole of `labels` serves `@>` and `?` alone.

A revision imports nothing from syncd: it stays what it was when the code moves on.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

INDEXES = {
    "syncd_objects_label_app": "labels ->> 'app'",
    "syncd_objects_label_name": "labels ->> 'app.kubernetes.io/name'",
}


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        for name, value in INDEXES.items():
            where = sa.text(f"{value} IS NOT NULL")
            op.create_index(name, "syncd_objects", [sa.text(f"({value})")], postgresql_where=where)


def downgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        for name in INDEXES:
            op.drop_index(name, "syncd_objects")
