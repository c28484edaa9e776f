"""Expected changes of commits on the main branch: load and save them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from sqlalchemy.orm import Session as Transaction

from perfci.model import Commit
from perfci.service.audit_context import AuditContext
from perfci.store import Store
from perfci.store.incidents import expected_changes
from perfci.store.incidents.expected_changes import ExpectedChangeRecord
from perfci.store.jobs import outbox
from perfci.store.projects import Project, find_project, mark_changed
from perfci.verdicts.expected_change import ExpectedChange, parse_expected_changes
from perfci.verdicts.incidents.expected_change_match import MergedExpectedChange

AUDIT_ACTION = "expected_change.record"
"""Audit action of saved expected changes."""


def load_merged_expected_changes(tx: Transaction, project: str) -> list[MergedExpectedChange]:
    """Load the expected changes of all commits of a project."""
    return [
        MergedExpectedChange(
            record.sha,
            ExpectedChange(record.match, record.change, record.reason),
            record.source,
            record.merged_at,
        )
        for record in expected_changes.load_expected_changes(tx, project)
    ]


def save_expected_changes(
    tx: Transaction, project: Project, changes: Sequence[MergedExpectedChange], context: AuditContext
) -> int:
    """Save authorized expected changes, audit them and enqueue an evaluation; return how many were new."""
    added = _add_expected_changes(tx, project.id, changes, context.actor.name, context.at)
    if added:
        outbox.add_work(tx, project.id, "evaluate", "expected_changes", context.at)
        authorized = [change for change in changes if change.expected.is_authorized]
        sources = sorted({f"{change.source} at {change.sha[:12]}" for change in authorized})
        context.record(tx, AUDIT_ACTION, ", ".join(sources), project.id, {"expected_changes": added})
        mark_changed(tx, [project.id])
    return added


def save_commit_trailers(
    store: Store, project: str, messages: Iterable[tuple[Commit, str]], now: datetime
) -> int:
    """Save the expected changes declared in trailers of commit messages; return how many were new."""
    changes = [
        MergedExpectedChange(commit.sha, expected, commit.sha[:10], commit.committed_at)
        for commit, message in messages
        for expected in parse_expected_changes(message)
    ]
    if not changes:
        return 0
    with store.begin() as tx:
        record = find_project(tx, project)
        if record is None:
            return 0
        return _add_expected_changes(tx, record.id, changes, "git", now)


def _add_expected_changes(
    tx: Transaction, project_id: int, changes: Sequence[MergedExpectedChange], actor: str, now: datetime
) -> int:
    """Store the expected changes whose author has write access; return how many were new."""
    records = [
        ExpectedChangeRecord(
            change.sha,
            change.expected.match,
            change.expected.change,
            change.expected.reason,
            change.source,
            change.merged_at,
        )
        for change in changes
        if change.expected.is_authorized
    ]
    return expected_changes.add_expected_changes(tx, project_id, records, actor, now)
