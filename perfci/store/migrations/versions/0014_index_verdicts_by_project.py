"""Find the newest verdicts of a project without sorting all of them."""

from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.create_index("ix_verdicts_project_id", "verdicts", ["project_id"])
    op.drop_index("ix_verdicts_between", table_name="verdicts")
    op.create_index("ix_verdicts_between", "verdicts", ["base", "head"])


def downgrade() -> None:
    op.drop_index("ix_verdicts_between", table_name="verdicts")
    op.create_index("ix_verdicts_between", "verdicts", ["project_id", "base", "head"])
    op.drop_index("ix_verdicts_project_id", table_name="verdicts")
