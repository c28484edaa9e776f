"""What the messages of commits announce, as git has its trailers."""

from __future__ import annotations

from datetime import datetime

from perfci.runner.git import Repository
from perfci.service.announced import keep
from perfci.store import Store
from perfci.store.projects import project as project_named
from perfci.verdicts.announcing import TRAILER, announcements
from perfci.verdicts.arrived import Arrived

MOST_COMMITS = 1000
"""Commits with announcements that are looked back at; a level that is older has long been settled."""


def keep_trailers(store: Store, project: str, repository: Repository, revision: str, now: datetime) -> int:
    """Keep what the messages of the commits that lead to a measured one announce, by first parents."""
    found = repository.messages(revision, TRAILER, MOST_COMMITS)
    told = [
        Arrived(commit.sha, one, commit.sha[:10], commit.committed_at)
        for commit, message in found
        for one in announcements(message)
    ]
    if not told:
        return 0
    with store.begin() as tx:
        known = project_named(tx, project)
        return 0 if known is None else keep(tx, known.id, told, "git", now)
