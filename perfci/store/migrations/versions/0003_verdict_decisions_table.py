"""Remember how each verdict was reached."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "decisions",
        sa.Column("id", ID, nullable=False),
        sa.Column("verdict_id", ID, nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("known_until", sa.BigInteger(), nullable=False),
        sa.Column("rate", sa.Double(), nullable=True),
        sa.Column("looks", sa.Text(), nullable=False),
        sa.Column("made_by", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["verdict_id"], ["verdicts.id"], name="fk_decisions_verdict_id"),
        sa.PrimaryKeyConstraint("id", name="pk_decisions"),
        sa.UniqueConstraint("verdict_id", name="uq_decisions_verdict_id"),
    )


def downgrade() -> None:
    op.drop_table("decisions")
