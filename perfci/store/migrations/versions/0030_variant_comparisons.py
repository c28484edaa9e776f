"""Store comparisons of variants, ablations and goals."""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "variant_comparisons",
        sa.Column("id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("session_id", ID, nullable=False),
        sa.Column("sha", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_variant_comparisons_project_id"),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_variant_comparisons_session_id"),
        sa.PrimaryKeyConstraint("id", name="pk_variant_comparisons"),
    )
    op.create_index("ix_variant_comparisons_session_id", "variant_comparisons", ["session_id"])
    op.create_index("ix_variant_comparisons_commit", "variant_comparisons", ["project_id", "sha"])
    op.create_table(
        "variant_steps",
        sa.Column("id", ID, nullable=False),
        sa.Column("comparison_id", ID, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("is_total", sa.Boolean(), nullable=False),
        sa.Column("benchmark", sa.Text(), nullable=False),
        sa.Column("shared_parameters", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("compared_with", sa.Text(), nullable=False),
        sa.Column("rejection_reason", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["comparison_id"], ["variant_comparisons.id"], name="fk_variant_steps_comparison_id"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_variant_steps"),
        sa.UniqueConstraint("comparison_id", "position", name="uq_variant_steps_comparison_id"),
    )
    _create_verdicts()
    _create_goal_clauses()


def _create_verdicts() -> None:
    op.create_table(
        "variant_verdicts",
        sa.Column("id", ID, nullable=False),
        sa.Column("step_id", ID, nullable=False),
        sa.Column("series_id", ID, nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("base", "head", "kind", "stage")),
        *(
            sa.Column(name, sa.Double(), nullable=True)
            for name in ("ratio", "interval_lo", "interval_hi", "base_level", "head_level")
        ),
        *(sa.Column(name, sa.Double(), nullable=True) for name in ("noise_floor", "mde")),
        sa.Column("pairs", sa.Integer(), nullable=False),
        sa.Column("pairs_to_decide", sa.Integer(), nullable=True),
        sa.Column("p_value", sa.Double(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.Column("tail_kind", sa.Text(), nullable=True),
        *(
            sa.Column(name, sa.Double(), nullable=True)
            for name in ("tail_ratio", "tail_interval_lo", "tail_interval_hi")
        ),
        sa.ForeignKeyConstraint(["step_id"], ["variant_steps.id"], name="fk_variant_verdicts_step_id"),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name="fk_variant_verdicts_series_id"),
        sa.PrimaryKeyConstraint("id", name="pk_variant_verdicts"),
    )
    for column in ("step_id", "series_id"):
        op.create_index(f"ix_variant_verdicts_{column}", "variant_verdicts", [column])


def _create_goal_clauses() -> None:
    op.create_table(
        "goal_clauses",
        sa.Column("id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("session_id", ID, nullable=False),
        sa.Column("series_id", ID, nullable=True),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("base", "head", "goal", "subject")),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("goal_outcome", "goal_reason")),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("clause", "outcome")),
        *(sa.Column(name, sa.Double(), nullable=True) for name in ("estimate", "interval_lo", "interval_hi")),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_goal_clauses_project_id"),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_goal_clauses_session_id"),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name="fk_goal_clauses_series_id"),
        sa.PrimaryKeyConstraint("id", name="pk_goal_clauses"),
    )
    for column in ("session_id", "series_id"):
        op.create_index(f"ix_goal_clauses_{column}", "goal_clauses", [column])
    op.create_index("ix_goal_clauses_commit", "goal_clauses", ["project_id", "head"])


def downgrade() -> None:
    for table in ("goal_clauses", "variant_verdicts", "variant_steps", "variant_comparisons"):
        op.drop_table(table)
