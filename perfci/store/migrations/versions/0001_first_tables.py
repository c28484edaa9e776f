"""Make the first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "environments",
        sa.Column("id", ID, nullable=False),
        sa.Column("identity", sa.String(length=64), nullable=False),
        sa.Column("observed", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_environments"),
        sa.UniqueConstraint("identity", name="uq_environments_identity"),
    )
    op.create_table(
        "machines",
        sa.Column("id", ID, nullable=False),
        sa.Column("identity", sa.String(length=64), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("cpu", sa.Text(), nullable=False),
        sa.Column("cores", sa.Integer(), nullable=True),
        sa.Column("memory_gb", sa.Integer(), nullable=True),
        sa.Column("accelerator", sa.Text(), nullable=False),
        sa.Column("accelerators", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_machines"),
        sa.UniqueConstraint("identity", name="uq_machines_identity"),
    )
    op.create_table(
        "projects",
        sa.Column("id", ID, nullable=False),
        sa.Column("slug", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_projects"),
        sa.UniqueConstraint("slug", name="uq_projects_slug"),
    )
    op.create_table(
        "variants",
        sa.Column("id", ID, nullable=False),
        sa.Column("identity", sa.String(length=64), nullable=False),
        sa.Column("chosen", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_variants"),
        sa.UniqueConstraint("identity", name="uq_variants_identity"),
    )
    op.create_table(
        "benchmarks",
        sa.Column("id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("code", sa.Text(), nullable=True),
        sa.Column("meta", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_benchmarks_project_id"),
        sa.PrimaryKeyConstraint("id", name="pk_benchmarks"),
        sa.UniqueConstraint("project_id", "name", "version", name="uq_benchmarks_project_id"),
    )
    op.create_table(
        "commits",
        sa.Column("id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("sha", sa.Text(), nullable=False),
        sa.Column("dirty", sa.Boolean(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("committed_at", sa.BigInteger(), nullable=True),
        sa.Column("parents", sa.Text(), nullable=False),
        sa.Column("branch", sa.Text(), nullable=False),
        sa.Column("tags", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_commits_project_id"),
        sa.PrimaryKeyConstraint("id", name="pk_commits"),
        sa.UniqueConstraint("project_id", "sha", "dirty", name="uq_commits_project_id"),
    )
    op.create_table(
        "sessions",
        sa.Column("id", ID, nullable=False),
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("spec_hash", sa.Text(), nullable=False),
        sa.Column("seed", sa.Text(), nullable=False),
        sa.Column("rounds", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_sessions_project_id"),
        sa.PrimaryKeyConstraint("id", name="pk_sessions"),
        sa.UniqueConstraint("uid", name="uq_sessions_uid"),
    )
    op.create_index("ix_sessions_spec", "sessions", ["project_id", "spec_hash"])
    op.create_table(
        "runs",
        sa.Column("id", ID, nullable=False),
        sa.Column("session_id", ID, nullable=False),
        sa.Column("commit_id", ID, nullable=False),
        sa.Column("machine_id", ID, nullable=False),
        sa.Column("environment_id", ID, nullable=False),
        sa.Column("variant_id", ID, nullable=False),
        sa.Column("suite", sa.Text(), nullable=False),
        sa.Column("harness", sa.Text(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("body_hash", sa.Text(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["commit_id"], ["commits.id"], name="fk_runs_commit_id"),
        sa.ForeignKeyConstraint(["environment_id"], ["environments.id"], name="fk_runs_environment_id"),
        sa.ForeignKeyConstraint(["machine_id"], ["machines.id"], name="fk_runs_machine_id"),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_runs_session_id"),
        sa.ForeignKeyConstraint(["variant_id"], ["variants.id"], name="fk_runs_variant_id"),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
        sa.UniqueConstraint("key", name="uq_runs_key"),
    )
    op.create_index("ix_runs_commit_id", "runs", ["commit_id"])
    op.create_index("ix_runs_session_id", "runs", ["session_id"])
    op.create_table(
        "series",
        sa.Column("id", ID, nullable=False),
        sa.Column("identity", sa.String(length=64), nullable=False),
        sa.Column("benchmark_id", ID, nullable=False),
        sa.Column("parameters", sa.Text(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("direction", sa.Text(), nullable=False),
        sa.Column("machine_id", ID, nullable=False),
        sa.Column("variant_id", ID, nullable=False),
        sa.Column("harness", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["benchmark_id"], ["benchmarks.id"], name="fk_series_benchmark_id"),
        sa.ForeignKeyConstraint(["machine_id"], ["machines.id"], name="fk_series_machine_id"),
        sa.ForeignKeyConstraint(["variant_id"], ["variants.id"], name="fk_series_variant_id"),
        sa.PrimaryKeyConstraint("id", name="pk_series"),
        sa.UniqueConstraint("identity", name="uq_series_identity"),
    )
    op.create_index("ix_series_benchmark_id", "series", ["benchmark_id"])
    op.create_table(
        "change_points",
        sa.Column("id", ID, nullable=False),
        sa.Column("series_id", ID, nullable=False),
        sa.Column("commit", sa.Text(), nullable=False),
        sa.Column("last_good", sa.Text(), nullable=False),
        sa.Column("rel", sa.Double(), nullable=False),
        sa.Column("before", sa.Double(), nullable=False),
        sa.Column("after", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name="fk_change_points_series_id"),
        sa.PrimaryKeyConstraint("id", name="pk_change_points"),
    )
    op.create_index("ix_change_points_series_id", "change_points", ["series_id"])
    op.create_table(
        "results",
        sa.Column("id", ID, nullable=False),
        sa.Column("run_id", ID, nullable=False),
        sa.Column("series_id", ID, nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("boundaries", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=True),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("ci_lo", sa.Double(), nullable=True),
        sa.Column("ci_hi", sa.Double(), nullable=True),
        sa.Column("q25", sa.Double(), nullable=True),
        sa.Column("q75", sa.Double(), nullable=True),
        sa.Column("n", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_results_run_id"),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name="fk_results_series_id"),
        sa.PrimaryKeyConstraint("id", name="pk_results"),
        sa.UniqueConstraint("run_id", "series_id", name="uq_results_run_id"),
    )
    op.create_index("ix_results_series_id", "results", ["series_id"])
    op.create_table(
        "verdicts",
        sa.Column("id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("session_id", ID, nullable=False),
        sa.Column("series_id", ID, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("base", sa.Text(), nullable=False),
        sa.Column("head", sa.Text(), nullable=False),
        sa.Column("ratio", sa.Double(), nullable=True),
        sa.Column("interval_lo", sa.Double(), nullable=True),
        sa.Column("interval_hi", sa.Double(), nullable=True),
        sa.Column("base_level", sa.Double(), nullable=True),
        sa.Column("head_level", sa.Double(), nullable=True),
        sa.Column("noise_floor", sa.Double(), nullable=True),
        sa.Column("mde", sa.Double(), nullable=True),
        sa.Column("pairs", sa.Integer(), nullable=False),
        sa.Column("pairs_to_decide", sa.Integer(), nullable=True),
        sa.Column("p_value", sa.Double(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("superseded_by", ID, nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_verdicts_project_id"),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name="fk_verdicts_series_id"),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_verdicts_session_id"),
        sa.ForeignKeyConstraint(["superseded_by"], ["verdicts.id"], name="fk_verdicts_superseded_by"),
        sa.PrimaryKeyConstraint("id", name="pk_verdicts"),
    )
    op.create_index("ix_verdicts_project_id", "verdicts", ["project_id"])
    op.create_index("ix_verdicts_question", "verdicts", ["series_id", "base", "head"])
    op.create_table(
        "processes",
        sa.Column("id", ID, nullable=False),
        sa.Column("result_id", ID, nullable=False),
        sa.Column("index", sa.Integer(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("clock", sa.Text(), nullable=False),
        sa.Column("pair", sa.Integer(), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("order", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("duration_s", sa.Double(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("stderr_tail", sa.Text(), nullable=False),
        sa.Column("flags", sa.Text(), nullable=False),
        sa.Column("samples", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["result_id"], ["results.id"], name="fk_processes_result_id"),
        sa.PrimaryKeyConstraint("id", name="pk_processes"),
        sa.UniqueConstraint(
            "result_id", "role", "pair", "round", "order", "index", name="uq_processes_result_id"
        ),
    )


def downgrade() -> None:
    op.drop_table("processes")
    op.drop_table("verdicts")
    op.drop_table("results")
    op.drop_table("change_points")
    op.drop_table("series")
    op.drop_table("runs")
    op.drop_table("sessions")
    op.drop_table("commits")
    op.drop_table("benchmarks")
    op.drop_table("variants")
    op.drop_table("projects")
    op.drop_table("machines")
    op.drop_table("environments")
