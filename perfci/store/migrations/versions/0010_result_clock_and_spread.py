"""Keep with each result what its level was read from and how far its samples spread; a look works out those
of old.
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.add_column("results", sa.Column("clock", sa.Text(), nullable=True))
    op.add_column("results", sa.Column("spread", sa.Double(), nullable=True))


def downgrade() -> None:
    op.drop_column("results", "spread")
    op.drop_column("results", "clock")
