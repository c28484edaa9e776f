"""Keep profiles, their files and what they explain."""

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

FILES = ("tree", "tables", "trace")


def upgrade() -> None:
    op.create_table(
        "artifacts",
        sa.Column("id", ID, nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_artifacts"),
        sa.UniqueConstraint("hash", name="uq_artifacts_hash"),
    )
    _create_profiles()
    op.create_table(
        "explanations",
        sa.Column("id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        *(
            sa.Column(name, sa.Text(), nullable=False)
            for name in ("base", "head", "cell", "metric", "conclusion", "document")
        ),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_explanations_project_id"),
        sa.PrimaryKeyConstraint("id", name="pk_explanations"),
    )
    op.create_index("ix_explanations_commits", "explanations", ["project_id", "head", "base"])


def _create_profiles() -> None:
    op.create_table(
        "profiles",
        sa.Column("id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("sha", "cell", "setup", "environment")),
        *(sa.Column(name, sa.Double(), nullable=False) for name in ("wall_s", "cpu_s")),
        *(sa.Column(f"{name}_id", ID, nullable=True) for name in FILES),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_profiles_project_id"),
        *(
            sa.ForeignKeyConstraint([f"{name}_id"], ["artifacts.id"], name=f"fk_profiles_{name}_id")
            for name in FILES
        ),
        sa.PrimaryKeyConstraint("id", name="pk_profiles"),
    )
    op.create_index("ix_profiles_commit", "profiles", ["project_id", "sha"])
    for name in FILES:
        op.create_index(f"ix_profiles_{name}_id", "profiles", [f"{name}_id"])
    op.create_table(
        "profile_parts",
        sa.Column("id", ID, nullable=False),
        sa.Column("profile_id", ID, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("calls", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["profile_id"], ["profiles.id"], name="fk_profile_parts_profile_id"),
        sa.PrimaryKeyConstraint("id", name="pk_profile_parts"),
    )
    op.create_index("ix_profile_parts_profile", "profile_parts", ["profile_id", "kind"])


def downgrade() -> None:
    for table in ("explanations", "profile_parts", "profiles", "artifacts"):
        op.drop_table(table)
