"""Keep the verdict on the tail of the samples beside that on their median, and guard it alike.

Verdicts from before have none: their ``tail_kind`` is absent, where that of a verdict whose processes have
too few samples for a tail is empty.
"""

import importlib

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"

GUARDS = importlib.import_module("perfci.store.migrations.versions.0002_refuse_to_change_verdicts")

TAIL_COLUMNS = {
    "tail_kind": sa.Text(),
    "tail_ratio": sa.Double(),
    "tail_interval_lo": sa.Double(),
    "tail_interval_hi": sa.Double(),
}

TRIGGER = "verdicts_are_not_edited"


def upgrade() -> None:
    for name, kind in TAIL_COLUMNS.items():
        op.add_column("verdicts", sa.Column(name, kind, nullable=True))
    _guard((*GUARDS.SAID, *TAIL_COLUMNS))


def downgrade() -> None:
    _guard(GUARDS.SAID)
    for name in TAIL_COLUMNS:
        op.drop_column("verdicts", name)


def _guard(columns: tuple[str, ...]) -> None:
    event = f"UPDATE OF {', '.join(columns)} ON verdicts"
    if op.get_bind().dialect.name == "sqlite":
        refuse = f"SELECT RAISE(ABORT, '{GUARDS.SENTENCE}')"
        op.execute(f"DROP TRIGGER {TRIGGER}")
        op.execute(f"CREATE TRIGGER {TRIGGER} BEFORE {event} BEGIN {refuse}; END")
        return
    op.execute(f"DROP TRIGGER {TRIGGER} ON verdicts")
    op.execute(f"CREATE TRIGGER {TRIGGER} BEFORE {event} FOR EACH ROW EXECUTE FUNCTION refuse_to_unsay()")
