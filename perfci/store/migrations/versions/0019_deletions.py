"""Let an admin delete a run, a series or a project: verdicts may go while such a deletion is recorded.

The indexes are of columns that refer to rows which are deleted: without one, each deleted row would be looked
for in the whole table.
"""

from __future__ import annotations

import importlib

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

INDEXES = {
    "verdicts": ["session_id", "superseded_by"],
    "deliveries": ["incident_id"],
    "incidents": ["duplicate_of"],
}

GUARDS = importlib.import_module("perfci.store.migrations.versions.0002_refuse_to_change_verdicts")

LOOSENED = {
    "verdicts_are_kept": ("DELETE ON verdicts", "", "OLD"),
    "verdicts_are_superseded_once": (
        "UPDATE OF superseded_by ON verdicts",
        "OLD.superseded_by IS NOT NULL",
        "NEW",
    ),
}
"""Triggers that a recorded deletion of the project lifts: event, condition, and the row that then passes."""

DELETING = "EXISTS (SELECT 1 FROM deletions WHERE project_id = OLD.project_id)"


def upgrade() -> None:
    op.create_table(
        "deletions",
        sa.Column("id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("row_id", ID, nullable=False),
        sa.Column("run_keys", sa.Text(), nullable=False),
        sa.Column("requested_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_deletions_project_id"),
        sa.PrimaryKeyConstraint("id", name="pk_deletions"),
    )
    op.create_index("ix_deletions_project_id", "deletions", ["project_id"])
    for table, columns in INDEXES.items():
        for column in columns:
            op.create_index(f"ix_{table}_{column}", table, [column])
    on_sqlite = op.get_bind().dialect.name == "sqlite"
    for name, (event, condition, passing) in LOOSENED.items():
        if on_sqlite:
            when = " AND ".join(part for part in (condition, f"NOT {DELETING}") if part)
            op.execute(f"DROP TRIGGER {name}")
            op.execute(
                f"CREATE TRIGGER {name} BEFORE {event} WHEN {when} "
                f"BEGIN SELECT RAISE(ABORT, '{GUARDS.SENTENCE}'); END"
            )
        else:
            when = f" WHEN ({condition})" if condition else ""
            op.execute(
                f"CREATE FUNCTION {name}_unless_deleted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                f"IF {DELETING} THEN RETURN {passing}; END IF; "
                f"RAISE EXCEPTION '{GUARDS.SENTENCE}' "
                "USING ERRCODE = 'integrity_constraint_violation'; END $$"
            )
            op.execute(f"DROP TRIGGER {name} ON verdicts")
            op.execute(
                f"CREATE TRIGGER {name} BEFORE {event} FOR EACH ROW{when} "
                f"EXECUTE FUNCTION {name}_unless_deleted()"
            )


def downgrade() -> None:
    GUARDS.downgrade()
    if op.get_bind().dialect.name == "postgresql":
        for name in LOOSENED:
            op.execute(f"DROP FUNCTION {name}_unless_deleted() CASCADE")
    GUARDS.upgrade()
    for table, columns in INDEXES.items():
        for column in columns:
            op.drop_index(f"ix_{table}_{column}", table_name=table)
    op.drop_table("deletions")
