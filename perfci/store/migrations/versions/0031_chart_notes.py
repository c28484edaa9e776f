"""Add notes on charts."""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "chart_notes",
        sa.Column("id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("series_id", ID, nullable=True),
        sa.Column("sha", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_chart_notes_project_id"),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name="fk_chart_notes_series_id"),
        sa.PrimaryKeyConstraint("id", name="pk_chart_notes"),
    )
    op.create_index("ix_chart_notes_commit", "chart_notes", ["project_id", "sha"])
    op.create_index("ix_chart_notes_series_id", "chart_notes", ["series_id"])


def downgrade() -> None:
    op.drop_table("chart_notes")
