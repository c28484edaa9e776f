"""Keep the points of series in blocks, so that pages read no history.

They are derived: those of series that have none yet are read from their results, and stored when the series
is judged next.
"""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "series_points",
        sa.Column("series_id", ID, nullable=False, autoincrement=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("result_id", ID, nullable=False),
        sa.Column("stale", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("judged", sa.Boolean(), nullable=False),
        sa.Column("commits", sa.Integer(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("failing_since", sa.BigInteger(), nullable=True),
        sa.Column("last_commit_id", ID, nullable=False),
        sa.Column("last_status", sa.Text(), nullable=False),
        sa.Column("last_reason", sa.Text(), nullable=False),
        sa.Column("last_value_at", sa.BigInteger(), nullable=True),
        sa.Column("level", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name="fk_series_points_series_id"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_series_points_project_id"),
        sa.ForeignKeyConstraint(["last_commit_id"], ["commits.id"], name="fk_series_points_last_commit_id"),
        sa.PrimaryKeyConstraint("series_id", name="pk_series_points"),
    )
    op.create_index("ix_series_points_project_id", "series_points", ["project_id"])
    op.create_table(
        "point_blocks",
        sa.Column("id", ID, nullable=False),
        sa.Column("series_id", ID, nullable=False),
        sa.Column("block", sa.Integer(), nullable=False),
        sa.Column("levels", sa.LargeBinary(), nullable=False),
        sa.Column("details", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name="fk_point_blocks_series_id"),
        sa.PrimaryKeyConstraint("id", name="pk_point_blocks"),
        sa.UniqueConstraint("series_id", "block", name="uq_point_blocks_series_id"),
    )
    # finds the results of a series that are newer than its stored points
    op.drop_index("ix_results_series_id", "results")
    op.create_index("ix_results_series_id", "results", ["series_id", "id"])


def downgrade() -> None:
    op.drop_index("ix_results_series_id", "results")
    op.create_index("ix_results_series_id", "results", ["series_id"])
    op.drop_table("point_blocks")
    op.drop_table("series_points")
