"""Routes that write and remove notes on charts: the forms of the pages post here."""

from __future__ import annotations

from flask import Blueprint, g, redirect, request
from pydantic import ValidationError
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response as BaseResponse

from perfci.model import PerfciError
from perfci.net.api_schemas.chart_notes import NewChartNote
from perfci.service.audit_context import AuditContext
from perfci.service.chart_notes import remove_chart_note, write_chart_note
from perfci.store.chart_notes import ChartNote
from perfci.store.projects import find_project
from perfci.store.queries.series_commits_machines import load_series_of_same_cells
from perfci_web.api.problem_details import convert_validation_error
from perfci_web.application_context import current_actor, web_context
from perfci_web.commits.routes import render_commit_page
from perfci_web.url_lookups import build_project_links

blueprint = Blueprint("chart_notes", __name__)

Answer = BaseResponse | tuple[str, int]


@blueprint.post("/<project:project>/notes")
def add_note(project: str) -> Answer:
    """Write a note at a commit, on the chart of a series or on all."""
    form = request.form
    fields = {"commit": form.get("commit", "").strip(), "text": form.get("text", "").strip()}
    context = _build_audit_context()

    def write(tx: Session) -> ChartNote:
        record = find_project(tx, project)
        assert record is not None  # page_access checked it before the view ran
        return write_chart_note(tx, context, record, new)

    try:
        new = NewChartNote.model_validate(fields | {"series": form.get("series") or None})
        note = web_context().group_commit.submit(write)
    except ValidationError as error:
        return render_commit_page(project, fields["commit"], _describe(error)), 409
    except PerfciError as error:
        return render_commit_page(project, fields["commit"], str(error)), 409
    return redirect(_find_page(project, note), 303)


@blueprint.post("/<project:project>/notes/remove")
def remove_note(project: str) -> Answer:
    """Remove a note by its id; the page it was on comes next."""
    number, context = request.form.get("note", ""), _build_audit_context()
    note_id = int(number) if number.isdecimal() and len(number) < 19 else 0

    def write(tx: Session) -> ChartNote | None:
        record = find_project(tx, project)
        assert record is not None  # page_access checked it before the view ran
        return remove_chart_note(tx, context, record, note_id)

    note = web_context().group_commit.submit(write)
    if note is None:
        sha = request.form.get("commit", "")
        return render_commit_page(project, sha, "There is no such note any more."), 409
    return redirect(_find_page(project, note), 303)


def _build_audit_context() -> AuditContext:
    return AuditContext(current_actor(), web_context().clock(), g.request_id)


def _describe(error: ValidationError) -> str:
    return convert_validation_error(error, "This note").detail


def _find_page(project: str, note: ChartNote) -> str:
    """The page that a note is on: that of its series, else that of its commit."""
    if note.series is None:
        return build_project_links(project).commit(note.sha)
    with web_context().store.read() as tx:
        same_cells = load_series_of_same_cells(tx, project, [note.series])
    return build_project_links(project, same_cells).series(note.series)
