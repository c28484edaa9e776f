"""Keep how the numerics of each variant compared with the baseline."""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"


def upgrade() -> None:
    op.add_column("variant_steps", sa.Column("numerics", sa.Text(), nullable=False, server_default="[]"))


def downgrade() -> None:
    op.drop_column("variant_steps", "numerics")
