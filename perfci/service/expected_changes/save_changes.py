"""What was announced of commits that came to the main branch: read for a look, and kept as it arrives."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.orm import Session as Transaction

from perfci.service.audit_context import AuditContext
from perfci.store.incidents import expected_changes
from perfci.store.incidents.expected_changes import ExpectedChangeRecord
from perfci.store.jobs import outbox
from perfci.store.projects import Project, mark_changed
from perfci.verdicts.expected_change import ExpectedChange
from perfci.verdicts.incidents.expected_change_match import MergedExpectedChange


def load_expected_changes(tx: Transaction, project: str) -> list[MergedExpectedChange]:
    return [
        MergedExpectedChange(
            record.sha,
            ExpectedChange(record.match, record.change, record.reason),
            record.source,
            record.merged_at,
        )
        for record in expected_changes.load_expected_changes(tx, project)
    ]


AUDIT_ACTION = "announcement.tell"
"""What the audit log calls it."""


def save_expected_changes(
    tx: Transaction, project: Project, expected_changes: Sequence[MergedExpectedChange], context: AuditContext
) -> int:
    """Keep what was told and promise a look at the incidents it may be about; answers how many nobody told before."""
    added = add_expected_changes(tx, project.id, expected_changes, context.actor.name, context.at)
    if added:
        outbox.add_work(tx, project.id, "evaluate", "expected_changes", context.at)
        sources = sorted(
            {
                f"{change.source} at {change.sha[:12]}"
                for change in expected_changes
                if change.expected.is_authorized
            }
        )
        context.record(tx, AUDIT_ACTION, ", ".join(sources), project.id, {"announcements": added})
        mark_changed(tx, [project.id])
    return added


def add_expected_changes(
    tx: Transaction, project_id: int, changes: Sequence[MergedExpectedChange], actor: str, now: datetime
) -> int:
    """Keep what was told by whoever may write; answers how many nobody told before."""
    records = [
        ExpectedChangeRecord(
            change.sha, expected.match, expected.change, expected.reason, change.source, change.merged_at
        )
        for change in changes
        if (expected := change.expected).is_authorized
    ]
    return expected_changes.add_expected_changes(tx, project_id, records, actor, now)
