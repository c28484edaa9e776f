"""What was announced of commits that came to the main branch: read for a look, and kept as it arrives."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.orm import Session as Transaction

from perfci.service.audit_context import AuditContext
from perfci.store.incidents import expected_changes
from perfci.store.incidents.expected_changes import AnnouncementRecord
from perfci.store.jobs import outbox
from perfci.store.projects import Project, touch
from perfci.verdicts.expected_change import Announcement
from perfci.verdicts.incidents.expected_change_match import Arrived


def arrived_in(tx: Transaction, project: str) -> list[Arrived]:
    return [
        Arrived(one.sha, Announcement(one.match, one.change, one.reason), one.source, one.arrived_at)
        for one in expected_changes.of_project(tx, project)
    ]


TOLD = "announcement.tell"
"""What the audit log calls it."""


def arrive(tx: Transaction, project: Project, told: Sequence[Arrived], act: AuditContext) -> int:
    """Keep what was told and promise a look at the incidents it may be about; answers how many nobody told before."""
    added = keep(tx, project.id, told, act.actor.name, act.at)
    if added:
        outbox.add(tx, project.id, "look", "announcements", act.at)
        sources = sorted({f"{one.source} at {one.sha[:12]}" for one in told if one.announcement.counts})
        act.record(tx, TOLD, ", ".join(sources), project.id, {"announcements": added})
        touch(tx, [project.id])
    return added


def keep(tx: Transaction, project_id: int, told: Sequence[Arrived], by: str, now: datetime) -> int:
    """Keep what was told by whoever may write; answers how many nobody told before."""
    records = [
        AnnouncementRecord(one.sha, said.match, said.change, said.reason, one.source, one.at)
        for one in told
        if (said := one.announcement).counts
    ]
    return expected_changes.add(tx, project_id, records, by, now)
