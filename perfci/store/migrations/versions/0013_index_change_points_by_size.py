"""Find the largest changes of a project without reading the rows of all of them."""

from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.create_index("ix_change_points_sizes", "change_points", ["series_id", "rel"])
    op.drop_index("ix_change_points_series_id", table_name="change_points")


def downgrade() -> None:
    op.create_index("ix_change_points_series_id", "change_points", ["series_id"])
    op.drop_index("ix_change_points_sizes", table_name="change_points")
