"""Mark the sessions of pull requests, whose verdicts say nothing about the main branch.

Until now they were of kind ``compare``. A session is one of a pull request if a run of it names such an
event, or comes from a job whose token was no good for a history, which the audit log says. A/A sessions keep
their kind: verdicts that were given are recomputed from the noise that they showed.
"""

from __future__ import annotations

import importlib
import json
from collections import defaultdict

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"

ROWS_PER_CHUNK = 1000

GUARDS = importlib.import_module("perfci.store.migrations.versions.0002_refuse_to_change_verdicts")
"""Triggers that keep the kinds of sessions and the order of verdicts; they are absent while both are set."""


def upgrade() -> None:
    GUARDS.downgrade()
    sessions = _find_pull_request_sessions()
    _set_kind(sessions, "pull_request")
    _reorder_verdicts()
    GUARDS.upgrade()


def downgrade() -> None:
    GUARDS.downgrade()
    op.execute("UPDATE sessions SET kind = 'compare' WHERE kind = 'pull_request'")
    GUARDS.upgrade()


def _find_pull_request_sessions() -> list[int]:
    untrusted_jobs = _find_jobs_without_history()
    runs = sa.text(
        "SELECT sessions.id, sessions.project_id, runs.origin FROM sessions "
        "JOIN runs ON runs.session_id = sessions.id WHERE sessions.kind = 'compare'"
    )
    sessions = set()
    for session_id, project_id, text in op.get_bind().execute(runs):
        origin = dict(json.loads(text))
        is_of_pull = origin.get("event", "").startswith("pull_request")
        if is_of_pull or (project_id, origin.get("run_id")) in untrusted_jobs:
            sessions.add(session_id)
    return sorted(sessions)


def _find_jobs_without_history() -> set[tuple[int, str]]:
    """Find the (project, run of a workflow) that got tokens for comparisons only."""
    entries = sa.text("SELECT project_id, detail FROM audit WHERE action = 'job.admit'")
    jobs = set()
    for project_id, text in op.get_bind().execute(entries):
        detail = json.loads(text)
        if detail.get("baseline") is False:
            jobs.add((project_id, detail.get("run_id")))
    return jobs


def _set_kind(sessions: list[int], kind: str) -> None:
    update = sa.text("UPDATE sessions SET kind = :kind WHERE id = :id")
    for start in range(0, len(sessions), ROWS_PER_CHUNK):
        rows = [{"kind": kind, "id": row_id} for row_id in sessions[start : start + ROWS_PER_CHUNK]]
        op.get_bind().execute(update, rows)


def _reorder_verdicts() -> None:
    """Make current again what only pull requests superseded, and let it supersede theirs."""
    connection = op.get_bind()
    mixed = sa.text(
        "SELECT verdicts.id, verdicts.series_id, verdicts.base, verdicts.head, sessions.kind FROM verdicts "
        "JOIN sessions ON verdicts.session_id = sessions.id WHERE EXISTS (SELECT 1 FROM verdicts AS other "
        "JOIN sessions AS session ON other.session_id = session.id WHERE session.kind = 'pull_request' "
        "AND other.series_id = verdicts.series_id AND other.base = verdicts.base "
        "AND other.head = verdicts.head) ORDER BY verdicts.id"
    )
    questions: dict[tuple[int, str, str], list[tuple[int, bool]]] = defaultdict(list)
    for row_id, *question, kind in connection.execute(mixed):
        questions[tuple(question)].append((row_id, kind == "pull_request"))
    update = sa.text("UPDATE verdicts SET superseded_by = :later WHERE id = :id")
    rows: list[dict[str, int | None]] = []
    for verdicts in questions.values():
        others = [row_id for row_id, is_of_pull in verdicts if not is_of_pull]
        if others:
            rows += [{"id": row_id, "later": others[-1]} for row_id, is_of_pull in verdicts if is_of_pull]
            following = [*others[1:], None]
            rows += [{"id": row_id, "later": later} for row_id, later in zip(others, following, strict=True)]
    if rows:
        connection.execute(update, rows)
