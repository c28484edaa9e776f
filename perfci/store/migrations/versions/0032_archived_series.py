"""Add series that people archived."""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "archived_series",
        sa.Column("id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("series_id", ID, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("archived_by", sa.Text(), nullable=False),
        sa.Column("archived_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_archived_series_project_id"),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name="fk_archived_series_series_id"),
        sa.PrimaryKeyConstraint("id", name="pk_archived_series"),
        sa.UniqueConstraint("series_id", name="uq_archived_series_series_id"),
    )
    op.create_index("ix_archived_series_project_id", "archived_series", ["project_id"])


def downgrade() -> None:
    op.drop_table("archived_series")
