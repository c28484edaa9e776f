"""What was announced of commits of the main branch: told by jobs that write a history, and listed."""

from __future__ import annotations

from perfci.auth.grants import announcing_objection
from perfci.auth.permissions import Denied, Need
from perfci.net.shapes import Paged
from perfci.net.shapes.expected_changes import AnnouncementPage, AnnouncementShape, AnnouncementsKept, NewAnnouncements
from perfci.service.audit_context import AuditContext
from perfci.service.expected_changes.save_changes import arrive
from perfci.store.incidents import expected_changes
from perfci.verdicts.expected_change import Announcement
from perfci.verdicts.incidents.expected_change_match import Arrived
from perfci_web.api import pagination
from perfci_web.api.calls import Call, Reply
from perfci_web.api.operation import Operation

RULE = "/projects/<project:project>/announcements"


def list_announcements(call: Call) -> Reply:
    asked: Paged = call.query
    with call.store.read() as tx:
        found = expected_changes.lines(
            tx, call.the_project.id, before=pagination.read(asked.cursor), limit=asked.limit + 1
        )
    items, following = pagination.page(found, asked.limit, lambda one: one.id)
    return Reply(AnnouncementPage(items=tuple(map(_shape, items)), next=following))


def add_announcements(call: Call) -> Reply:
    asked: NewAnnouncements = call.body
    if call.actor.grant is not None and (problem := announcing_objection(call.actor.grant, asked.commit)):
        raise Denied(403, problem)
    told = [
        Arrived(asked.commit, Announcement(one.match, one.change, one.reason), asked.source, asked.arrived_at)
        for one in asked.items
    ]
    act = AuditContext(call.actor, call.now, call.request_id)
    kept = call.group.submit(lambda tx: arrive(tx, call.the_project, told, act))
    return Reply(AnnouncementsKept(kept=kept))


def _shape(line: expected_changes.AnnouncementLine) -> AnnouncementShape:
    one = line.record
    return AnnouncementShape(
        commit=one.sha, match=one.match, change=one.change, reason=one.reason, source=one.source,
        arrived_at=one.arrived_at, told_by=line.told_by, told_at=line.told_at,
    )  # fmt: skip


OPERATIONS = (
    Operation(
        "list_announcements", "GET", RULE, Need.READ, list_announcements,
        "What was announced of commits of the main branch, last told first",
        query=Paged, answers={200: AnnouncementPage}, etag=True,
    ),
    Operation(
        "add_announcements", "POST", RULE, Need.WRITE_RESULTS, add_announcements,
        "Tell what was announced of a commit; told again it stays one",
        body=NewAnnouncements, answers={200: AnnouncementsKept},
    ),
)  # fmt: skip
