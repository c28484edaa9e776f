"""Keep the noise between runs of each series beside its points.

Points that are stored have none yet: they are stale, so that readers derive it until the points are stored
again.
"""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    op.add_column("series_points", sa.Column("noise", sa.Double(), nullable=True))
    op.execute("UPDATE series_points SET stale = true")


def downgrade() -> None:
    op.drop_column("series_points", "noise")
