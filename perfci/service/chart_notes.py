"""Write and remove notes on charts: audited, and by whom is shown."""

from __future__ import annotations

from sqlalchemy.orm import Session as Transaction

from perfci.model import PerfciError
from perfci.net.api_schemas.chart_notes import ChartNoteShape, NewChartNote
from perfci.service.audit_context import AuditContext
from perfci.store.chart_notes import ChartNote, add_chart_note, delete_chart_note, find_chart_note
from perfci.store.projects import Project, mark_projects_changed
from perfci.store.queries.paged_lists import find_series_by_identity
from perfci.store.queries.series_commits_machines import find_commit


def write_chart_note(
    tx: Transaction, context: AuditContext, project: Project, note: NewChartNote
) -> ChartNote:
    """Store a note; raise where the project has no such commit or series."""
    commit = find_commit(tx, project.slug, note.commit)
    if commit is None:
        raise PerfciError(f"{project.slug} has no commit that starts with {note.commit}; nothing was noted.")
    series_id = None
    if note.series is not None:
        item = find_series_by_identity(tx, project.id, note.series)
        if item is None:
            raise PerfciError(f"{project.slug} has no series {note.series[:12]}; nothing was noted.")
        series_id = item.id
    note_id = add_chart_note(
        tx, project.id, commit.sha, series_id, note.text, author=context.actor.name, at=context.at
    )
    context.add_audit_entry(tx, "note.add", str(note_id), project.id, {"commit": commit.sha})
    mark_projects_changed(tx, [project.id])
    stored = find_chart_note(tx, project.id, note_id)
    assert stored is not None
    return stored


def remove_chart_note(
    tx: Transaction, context: AuditContext, project: Project, note_id: int
) -> ChartNote | None:
    """Remove a note; return it, or None where there is none of this id. The audit log keeps its text."""
    note = delete_chart_note(tx, project.id, note_id)
    if note is not None:
        detail = {"commit": note.sha, "text": note.text, "author": note.author}
        context.add_audit_entry(tx, "note.remove", str(note_id), project.id, detail)
        mark_projects_changed(tx, [project.id])
    return note


def serialize_chart_note(note: ChartNote) -> ChartNoteShape:
    """Serialize a note as the API shows it."""
    return ChartNoteShape(
        id=note.id,
        commit=note.sha,
        series=note.series_identity,
        text=note.text,
        author=note.author,
        created_at=note.created_at,
    )
