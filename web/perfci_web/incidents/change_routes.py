"""Routes that change incidents: the forms of the pages post here.

A job that changes something runs in the writer thread, where there is no request: what it needs of the
request is read before.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from flask import g, redirect, request
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response as BaseResponse

from perfci.model import IncidentState, PerfciError
from perfci.service.audit_context import AuditContext
from perfci.service.incidents.regroup_incidents import (
    compute_shifted_commit_range,
    merge_incidents,
    move_boundary,
    split_off_members,
)
from perfci.service.incidents.triage import (
    BulkResult,
    StaleRevision,
    require_incident,
    undo_last_change,
    update_incident,
    update_incidents,
)
from perfci.store.incidents import incident_store
from perfci.store.projects import Project, find_project
from perfci.store.queries.series_commits_machines import find_series_ids_by_identity
from perfci_web.application_context import current_actor, web_context
from perfci_web.incidents.incident_list_view_model import load_queue
from perfci_web.incidents.parse_change_form import (
    RejectedForm,
    get_edited_form_values,
    parse_change_form,
    parse_revision,
)
from perfci_web.incidents.routes import (
    INCIDENT_PATH,
    LIST_PATH,
    blueprint,
    find_window_end,
    render_incident,
    render_incident_list,
)
from perfci_web.url_lookups import build_project_links

MAX_BULK_CHANGES = 500

TYPED_TEXT_KEPT = "What you typed is kept below: save it again if it still holds."

PageResponse = BaseResponse | tuple[str, int]


@blueprint.post(INCIDENT_PATH)
def change_incident(project: str, number: int) -> PageResponse:
    form, context = request.form.to_dict(), _audit_context()

    def job(tx: Session, record: Project) -> None:
        update_incident(
            tx, record, number, parse_revision(form), parse_change_form(form, context.at), context
        )

    return _submit_change(project, number, job)


@blueprint.post(f"{INCIDENT_PATH}/merge")
def merge_other_incidents(project: str, number: int) -> PageResponse:
    form, context = request.form.to_dict(), _audit_context()

    def job(tx: Session, record: Project) -> None:
        numbers = _parse_incident_numbers(form.get("others", ""))
        others = incident_store.find_incidents_by_number(tx, record.id, numbers)
        if missing := numbers - others.keys():
            raise PerfciError(f"There is no incident {min(missing)} here.")
        revisions = {other.number: other.revision for other in others.values()}
        merge_incidents(tx, record, number, parse_revision(form), revisions, context)

    return _submit_change(project, number, job)


@blueprint.post(f"{INCIDENT_PATH}/split")
def split_incident(project: str, number: int) -> PageResponse:
    form, context, identities = request.form.to_dict(), _audit_context(), request.form.getlist("series")

    def job(tx: Session, record: Project) -> None:
        series_ids = set(find_series_ids_by_identity(tx, identities).values())
        split_off_members(tx, record, number, parse_revision(form), series_ids, context)

    return _submit_change(project, number, job)


@blueprint.post(f"{INCIDENT_PATH}/move-boundary")
def move_incident_boundary(project: str, number: int) -> PageResponse:
    form, context = request.form.to_dict(), _audit_context()

    def job(tx: Session, record: Project) -> None:
        offset = form.get("commit_offset", "").strip()
        if not re.fullmatch(r"[+-]?\d{1,4}", offset):
            raise PerfciError("Give the number of commits to move the boundary by, for example -1.")
        incident = require_incident(tx, record, number)
        last_good, commit = compute_shifted_commit_range(tx, record, incident, int(offset))
        move_boundary(tx, record, number, parse_revision(form), last_good, commit, context)

    return _submit_change(project, number, job)


@blueprint.post(f"{INCIDENT_PATH}/undo")
def undo_last_state_change(project: str, number: int) -> PageResponse:
    form, context = request.form.to_dict(), _audit_context()

    def job(tx: Session, record: Project) -> None:
        undo_last_change(tx, record, number, parse_revision(form), context)

    return _submit_change(project, number, job, is_undo=True)


@blueprint.post(LIST_PATH, endpoint="change_selected")
def change_selected_incidents(project: str) -> PageResponse:
    """Apply one change to the ticked incidents; those that somebody else changed meanwhile are named."""
    form, context = request.form.to_dict(), _audit_context()
    # A ticked box sends NUMBER:REVISION, as the page was loaded; anything else is left out.
    revisions = {}
    for pick in request.form.getlist("pick")[:MAX_BULK_CHANGES]:
        if re.fullmatch(r"\d{1,9}:\d{1,9}", pick):
            number, _, revision = pick.partition(":")
            revisions[int(number)] = int(revision)
    typed = get_edited_form_values(form)
    try:
        update = parse_change_form(form, context.at)
        result: BulkResult = web_context().group_commit.submit(
            lambda tx: update_incidents(tx, _find_project(tx, project), revisions, update, context)
        )
    except PerfciError as error:
        return render_incident_list(project, RejectedForm(str(error), typed, frozenset(revisions))), 409
    if result.stale or result.refused or not result.changed:
        unchanged = frozenset(revisions) - frozenset(result.changed)
        return render_incident_list(project, RejectedForm(_format_bulk_result(result), typed, unchanged)), 409
    # 303: loading the next page again must not send the form again.
    return redirect(build_project_links(project).incidents(), 303)


def _submit_change(
    project: str, number: int, job: Callable[[Session, Project], None], *, is_undo: bool = False
) -> PageResponse:
    """Run a change and go on to the page that its form names; a refused one shows why, with what was typed.

    ``next`` is ``list`` or ``queue``, the next incident that nobody answered; else the incident is shown.
    """
    typed, next_page = get_edited_form_values(request.form), request.form.get("next", "")
    try:
        web_context().group_commit.submit(lambda tx: job(tx, _find_project(tx, project)))
    except PerfciError as error:
        if next_page == "list":
            return render_incident_list(project, RejectedForm(str(error))), 409
        hint = f" {TYPED_TEXT_KEPT}" if isinstance(error, StaleRevision) and typed else ""
        return render_incident(project, number, RejectedForm(f"{error}{hint}", typed)), 409
    links = build_project_links(project)
    query = {"undone" if is_undo else "changed": str(number)}
    if next_page == "list":
        return redirect(links.incidents("", **query), 303)
    if next_page == "queue" and not is_undo:
        following = _find_next_unanswered(project, number)
        address = links.incidents("", **query)
        if following is not None:
            address = links.incident(following, "", **query)
        return redirect(address, 303)
    return redirect(links.incident(number), 303)


def _find_next_unanswered(project: str, number: int) -> int | None:
    """Find the incident after this one in the queue that nobody answered, else the first such."""
    with web_context().store.read() as tx:
        record = _find_project(tx, project)
        queue = load_queue(tx, record, find_window_end(tx, record), keep=number)
    place = next((index for index, entry in enumerate(queue) if entry.record.number == number), 0)
    ordered = [*queue[place + 1 :], *queue[:place]]
    return next((entry.record.number for entry in ordered if entry.record.state is IncidentState.NEW), None)


def _find_project(tx: Session, slug: str) -> Project:
    project = find_project(tx, slug)
    assert project is not None  # page_access checked it before the view ran
    return project


def _audit_context() -> AuditContext:
    return AuditContext(current_actor(), web_context().clock(), g.request_id)


def _parse_incident_numbers(text: str) -> set[int]:
    """Parse ``#12, #14``."""
    words = text.replace("#", " ").replace(",", " ").split()
    if not words or not all(word.isdecimal() and len(word) < 10 for word in words):
        raise PerfciError("Name the other incidents by their numbers, for example 12, 14.")
    return {int(word) for word in words}


def _format_bulk_result(result: BulkResult) -> str:
    if not (result.changed or result.stale or result.refused):
        return "Nothing was chosen."
    parts = [f"{len(result.changed)} changed"]
    if result.stale:
        numbers = ", ".join(f"#{number}" for number in result.stale)
        parts.append(f"somebody else changed {numbers} meanwhile: reload")
    parts += [f"#{number}: {reason}" for number, reason in sorted(result.refused.items())[:5]]
    return "; ".join(parts)
