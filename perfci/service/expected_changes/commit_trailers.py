"""What the messages of commits announce, as git has its trailers."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from perfci.model import Commit
from perfci.service.expected_changes.save_changes import keep
from perfci.store import Store
from perfci.store.projects import project as project_named
from perfci.verdicts.expected_change import announcements
from perfci.verdicts.incidents.expected_change_match import Arrived


def keep_trailers(store: Store, project: str, messages: Iterable[tuple[Commit, str]], now: datetime) -> int:
    """Keep what the messages of commits announce."""
    told = [
        Arrived(commit.sha, one, commit.sha[:10], commit.committed_at)
        for commit, message in messages
        for one in announcements(message)
    ]
    if not told:
        return 0
    with store.begin() as tx:
        known = project_named(tx, project)
        return 0 if known is None else keep(tx, known.id, told, "git", now)
