"""What was announced of commits that came to the main branch: read for a look, and kept as it arrives."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.orm import Session as Transaction

from perfci.runner.git import Repository
from perfci.store import Store, announced, outbox
from perfci.store.announced import AnnouncementRecord
from perfci.store.projects import project as project_named
from perfci.verdicts.announcing import TRAILER, Announcement, announcements
from perfci.verdicts.arrived import Arrived

MOST_COMMITS = 1000
"""Commits with announcements that are looked back at; a level that is older has long been settled."""


def keep_trailers(store: Store, project: str, repository: Repository, revision: str, now: datetime) -> int:
    """Keep what the messages of the commits that lead to a measured one announce, as git has its trailers."""
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


def arrived_in(tx: Transaction, project: str) -> list[Arrived]:
    return [
        Arrived(one.sha, Announcement(one.match, one.change, one.reason), one.source, one.arrived_at)
        for one in announced.of_project(tx, project)
    ]


def arrive(tx: Transaction, project_id: int, told: Sequence[Arrived], by: str, now: datetime) -> int:
    """Keep what was told and promise a look at the incidents it may be about; answers how many nobody told before."""
    added = keep(tx, project_id, told, by, now)
    if added:
        outbox.add(tx, project_id, "look", "announcements", now)
    return added


def keep(tx: Transaction, project_id: int, told: Sequence[Arrived], by: str, now: datetime) -> int:
    """Keep what was told by whoever may write; answers how many nobody told before."""
    records = [
        AnnouncementRecord(one.sha, said.match, said.change, said.reason, one.source, one.at)
        for one in told
        if (said := one.announcement).counts
    ]
    return announced.add(tx, project_id, records, by, now)
