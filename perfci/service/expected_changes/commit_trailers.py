"""What the messages of commits announce, as git has its trailers."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from perfci.model import Commit
from perfci.service.expected_changes.save_changes import add_expected_changes
from perfci.store import Store
from perfci.store.projects import find_project as project_named
from perfci.verdicts.expected_change import parse_expected_changes
from perfci.verdicts.incidents.expected_change_match import MergedExpectedChange


def save_commit_trailers(
    store: Store, project: str, messages: Iterable[tuple[Commit, str]], now: datetime
) -> int:
    """Keep what the messages of commits announce."""
    changes = [
        MergedExpectedChange(commit.sha, change, commit.sha[:10], commit.committed_at)
        for commit, message in messages
        for change in parse_expected_changes(message)
    ]
    if not changes:
        return 0
    with store.begin() as tx:
        project_record = project_named(tx, project)
        return (
            0 if project_record is None else add_expected_changes(tx, project_record.id, changes, "git", now)
        )
