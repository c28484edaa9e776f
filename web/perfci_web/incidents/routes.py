"""Addresses of incidents: the list, one of them, and the forms that change them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from flask import Flask, Response, jsonify, redirect, render_template, request
from sqlalchemy.orm import Session

from perfci.auth.permissions import AccessRequirement, authorize
from perfci.model import PerfciError, Series
from perfci.policies import LoadPolicies
from perfci.report.incidents.incident_serializers import serialize_incident_overview
from perfci.service.audit_context import AuditContext
from perfci.service.incidents.alert_quality import compute_alert_quality
from perfci.service.incidents.derive_incidents import ProjectEvaluation, evaluate_project
from perfci.service.incidents.merge_and_split import merge_incidents, split_members
from perfci.service.incidents.move_boundary import move_boundary, shift_range
from perfci.service.incidents.serialize_incidents import (
    load_incident_detail,
    load_incident_overview,
    serialize_incident_detail,
    serialize_stored_overview,
)
from perfci.service.incidents.triage import (
    BulkResult,
    StaleRevision,
    require_incident,
    update_incident,
    update_incidents,
)
from perfci.service.incidents.undo_change import undo_last_change
from perfci.store import Store, projects
from perfci.store.conversions import series_identity
from perfci.store.incidents import incident_store
from perfci.store.projects import Project
from perfci.store.queries.loaders import load_series_of_same_cells
from perfci.store.writes.row_ids import find_series_ids
from perfci_web.incidents import incident_view
from perfci_web.incidents import list_view as pages
from perfci_web.incidents.list_view import IncidentEntry
from perfci_web.not_found import PageNotFound, Suggestion
from perfci_web.page_access import current_actor
from perfci_web.page_urls import Links
from perfci_web.request_id import request_id

LIST_PATH = "/<project:project>/incidents"
INCIDENT_PATH = f"{LIST_PATH}/<int(max=2147483647):number>"
MAX_BULK_CHANGES = 500


def init_app(app: Flask, store: Store, clock: Callable[[], datetime], load_policies: LoadPolicies) -> None:
    """Bind the pages of incidents to the store; what they change goes through the writer that the API uses too."""
    desk = TriageContext(app, store, clock, load_policies)

    def add_route(rule: str, name: str, view: Callable[..., Any], method: str = "GET") -> None:
        app.add_url_rule(rule, name, partial(view, desk), methods=[method])

    add_route(LIST_PATH, "incidents", incidents_page)
    add_route(f"{LIST_PATH}.json", "incidents.json", incidents_json)
    add_route(LIST_PATH, "incidents.change", change_selected, "POST")
    add_route(INCIDENT_PATH, "incident", incident_page)
    add_route(f"{INCIDENT_PATH}.json", "incident.json", incident_json)
    add_route(INCIDENT_PATH, "incident.change", change_incident, "POST")
    add_route(f"{INCIDENT_PATH}/merge", "incident.merge", merge_other_incidents, "POST")
    add_route(f"{INCIDENT_PATH}/split", "incident.split", split_incident, "POST")
    add_route(f"{INCIDENT_PATH}/nudge", "incident.nudge", move_incident_boundary, "POST")
    add_route(f"{INCIDENT_PATH}/undo", "incident.undo", undo_last_state_change, "POST")


class TriageContext:
    """What every page of incidents needs."""

    def __init__(
        self, app: Flask, store: Store, clock: Callable[[], datetime], load_policies: LoadPolicies
    ) -> None:
        self.store, self.clock = store, clock
        self._standards_of = load_policies
        self._app = app

    def submit(self, job: Callable[[Session], Any]) -> Any:
        return self._app.extensions["perfci_api"].group().submit(job)

    def audit_context(self) -> AuditContext:
        return AuditContext(current_actor(), self.clock(), request_id())

    def load_project(self, tx: Session, slug: str) -> Project:
        found = projects.find_project(tx, slug)
        assert found is not None  # no page of another one is reached
        return found

    def evaluate(self, tx: Session, project_record: Project) -> ProjectEvaluation:
        standards = self._standards_of(project_record)
        return evaluate_project(tx, project_record.slug, standards.policy, standards.history)


@dataclass(frozen=True, slots=True)
class RejectedForm:
    """Why a form was not taken, and what was typed and ticked in it: nobody loses that."""

    message: str
    typed: Mapping[str, str] = field(default_factory=dict)
    selected: frozenset[int] = frozenset()


NOT_REJECTED = RejectedForm("")


def incidents_page(
    context: TriageContext, project: str, refused: RejectedForm = NOT_REJECTED
) -> str | tuple[str, int]:
    with context.store.read() as tx:
        known = context.load_project(tx, project)
        page = _load_list(context, tx, known)
        changed = _load_changed_incident(tx, known)
        shown = {
            change.series for section in page.sections for one in section.entries for change in one.members
        }
        links = _links(project, load_series_of_same_cells(tx, project, shown))
        figures = compute_alert_quality(tx, known, context.clock())
    text = render_template(
        "incidents/incidents.html",
        page=page,
        health=figures,
        links=links,
        may_change=_may_change(known),
        changed=changed,
        refused=refused,
    )
    return (text, 409) if refused.message else text


def incidents_json(context: TriageContext, project: str) -> Response:
    with context.store.read() as tx:
        known = context.load_project(tx, project)
        kept = load_incident_overview(tx, known)
        if kept is not None:
            return jsonify(serialize_stored_overview(kept))
        found = context.evaluate(tx, known)
    fields = serialize_incident_overview(
        project, found.incidents, found.retests, found.creeps, found.commits, found.pages_per_week
    )
    return jsonify(fields)


def incident_page(
    context: TriageContext, project: str, number: int, refused: RejectedForm = NOT_REJECTED
) -> str | tuple[str, int]:
    with context.store.read() as tx:
        known = context.load_project(tx, project)
        _require_incident(tx, known, number)
        found = load_incident_detail(tx, known, number)
        identities = {member.series_id: series_identity(project, series) for member, series in found.members}
        page = incident_view.build_incident_view(project, found, identities)
        links = _links(project, load_series_of_same_cells(tx, project, page.series))
    text = render_template(
        "incidents/incident.html",
        page=page,
        suspects=incident_view.candidate_commits(page),
        is_data=incident_view.is_missing_data(page),
        links=links,
        may_change=_may_change(known),
        refused=refused,
        typed=refused.typed or {"state": request.args.get("state", "")},
    )
    return (text, 409) if refused.message else text


def incident_json(context: TriageContext, project: str, number: int) -> Response:
    with context.store.read() as tx:
        known = context.load_project(tx, project)
        _require_incident(tx, known, number)
        return jsonify(serialize_incident_detail(known, load_incident_detail(tx, known, number)))


def change_incident(context: TriageContext, project: str, number: int) -> Any:
    form, by = (
        request.form.to_dict(),
        context.audit_context(),
    )  # the writer works in a thread that knows no request

    def job(tx: Session, project_record: Project) -> None:
        update_incident(
            tx, project_record, number, _parse_revision(form), incident_view.parse_change(form), by
        )

    return _submit_change(context, project, number, job)


def merge_other_incidents(context: TriageContext, project: str, number: int) -> Any:
    form, by = request.form.to_dict(), context.audit_context()

    def job(tx: Session, project_record: Project) -> None:
        asked = form.get("others", "").replace("#", " ").replace(",", " ").split()
        if not asked or not all(one.isdecimal() and len(one) < 10 for one in asked):
            raise PerfciError("Name the other incidents by their numbers, for example 12, 14.")
        others = incident_store.find_incidents(tx, project_record.id, {int(one) for one in asked})
        if missing := {int(one) for one in asked} - others.keys():
            raise PerfciError(f"There is no incident {min(missing)} here.")
        revisions = {other.number: other.revision for other in others.values()}
        merge_incidents(tx, project_record, number, _parse_revision(form), revisions, by)

    return _submit_change(context, project, number, job)


def split_incident(context: TriageContext, project: str, number: int) -> Any:
    form, by, chosen = request.form.to_dict(), context.audit_context(), request.form.getlist("series")

    def job(tx: Session, project_record: Project) -> None:
        split_members(
            tx, project_record, number, _parse_revision(form), set(find_series_ids(tx, chosen).values()), by
        )

    return _submit_change(context, project, number, job)


def move_incident_boundary(context: TriageContext, project: str, number: int) -> Any:
    form, by = request.form.to_dict(), context.audit_context()

    def job(tx: Session, project_record: Project) -> None:
        steps = form.get("by", "").strip()
        if not steps.lstrip("+-").isdecimal() or len(steps) > 5:
            raise PerfciError("Say by how many commits the edge is to move, for example -1.")
        good, bad = shift_range(tx, project_record, require_incident(tx, project_record, number), int(steps))
        move_boundary(tx, project_record, number, _parse_revision(form), good, bad, by)

    return _submit_change(context, project, number, job)


def undo_last_state_change(context: TriageContext, project: str, number: int) -> Any:
    form, by = request.form.to_dict(), context.audit_context()
    return _submit_change(
        context,
        project,
        number,
        lambda tx, known: undo_last_change(tx, known, number, _parse_revision(form), by),
    )


def change_selected(context: TriageContext, project: str) -> Any:
    """The same change to all that were ticked; what somebody else changed meanwhile is named."""
    form, by = request.form.to_dict(), context.audit_context()
    picked = [one.partition(":") for one in request.form.getlist("pick")[:MAX_BULK_CHANGES]]
    revisions = {int(k): int(v) for k, _, v in picked if (k + v).isdecimal() and len(k) < 10 and len(v) < 10}
    try:
        wanted = incident_view.parse_change(form)
        found: BulkResult = context.submit(
            lambda tx: update_incidents(tx, context.load_project(tx, project), revisions, wanted, by)
        )
    except PerfciError as error:
        return incidents_page(
            context,
            project,
            RejectedForm(str(error), incident_view.changed_form_values(form), frozenset(revisions)),
        )
    if found.stale or found.refused or not found.changed:
        left = frozenset(revisions) - frozenset(found.changed)
        return incidents_page(
            context,
            project,
            RejectedForm(_format_bulk_result(found), incident_view.changed_form_values(form), left),
        )
    return redirect(_links(project).incidents(), 303)


def _format_bulk_result(result: BulkResult) -> str:
    named = ", ".join(f"#{number}" for number in result.stale)
    parts = [f"{len(result.changed)} changed"]
    parts += [f"somebody else changed {named} meanwhile: look again"] if result.stale else []
    parts += [f"#{number}: {why}" for number, why in sorted(result.refused.items())[:5]]
    return "; ".join(parts) if result.changed or result.stale or result.refused else "Nothing was chosen."


def _submit_change(
    context: TriageContext, project: str, number: int, job: Callable[[Session, Project], object]
) -> Any:
    """Back to where the form was; where it could not be done, to the incident with a sentence and what was typed."""
    typed = incident_view.changed_form_values(request.form)
    try:
        context.submit(lambda tx: job(tx, context.load_project(tx, project)))
    except PerfciError as error:
        kept = f" {TYPED_TEXT_KEPT}" if isinstance(error, StaleRevision) and typed else ""
        return incident_page(context, project, number, RejectedForm(f"{error}{kept}", typed))
    links, on_list = _links(project), request.form.get("next") == "list"
    return redirect(links.incidents(changed=number) if on_list else links.incident(number), 303)


TYPED_TEXT_KEPT = "What you typed is kept below: save it again if it still holds."


def _load_changed_incident(tx: Session, project_record: Project) -> tuple[IncidentEntry, str] | None:
    """The incident that was just changed from the list, and what of it could be taken back."""
    number = request.args.get("changed", 0, type=int)
    record = incident_store.find_incident(tx, project_record.id, number) if 0 < number < 2**31 else None
    return (
        (
            IncidentEntry(record),
            incident_view.describe_undo(record, incident_store.load_events(tx, record.id)),
        )
        if record
        else None
    )


def _load_list(context: TriageContext, tx: Session, project_record: Project) -> pages.IncidentListView:
    look = incident_store.load_last_evaluation(tx, project_record.id)
    if look is None:
        return pages.build_preview(context.evaluate(tx, project_record), context.clock())
    return pages.build_incident_list(tx, project_record.slug, project_record.id, look)


def _require_incident(tx: Session, project_record: Project, number: int) -> Any:
    found = incident_store.find_incident(tx, project_record.id, number)
    if found is None:
        newest = incident_store.list_incidents(tx, project_record.id, limit=8)
        links = _links(project_record.slug)
        offers = [Suggestion(f"#{one.number} {one.headline}", links.incident(one.number)) for one in newest]
        raise PageNotFound(
            f"The project {project_record.slug} has no incident {number}.", offers, "Its newest incidents"
        )
    return found


def _parse_revision(form: Mapping[str, str]) -> int:
    text = form.get("revision", "")
    if not text.isdecimal() or len(text) > 9:
        raise PerfciError("The form does not say which revision it was made from: load the page again.")
    return int(text)


def _may_change(project_record: Project) -> bool:
    return authorize(current_actor(), project_record, AccessRequirement.TRIAGE).allowed


def _links(project: str, series: Iterable[Series] = ()) -> Links:
    return Links(project, series, root=request.script_root)
