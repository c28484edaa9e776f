"""Let runs and points be marked invalid: they are kept and shown, and left out of judging.

``runs.invalid``, ``results.invalid`` and ``verdicts.invalid`` follow from the marks, so that no query over
results has to look for them.
"""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

MARKED_TABLES = ("runs", "results", "verdicts")


def upgrade() -> None:
    op.create_table(
        "invalid_marks",
        sa.Column("id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("run_id", ID, nullable=False),
        sa.Column("series_id", ID, nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("marked_by", sa.Text(), nullable=False),
        sa.Column("marked_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_invalid_marks_project_id"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_invalid_marks_run_id"),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name="fk_invalid_marks_series_id"),
        sa.PrimaryKeyConstraint("id", name="pk_invalid_marks"),
    )
    for column in ("project_id", "run_id", "series_id"):
        op.create_index(f"ix_invalid_marks_{column}", "invalid_marks", [column])
    for table in MARKED_TABLES:
        op.add_column(table, sa.Column("invalid", sa.Boolean(), nullable=False, server_default=sa.false()))


def downgrade() -> None:
    for table in MARKED_TABLES:
        op.drop_column(table, "invalid")
    op.drop_table("invalid_marks")
