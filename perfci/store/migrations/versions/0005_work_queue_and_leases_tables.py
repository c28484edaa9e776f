"""Promise work in the transaction that makes it necessary."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "outbox",
        sa.Column("id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("not_before", sa.BigInteger(), nullable=True),
        sa.Column("problem", sa.Text(), nullable=False, server_default=""),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_outbox_project_id"),
        sa.PrimaryKeyConstraint("id", name="pk_outbox"),
    )
    op.create_index("ix_outbox_kind", "outbox", ["kind", "id"])
    op.create_index("ix_outbox_project", "outbox", ["project_id", "id"])
    op.create_table(
        "leases",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("beat", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_leases"),
    )
    op.create_table(
        "quarantined_results",
        sa.Column("id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("run_id", ID, nullable=False),
        sa.Column("format", sa.Text(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("resolved_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_quarantined_results_project_id"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_quarantined_results_run_id"),
        sa.PrimaryKeyConstraint("id", name="pk_quarantined_results"),
    )
    op.create_index("ix_quarantined_results_project", "quarantined_results", ["project_id", "id"])
    op.create_index("ix_quarantined_results_run_id", "quarantined_results", ["run_id"])


def downgrade() -> None:
    op.drop_table("quarantined_results")
    op.drop_table("leases")
    op.drop_table("outbox")
