"""Keep what was announced of commits of the main branch: what they cost is accepted by itself."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "announcements",
        sa.Column("id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("sha", sa.Text(), nullable=False),
        sa.Column("match", sa.Text(), nullable=False),
        sa.Column("change", sa.Double(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("arrived_at", sa.BigInteger(), nullable=True),
        sa.Column("told_by", sa.Text(), nullable=False),
        sa.Column("told_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_announcements_project_id"),
        sa.PrimaryKeyConstraint("id", name="pk_announcements"),
        sa.UniqueConstraint("project_id", "sha", "match", "change", name="uq_announcements_project_id"),
    )


def downgrade() -> None:
    op.drop_table("announcements")
