"""Give each change of a history its p-value, and the noise of the points around it.

A row from before has the p-value that belongs to its interval until its series is measured again.
"""

import math

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"

NORMAL_QUANTILE = 1.959964
"""Half the width of a 95 % interval in standard errors."""

MIN_P_VALUE = 2.0**-52


def upgrade() -> None:
    for name in ("noise", "p_value"):
        op.add_column("change_points", sa.Column(name, sa.Double(), nullable=True))
    connection = op.get_bind()
    columns = 'id, "before", "after", interval_lo, interval_hi'
    rows = connection.execute(
        sa.text(f'SELECT {columns} FROM change_points WHERE interval_lo > 0 AND "before" > 0 AND "after" > 0')
    ).all()
    if rows:
        connection.execute(
            sa.text("UPDATE change_points SET p_value = :p_value WHERE id = :id"),
            [{"id": row.id, "p_value": _p_value(*row[1:])} for row in rows],
        )


def _p_value(before: float, after: float, interval_lo: float, interval_hi: float) -> float:
    """P-value of an interval of the ratio; that of an exact value, without width, is 0."""
    half_width = math.log(interval_hi / interval_lo) / 2
    if not half_width:
        return 0.0
    z = NORMAL_QUANTILE * abs(math.log(after / before)) / half_width
    return max(math.erfc(z / math.sqrt(2)), MIN_P_VALUE)


def downgrade() -> None:
    for name in ("noise", "p_value"):
        op.drop_column("change_points", name)
