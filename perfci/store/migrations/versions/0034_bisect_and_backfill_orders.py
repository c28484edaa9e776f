"""Let an order be a bisect or a backfill: what bounds it, and how far it is in fields."""

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"

TABLE = "measurement_orders"
BOUNDS = ("max_processes", "budget_s", "stride")


def upgrade() -> None:
    op.add_column(TABLE, sa.Column("metric", sa.Text(), nullable=False, server_default=""))
    for name in BOUNDS:
        op.add_column(TABLE, sa.Column(name, sa.Integer(), nullable=True))
    op.add_column(TABLE, sa.Column("detail", sa.Text(), nullable=True))


def downgrade() -> None:
    op.execute(
        f"DELETE FROM order_requests WHERE order_id IN (SELECT id FROM {TABLE} WHERE kind IN "
        "('bisect', 'backfill'))"
    )
    op.execute(f"DELETE FROM {TABLE} WHERE kind IN ('bisect', 'backfill')")
    for name in ("metric", *BOUNDS, "detail"):
        op.drop_column(TABLE, name)
