"""Notes on charts: what people write at a commit, for everybody to see."""

from __future__ import annotations

from perfci.auth.permissions import AccessRequirement
from perfci.net.api_schemas import PageQuery
from perfci.net.api_schemas.chart_notes import ChartNotePage, ChartNoteShape, NewChartNote
from perfci.service.chart_notes import remove_chart_note, serialize_chart_note, write_chart_note
from perfci.store.chart_notes import list_chart_notes
from perfci_web.api import pagination
from perfci_web.api.operation import PROJECT_RULE, Call, Operation, Reply
from perfci_web.api.problem_details import ProblemError

NOTES_RULE = f"{PROJECT_RULE}/notes"


def list_notes(call: Call) -> Reply:
    query: PageQuery = call.query
    with call.store.read() as tx:
        notes = list_chart_notes(
            tx,
            call.required_project.id,
            after=pagination.parse_cursor(query.cursor),
            limit=query.limit + 1,
        )
    return pagination.build_page_reply(
        ChartNotePage, notes, query.limit, lambda note: note.id, serialize_chart_note
    )


def add_note(call: Call) -> Reply:
    project, new = call.required_project, call.body
    note = call.group_commit.submit(lambda tx: write_chart_note(tx, call.audit_context, project, new))
    return Reply(serialize_chart_note(note), 201)


def remove_note(call: Call) -> Reply:
    project, note_id = call.required_project, call.path["number"]
    if not call.group_commit.submit(lambda tx: remove_chart_note(tx, call.audit_context, project, note_id)):
        raise ProblemError("not-found", "There is no note of this number here.")
    return Reply(None, 204)


OPERATIONS = (
    Operation(
        "list_notes",
        "GET",
        NOTES_RULE,
        AccessRequirement.READ,
        list_notes,
        "Notes on charts, who wrote them and when",
        query=PageQuery,
        answers={200: ChartNotePage},
        etag=True,
    ),
    Operation(
        "add_note",
        "POST",
        NOTES_RULE,
        AccessRequirement.TRIAGE,
        add_note,
        "Note something at a commit, for the charts of one series or of all",
        body=NewChartNote,
        answers={201: ChartNoteShape},
    ),
    Operation(
        "remove_note",
        "DELETE",
        f"{NOTES_RULE}/<number:number>",
        AccessRequirement.TRIAGE,
        remove_note,
        "Remove a note; the audit log keeps what it said",
        answers={204: None},
    ),
)
