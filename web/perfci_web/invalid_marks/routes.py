"""Routes that mark runs and points as invalid, or as valid again: the forms of the pages post here."""

from __future__ import annotations

from flask import Blueprint, g, redirect, request
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response as BaseResponse

from perfci.model import PerfciError
from perfci.service.audit_context import AuditContext
from perfci.service.invalidate_results import MarkTarget, set_mark
from perfci.store.projects import find_project
from perfci.store.queries.paged_lists import find_series_by_identity
from perfci.store.queries.series_commits_machines import load_series_of_same_cells
from perfci_web.application_context import current_actor, web_context
from perfci_web.commits.routes import render_commit_page
from perfci_web.url_lookups import build_project_links, require_project

blueprint = Blueprint("invalid_marks", __name__)


@blueprint.post("/<project:project>/invalid-mark")
def change_mark(project: str) -> BaseResponse | tuple[str, int]:
    """Mark a run by its key, or the point of a series at a commit; ``undo`` takes a mark back."""
    form, context = request.form, AuditContext(current_actor(), web_context().clock(), g.request_id)
    sha, series = form.get("commit", ""), form.get("series", "")
    target = MarkTarget(series=series, sha=sha) if series else MarkTarget(run_key=form.get("run", ""))
    reason = None if form.get("undo") else form.get("reason", "")

    def write(tx: Session) -> None:
        record = find_project(tx, project)
        assert record is not None  # page_access checked it before the view ran
        if not set_mark(tx, context, record, target, reason):
            raise target.build_missing_error(project)

    try:
        web_context().group_commit.submit(write)
    except PerfciError as error:
        return render_commit_page(project, sha, str(error)), 409
    return redirect(_find_page(project, sha, series), 303)


def _find_page(project: str, sha: str, identity: str) -> str:
    """The page of the form: that of the series, else that of the commit."""
    if identity:
        with web_context().store.read() as tx:
            item = find_series_by_identity(tx, require_project(tx, project).id, identity)
            if item is not None:
                same_cells = load_series_of_same_cells(tx, project, [item.series])
                return build_project_links(project, same_cells).series(item.series)
    return build_project_links(project).commit(sha)
