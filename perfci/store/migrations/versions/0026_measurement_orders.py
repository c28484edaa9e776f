"""Add measurement orders and who asked for them.

An open order has a ``dedupe_key``, the hash of its content, which is NULL once it is closed: of two people
who ask for the same at the same moment, the second one joins the order of the first.
"""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "measurement_orders",
        sa.Column("id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("base_sha", sa.Text(), nullable=True),
        sa.Column("head_sha", sa.Text(), nullable=False),
        sa.Column("bench", sa.Text(), nullable=False),
        sa.Column("pairs", sa.Integer(), nullable=True),
        sa.Column("suite", sa.Text(), nullable=False),
        sa.Column("engine", sa.Text(), nullable=False),
        sa.Column("dedupe_key", sa.String(64), nullable=True),
        sa.Column("request_count", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("holder", sa.Text(), nullable=False, server_default=""),
        sa.Column("lease_token", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("lease_ends_at", sa.BigInteger(), nullable=True),
        sa.Column("external_run", sa.Text(), nullable=False, server_default=""),
        sa.Column("external_url", sa.Text(), nullable=False, server_default=""),
        sa.Column("progress", sa.Text(), nullable=False, server_default=""),
        sa.Column("problem", sa.Text(), nullable=False, server_default=""),
        sa.Column("result", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_measurement_orders_project_id"),
        sa.PrimaryKeyConstraint("id", name="pk_measurement_orders"),
        sa.UniqueConstraint("dedupe_key", name="uq_measurement_orders_dedupe_key"),
    )
    op.create_index("ix_measurement_orders_state", "measurement_orders", ["state", "engine", "id"])
    op.create_index("ix_measurement_orders_project", "measurement_orders", ["project_id", "id"])
    op.create_table(
        "order_requests",
        sa.Column("id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("order_id", ID, nullable=False),
        sa.Column("requested_by", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("requested_at", sa.BigInteger(), nullable=False),
        sa.Column("pull_number", sa.Integer(), nullable=True),
        sa.Column("comment_id", sa.BigInteger(), nullable=True),
        sa.Column("incident", sa.Integer(), nullable=True),
        sa.Column("series", sa.Text(), nullable=False, server_default=""),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_order_requests_project_id"),
        sa.ForeignKeyConstraint(["order_id"], ["measurement_orders.id"], name="fk_order_requests_order_id"),
        sa.PrimaryKeyConstraint("id", name="pk_order_requests"),
    )
    for column in ("project_id", "order_id"):
        op.create_index(f"ix_order_requests_{column}", "order_requests", [column])


def downgrade() -> None:
    op.drop_table("order_requests")
    op.drop_table("measurement_orders")
