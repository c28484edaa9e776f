"""Bind a project to a repository whose jobs may upload, and keep the tokens they are given."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "repositories",
        sa.Column("id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("owner_id", sa.BigInteger(), nullable=False),
        sa.Column("slug", sa.Text(), nullable=False),
        sa.Column("workflow", sa.Text(), nullable=False),
        sa.Column("environment", sa.Text(), nullable=False, server_default=""),
        sa.Column("refs", sa.Text(), nullable=False),
        sa.Column("bound_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_repositories_project_id"),
        sa.PrimaryKeyConstraint("id", name="pk_repositories"),
        sa.UniqueConstraint("project_id", name="uq_repositories_project_id"),
    )
    op.create_table(
        "used_tokens",
        sa.Column("id", ID, nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_used_tokens"),
        sa.UniqueConstraint("hash", name="uq_used_tokens_hash"),
    )
    op.create_index("ix_used_tokens_expires_at", "used_tokens", ["expires_at"])
    op.create_table(
        "run_tokens",
        sa.Column("id", ID, nullable=False),
        sa.Column("uid", sa.String(length=12), nullable=False),
        sa.Column("secret_hash", sa.String(length=64), nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("sha", sa.Text(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("pull_request", sa.Integer(), nullable=True),
        sa.Column("baseline", sa.Boolean(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_run_tokens_project_id"),
        sa.PrimaryKeyConstraint("id", name="pk_run_tokens"),
        sa.UniqueConstraint("secret_hash", name="uq_run_tokens_secret_hash"),
        sa.UniqueConstraint("uid", name="uq_run_tokens_uid"),
    )
    op.create_index("ix_run_tokens_expires_at", "run_tokens", ["expires_at"])
    op.create_index("ix_run_tokens_project_id", "run_tokens", ["project_id"])
    op.drop_column("projects", "repository_id")
    op.drop_column("projects", "owner_id")


def downgrade() -> None:
    op.add_column("projects", sa.Column("repository_id", sa.BigInteger(), nullable=True))
    op.add_column("projects", sa.Column("owner_id", sa.BigInteger(), nullable=True))
    op.drop_table("run_tokens")
    op.drop_table("used_tokens")
    op.drop_table("repositories")
