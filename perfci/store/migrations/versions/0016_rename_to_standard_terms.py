"""Rename tables, columns, stored words and stored keys into the standard terms; no row is lost."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

TABLES: dict[tuple[str, str], dict[str, str]] = {
    ("announcements", "expected_changes"): {
        "arrived_at": "merged_at",
        "told_by": "recorded_by",
        "told_at": "recorded_at",
    },
    ("quarantined_benchmarks", "muted_benchmarks"): {"released_at": "unmuted_at"},
    ("quarantined_results", "unresolved_results"): {},
    ("expectations", "reporting_schedules"): {},
    ("ledger", "impacts"): {"rel": "relative_change"},
    ("looks", "evaluations"): {"looked_at": "evaluated_at"},
}
"""Old and new name of each table, with its columns that have another name."""

COLUMNS = [
    ("incidents", "say", "disposition"),
    ("incidents", "standing", "ongoing"),
    ("incidents", "cost", "severity"),
    ("incident_events", "what", "action"),
    ("incident_members", "rel", "relative_change"),
    ("change_points", "rel", "relative_change"),
    ("decisions", "known_until", "aa_verdicts_until"),
]

VALUES = [
    ("verdicts", "stage", "conviction", "confirmation"),
    ("processes", "clock", "witness", "informational"),
    ("results", "clock", "witness", "informational"),
    ("outbox", "kind", "look", "evaluate"),
    ("outbox", "subject", "announcements", "expected_changes"),
    ("incident_events", "action", "announced", "expected"),
    ("incident_events", "action", "nudge", "move_boundary"),
]
"""Words in columns: table, column by its new name, old and new word."""

KEYS = {
    ("decisions", "rule"): {"about": "subject"},
    ("incidents", "detail"): {
        "say": "disposition",
        "standing": "ongoing",
        "told": "disposition_text",
        "went_away_with": "recovered_at",
        "convicted": "confirmed_series",
        "settled": "has_sufficient_evidence",
        "suspects": "candidate_commits",
        "measure": "next_measurement",
        "announced": "expected_change",
    },
    ("deliveries", "body"): {"suspects": "candidate_commits"},
}
"""Old and new keys of the JSON objects in a column."""

ROWS_PER_CHUNK = 1000

GUARDS = importlib.import_module("perfci.store.migrations.versions.0002_refuse_to_change_verdicts")
"""Triggers that keep verdicts from being edited; they are absent while their stage is renamed."""


def upgrade() -> None:
    for (old, new), columns in TABLES.items():
        _rename_table(old, new, columns)
    for table, old, new in COLUMNS:
        op.execute(f'ALTER TABLE {table} RENAME COLUMN "{old}" TO "{new}"')
    _replace_values(VALUES)
    for (table, column), keys in KEYS.items():
        _rename_keys(table, column, keys)
    _replace_prefix("unguarded", "unresolved-unit")


def downgrade() -> None:
    _replace_prefix("unresolved-unit", "unguarded")
    for (table, column), keys in KEYS.items():
        _rename_keys(table, column, {new: old for old, new in keys.items()})
    _replace_values((table, column, new, old) for table, column, old, new in VALUES)
    for table, old, new in COLUMNS:
        op.execute(f'ALTER TABLE {table} RENAME COLUMN "{new}" TO "{old}"')
    for (old, new), columns in TABLES.items():
        _rename_table(new, old, {after: before for before, after in columns.items()})


def _replace_values(values: Iterable[tuple[str, str, str, str]]) -> None:
    GUARDS.downgrade()
    for table, column, before, after in values:
        op.execute(f"UPDATE {table} SET {column} = '{after}' WHERE {column} = '{before}'")
    GUARDS.upgrade()


def _replace_prefix(before: str, after: str) -> None:
    """Rename the kind that identities of missing-data incidents begin with."""
    op.execute(
        f"UPDATE incidents SET derived_id = '{after}' || substr(derived_id, {len(before) + 1}) "
        f"WHERE derived_id LIKE '{before}%'"
    )


def _rename_keys(table: str, column: str, keys: dict[str, str]) -> None:
    """Rename the top-level keys of JSON objects, in their order, a chunk of rows at a time."""
    connection = op.get_bind()
    select = sa.text(f"SELECT id, {column} FROM {table} WHERE id > :last ORDER BY id LIMIT {ROWS_PER_CHUNK}")
    update = sa.text(f"UPDATE {table} SET {column} = :value WHERE id = :id")
    last = 0
    while rows := connection.execute(select, {"last": last}).all():
        last = rows[-1].id
        changed = []
        for row_id, text in rows:
            value = json.loads(text)
            renamed = {keys.get(key, key): content for key, content in value.items()}
            if renamed.keys() != value.keys():
                compact = json.dumps(renamed, separators=(",", ":"), ensure_ascii=False)
                changed.append({"id": row_id, "value": compact})
        if changed:
            connection.execute(update, changed)


def _rename_table(old: str, new: str, columns: dict[str, str]) -> None:
    """Build the table anew under its new name, since SQLite can rename no constraint, and move the rows."""
    inspector = sa.inspect(op.get_bind())
    renamed = {
        column["name"]: columns.get(column["name"], column["name"]) for column in inspector.get_columns(old)
    }
    indexes = inspector.get_indexes(old)
    unique = inspector.get_unique_constraints(old)
    foreign = inspector.get_foreign_keys(old)
    op.create_table(
        new,
        *(
            sa.Column("id", ID, nullable=False)
            if column["name"] == "id"
            else sa.Column(
                renamed[column["name"]],
                column["type"],
                nullable=column["nullable"],
                server_default=sa.text(column["default"]) if column["default"] is not None else None,
            )
            for column in inspector.get_columns(old)
        ),
        sa.PrimaryKeyConstraint("id", name=f"pk_{new}"),
        *(
            sa.ForeignKeyConstraint(
                [renamed[name] for name in key["constrained_columns"]],
                [f"{key['referred_table']}.{name}" for name in key["referred_columns"]],
                name=f"fk_{new}_{key['constrained_columns'][0]}",
            )
            for key in foreign
        ),
        *(
            sa.UniqueConstraint(
                *(renamed[name] for name in key["column_names"]), name=f"uq_{new}_{key['column_names'][0]}"
            )
            for key in unique
        ),
    )
    before, after = (", ".join(f'"{name}"' for name in names) for names in (renamed, renamed.values()))
    op.execute(f"INSERT INTO {new} ({after}) SELECT {before} FROM {old} ORDER BY id")
    op.drop_table(old)
    backing = {key["name"] for key in unique}
    for index in indexes:
        if index["name"] not in backing:
            op.create_index(
                str(index["name"]).replace(f"ix_{old}", f"ix_{new}", 1),
                new,
                [renamed[str(name)] for name in index["column_names"]],
            )
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            f"SELECT setval(pg_get_serial_sequence('{new}', 'id'), coalesce(max(id), 1), max(id) IS NOT NULL)"
            f" FROM {new}"
        )
