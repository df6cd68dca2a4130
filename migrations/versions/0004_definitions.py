"""What is known of custom types, so that their views can be made without asking the cluster again.

A revision imports nothing from syncd: it stays what it was when the code moves on.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

JSON = sa.Text().with_variant(JSONB(), "postgresql")


def upgrade() -> None:
    op.create_table(
        "syncd_definitions",
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("uid", sa.Text, nullable=False),
        sa.Column("generation", sa.BigInteger, nullable=False),
        sa.Column("document", JSON, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "name"),
    )


def downgrade() -> None:
    op.drop_table("syncd_definitions")
