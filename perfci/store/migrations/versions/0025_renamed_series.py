"""Let the history of a series go on under another name: what was measured and decided moves with it.

A verdict is never edited, but it follows its series where ``series.renamed_to`` says so.
"""

import importlib

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

GUARDS = importlib.import_module("perfci.store.migrations.versions.0002_refuse_to_change_verdicts")
TAILS = importlib.import_module("perfci.store.migrations.versions.0022_tail_verdict_columns")

SAID = (*GUARDS.SAID, *TAILS.TAIL_COLUMNS)
MOVES = "verdicts_follow_their_series"
RENAMED = "EXISTS (SELECT 1 FROM series WHERE id = OLD.series_id AND renamed_to = NEW.series_id)"


def upgrade() -> None:
    op.add_column("series", sa.Column("renamed_to", ID, nullable=True))
    op.create_index("ix_series_renamed_to", "series", ["renamed_to"])
    TAILS._guard(tuple(name for name in SAID if name != "series_id"))
    event = "UPDATE OF series_id ON verdicts"
    if op.get_bind().dialect.name == "sqlite":
        refuse = f"SELECT RAISE(ABORT, '{GUARDS.SENTENCE}')"
        op.execute(f"CREATE TRIGGER {MOVES} BEFORE {event} WHEN NOT {RENAMED} BEGIN {refuse}; END")
        return
    op.execute(
        f"CREATE FUNCTION {MOVES}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"IF {RENAMED} THEN RETURN NEW; END IF; "
        f"RAISE EXCEPTION '{GUARDS.SENTENCE}' USING ERRCODE = 'integrity_constraint_violation'; END $$"
    )
    op.execute(f"CREATE TRIGGER {MOVES} BEFORE {event} FOR EACH ROW EXECUTE FUNCTION {MOVES}()")


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        op.execute(f"DROP TRIGGER {MOVES}")
    else:
        op.execute(f"DROP FUNCTION {MOVES}() CASCADE")
    TAILS._guard(SAID)
    op.drop_index("ix_series_renamed_to", table_name="series")
    op.drop_column("series", "renamed_to")
