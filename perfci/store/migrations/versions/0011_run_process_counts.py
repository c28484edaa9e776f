"""Keep with each run of how many processes it is, which took reading every one of them."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

COUNTED = """
UPDATE runs SET processes = counted.number FROM (
    SELECT run_id, COUNT(*) AS number FROM (
        SELECT DISTINCT results.run_id, series.benchmark_id, series.parameters, processes.role,
            processes.pair, processes.round, processes."order", processes."index"
        FROM processes JOIN results ON processes.result_id = results.id
        JOIN series ON results.series_id = series.id
    ) AS one GROUP BY run_id
) AS counted WHERE counted.run_id = runs.id
"""


def upgrade() -> None:
    op.add_column("runs", sa.Column("processes", sa.Integer(), nullable=False, server_default="0"))
    op.execute(COUNTED)


def downgrade() -> None:
    op.drop_column("runs", "processes")
