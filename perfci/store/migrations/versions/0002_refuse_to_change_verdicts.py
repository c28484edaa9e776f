"""Keep every verdict that was given: the database itself refuses to delete or edit one.

The false-alarm meter counts what was said, so nothing may be unsaid. Only ``superseded_by`` is ever set,
and once.
"""

from alembic import op

revision = "0002"
down_revision = "0001"

SAID = (
    "id",
    "project_id",
    "session_id",
    "series_id",
    "kind",
    "stage",
    "base",
    "head",
    "ratio",
    "interval_lo",
    "interval_hi",
    "base_level",
    "head_level",
    "noise_floor",
    "mde",
    "pairs",
    "pairs_to_decide",
    "p_value",
    "reason",
    "evidence",
    "created_at",
)

TRIGGERS = {
    "verdicts_are_kept": ("DELETE ON verdicts", ""),
    "verdicts_are_not_edited": (f"UPDATE OF {', '.join(SAID)} ON verdicts", ""),
    "verdicts_are_superseded_once": ("UPDATE OF superseded_by ON verdicts", "OLD.superseded_by IS NOT NULL"),
    "sessions_keep_their_kind": ("UPDATE OF kind ON sessions", ""),
}

SENTENCE = "a verdict that was given is never deleted or edited: a new one supersedes it"


def upgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        for name, (event, condition) in TRIGGERS.items():
            when = f" WHEN {condition}" if condition else ""
            op.execute(
                f"CREATE TRIGGER {name} BEFORE {event}{when} BEGIN SELECT RAISE(ABORT, '{SENTENCE}'); END"
            )
        return
    op.execute(
        "CREATE FUNCTION refuse_to_unsay() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"RAISE EXCEPTION '{SENTENCE}' USING ERRCODE = 'integrity_constraint_violation'; END $$"
    )
    for name, (event, condition) in TRIGGERS.items():
        when = f" WHEN ({condition})" if condition else ""
        op.execute(
            f"CREATE TRIGGER {name} BEFORE {event} FOR EACH ROW{when} EXECUTE FUNCTION refuse_to_unsay()"
        )
    op.execute(
        "CREATE TRIGGER verdicts_are_not_emptied BEFORE TRUNCATE ON verdicts "
        "FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_unsay()"
    )


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        for name in TRIGGERS:
            op.execute(f"DROP TRIGGER {name}")
    else:
        op.execute("DROP FUNCTION refuse_to_unsay() CASCADE")
