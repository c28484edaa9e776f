"""Keep with each result its level, and whether its samples were thinned; with each run when it came, and
from where.
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.add_column("results", sa.Column("level", sa.Double(), nullable=True))
    op.add_column("results", sa.Column("thinned_at", sa.BigInteger(), nullable=True))
    op.add_column("runs", sa.Column("received_at", sa.BigInteger(), nullable=True))
    op.add_column("sessions", sa.Column("source", sa.Text(), nullable=False, server_default=""))


def downgrade() -> None:
    op.drop_column("sessions", "source")
    op.drop_column("runs", "received_at")
    op.drop_column("results", "thinned_at")
    op.drop_column("results", "level")
