"""Count the new series of a project by day and by pull request, which are limited."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "series_counts",
        sa.Column("id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("counted_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_series_counts_project_id"),
        sa.PrimaryKeyConstraint("id", name="pk_series_counts"),
        sa.UniqueConstraint("project_id", "scope", name="uq_series_counts_project_id"),
    )


def downgrade() -> None:
    op.drop_table("series_counts")
