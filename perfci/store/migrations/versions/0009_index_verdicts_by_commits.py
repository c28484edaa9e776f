"""Find the verdicts between two commits without reading all of the project's."""

from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.create_index("ix_verdicts_between", "verdicts", ["project_id", "base", "head"])
    op.drop_index("ix_verdicts_project_id", table_name="verdicts")


def downgrade() -> None:
    op.create_index("ix_verdicts_project_id", "verdicts", ["project_id"])
    op.drop_index("ix_verdicts_between", table_name="verdicts")
