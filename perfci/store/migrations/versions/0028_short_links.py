"""Add short links of pages."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "short_links",
        sa.Column("id", ID, nullable=False),
        sa.Column("code", sa.String(32), nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_short_links_project_id"),
        sa.PrimaryKeyConstraint("id", name="pk_short_links"),
        sa.UniqueConstraint("code", name="uq_short_links_code"),
    )
    op.create_index("ix_short_links_project_id", "short_links", ["project_id"])


def downgrade() -> None:
    op.drop_table("short_links")
