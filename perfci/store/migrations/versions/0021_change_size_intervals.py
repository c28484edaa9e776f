"""Give each change the 95 % interval of its size, and levels that its size is the ratio of.

The levels of older rows were those of whole segments: their ratio was another number than the size beside
them. The size is what people were told, so the level after the change follows it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"

TABLES_OF_CHANGES = ("change_points", "incident_members", "impacts")

ROUNDING = "1e-9"


def upgrade() -> None:
    for table in TABLES_OF_CHANGES:
        for name in ("interval_lo", "interval_hi"):
            op.add_column(table, sa.Column(name, sa.Double(), nullable=True))
        op.execute(
            f'UPDATE {table} SET "after" = "before" * (1 + relative_change) WHERE "before" > 0'
            f' AND abs("after" - "before" * (1 + relative_change)) > {ROUNDING} * "before"'
        )


def downgrade() -> None:
    for table in TABLES_OF_CHANGES:
        for name in ("interval_lo", "interval_hi"):
            op.drop_column(table, name)
