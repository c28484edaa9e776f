"""Keep what GitHub tells of runs of workflows until it is acted upon, and for a while after: it counts
once.
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "run_events",
        sa.Column("id", ID, nullable=False),
        sa.Column("delivery", sa.String(length=64), nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("installation", sa.BigInteger(), nullable=False),
        sa.Column("repository", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("received_at", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("not_before", sa.BigInteger(), nullable=False),
        sa.Column("problem", sa.Text(), nullable=False, server_default=""),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_run_events_project_id"),
        sa.PrimaryKeyConstraint("id", name="pk_run_events"),
        sa.UniqueConstraint("delivery", "project_id", name="uq_run_events_delivery_project_id"),
    )
    op.create_index("ix_run_events_project_id", "run_events", ["project_id"])
    op.create_index("ix_run_events_state", "run_events", ["state", "not_before"])


def downgrade() -> None:
    op.drop_table("run_events")
