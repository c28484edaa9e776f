"""Routes that show incidents: the list and one of them, as page, JSON and CSV."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from flask import Blueprint, Response, jsonify, render_template, request
from sqlalchemy.orm import Session

from perfci.model import Series
from perfci.net.url_segments import encode_segment
from perfci.number_format import format_count
from perfci.report.escaping import make_printable
from perfci.report.incidents.cause_evidence import (
    CauseInputs,
    build_cause_evidence,
    serialize_cause_evidence,
)
from perfci.report.incidents.notification_text import STATE_LABELS
from perfci.report.serializers import serialize_derived_incident_overview
from perfci.report.series_places import SeriesPlaces
from perfci.report.series_trend import Trend
from perfci.service.incidents.alert_quality import compute_alert_quality
from perfci.service.incidents.evaluate_project import ProjectEvaluation, evaluate_project
from perfci.service.incidents.load_incidents import (
    IncidentDetail,
    load_incident_detail,
    load_incidents_with_evaluation,
)
from perfci.service.incidents.serialize_incidents import (
    serialize_incident_detail,
    serialize_stored_incident_overview,
)
from perfci.store.column_conversions import series_identity
from perfci.store.incidents import incident_store
from perfci.store.incidents.incident_lists import list_incidents
from perfci.store.incidents.incident_records import DATA_KIND, IncidentRecord
from perfci.store.projects import Project
from perfci.store.queries.project_counts import find_last_result_time
from perfci.store.queries.series_commits_machines import load_commits_by_sha, load_series_of_same_cells
from perfci_web.application_context import may_triage, web_context
from perfci_web.incidents import incident_list_view_model, incident_view_model
from perfci_web.incidents.explanation_view import build_explain_command, build_explanation_views
from perfci_web.incidents.incident_list_view_model import IncidentEntry
from perfci_web.incidents.parse_change_form import NOT_REJECTED, RejectedForm
from perfci_web.incidents.range_orders import load_range_orders
from perfci_web.lens import Lens, build_time_window, current_lens
from perfci_web.load_series_trends import load_series_trends, show_commits_around
from perfci_web.series.cause_evidence import count_reruns, load_cause_inputs
from perfci_web.url_lookups import PageNotFound, Suggestion, build_project_links, require_project
from perfci_web.view_parts.atom_feed import FeedEntry, build_atom_response
from perfci_web.view_parts.csv_response import SERIES_COLUMNS, build_csv_response, flatten_series_fields

blueprint = Blueprint("incidents", __name__)

MAX_IN_FEED = 50

LIST_COLUMNS = (
    "number",
    "id",
    "kind",
    "state",
    "sentence",
    "series_count",
    "severity",
    "disposition",
    "assignee",
    "reason",
    "last_good",
    "commit",
    "culprit_sha",
    "fix_sha",
    "first_seen",
    "changed_at",
    "due_at",
    "issue_url",
)
MEMBER_COLUMNS = (
    "id",
    *SERIES_COLUMNS,
    "last_good",
    "commit",
    "before",
    "after",
    "relative_change",
    "ci_lo",
    "ci_hi",
    "added_by",
)

LIST_PATH = "/<project:project>/incidents"
# A number that PostgreSQL's integer cannot hold is no page, rather than an error of the database.
INCIDENT_PATH = f"{LIST_PATH}/<int(max=2147483647):number>"


@blueprint.get(LIST_PATH)
def incidents_page(project: str) -> str:
    return render_incident_list(project, NOT_REJECTED)


def render_incident_list(project: str, rejected: RejectedForm) -> str:
    """Render the list; ``rejected`` is the form of it that was sent and not accepted."""
    context = web_context()
    with context.store.read() as tx:
        record = require_project(tx, project)
        evaluation = incident_store.find_last_evaluation(tx, record.id)
        if evaluation is None:
            # A project that was never evaluated is evaluated here, and nothing is stored.
            page = incident_list_view_model.build_list_from_evaluation(_evaluate(tx, record), context.clock())
        else:
            page = incident_list_view_model.build_incident_list(
                tx, record, evaluation, confirmed_only=current_lens().confirmed_only
            )
        changed_entry = _load_changed_incident(tx, record)
        series = {
            change.series
            for section in page.sections
            for entry in section.entries
            for change in entry.members
        }
        links = build_project_links(project, load_series_of_same_cells(tx, project, series))
        alert_quality = compute_alert_quality(tx, record, context.clock())
        until = find_window_end(tx, record)
    return render_template(
        "incidents/incidents.html",
        page=page,
        alert_quality=alert_quality,
        group_by_age=lambda entries: incident_list_view_model.group_entries_by_age(entries, until),
        links=links,
        lens=current_lens(),
        places=SeriesPlaces(series),
        may_change=may_triage(record),
        changed_entry=changed_entry,
        rejected=rejected,
    )


@blueprint.get(f"{LIST_PATH}.json")
def incidents_json(project: str) -> Response:
    return jsonify(_load_serialized_incidents(project))


@blueprint.get(f"{LIST_PATH}.csv")
def incidents_csv(project: str) -> Response:
    """Every incident, one a line; one that is not stored has neither number nor state."""
    incidents = _load_serialized_incidents(project)["incidents"]
    rows = [dict.fromkeys(LIST_COLUMNS) | fields for fields in incidents]
    return build_csv_response(LIST_COLUMNS, rows, f"{encode_segment(project)}-incidents.csv")


@blueprint.get(INCIDENT_PATH)
def incident_page(project: str, number: int) -> str:
    return render_incident(project, number, NOT_REJECTED)


def render_incident(project: str, number: int, rejected: RejectedForm) -> str:
    """Render an incident; ``rejected`` is the form of it that was sent and not accepted."""
    with web_context().store.read() as tx:
        record = require_project(tx, project)
        _require_incident(tx, record, number)
        incident = load_incident_detail(tx, record, number)
        identities = {
            member.series_id: series_identity(project, series) for member, series in incident.members
        }
        trends = _load_trends(tx, record, incident)
        page = incident_view_model.build_incident_view(project, incident, identities, trends)
        cause = _load_cause_inputs(tx, record, incident, trends)
        queue = incident_list_view_model.load_queue(tx, record, find_window_end(tx, record), keep=number)
        changed_entry = _load_changed_incident(tx, record)
        range_orders = load_range_orders(tx, record, number)
        named = [sha for order in range_orders for sha in order.named_commits]
        ends = load_commits_by_sha(tx, project, [incident.record.last_good, incident.record.commit, *named])
        links = build_project_links(project, load_series_of_same_cells(tx, project, page.series))
    return render_template(
        "incidents/incident.html",
        page=page,
        candidates=incident_view_model.list_candidate_commits(page),
        explanations=build_explanation_views(incident.explanations),
        explain_command=build_explain_command(page),
        bisect_command=incident_view_model.build_bisect_command(page),
        ends=ends,
        range_orders=range_orders,
        queue=incident_view_model.find_queue_place(queue, number),
        changed_entry=changed_entry,
        main=page.find_main_row(request.args.get(incident_view_model.SERIES_KEY, "")),
        cause=build_cause_evidence(cause) if cause else None,
        max_rows=incident_view_model.MAX_ROWS_UNFOLDED,
        is_missing_data_incident=incident_view_model.is_missing_data_incident(page),
        links=links,
        places=SeriesPlaces(page.series),
        may_change=may_triage(record),
        rejected=rejected,
        typed=rejected.typed or {"state": request.args.get("state", "")},
    )


@blueprint.get(f"{INCIDENT_PATH}.json")
def incident_json(project: str, number: int) -> Response:
    with web_context().store.read() as tx:
        record = require_project(tx, project)
        _require_incident(tx, record, number)
        incident = load_incident_detail(tx, record, number)
        cause = _load_cause_inputs(tx, record, incident, _load_trends(tx, record, incident))
        orders = [row.order.model_dump(mode="json") for row in load_range_orders(tx, record, number)]
    evidence = serialize_cause_evidence(cause) if cause else None
    return jsonify(serialize_incident_detail(record, incident) | {"evidence": evidence, "orders": orders})


@blueprint.get(f"{INCIDENT_PATH}.csv")
def incident_csv(project: str, number: int) -> Response:
    """The series of an incident, one a line."""
    with web_context().store.read() as tx:
        record = require_project(tx, project)
        _require_incident(tx, record, number)
        members = serialize_incident_detail(record, load_incident_detail(tx, record, number))["members"]
    rows = []
    for member in members:
        lo, hi = member["relative_change_interval"] or (None, None)
        rows.append(member | flatten_series_fields(member["series"]) | {"ci_lo": lo, "ci_hi": hi})
    return build_csv_response(MEMBER_COLUMNS, rows, f"{encode_segment(project)}-incident-{number}.csv")


@blueprint.get(f"{LIST_PATH}.atom")
def incidents_feed(project: str) -> Response:
    """The newest incidents, whatever their state; an entry is newer when its state changed."""
    with web_context().store.read() as tx:
        records = list_incidents(tx, require_project(tx, project).id, limit=MAX_IN_FEED)
    links = build_project_links(project)
    entries = [
        FeedEntry(
            identity=f"{project}/incidents/{record.number}",
            title=f"#{record.number} {make_printable(record.headline, 300)}",
            address=links.incident(record.number),
            updated=record.changed_at,
            author=record.assignee,
            summary=_describe_feed_entry(record),
        )
        for record in records
    ]
    return build_atom_response(
        f"Incidents of {project}", f"{project}/incidents", entries, web_context().clock()
    )


def _describe_feed_entry(record: IncidentRecord) -> str:
    """What a feed says below the headline of an incident: its kind, its state and what explains it."""
    state = f"{record.kind}, {STATE_LABELS[record.state]}"
    return ". ".join(filter(None, (state, make_printable(str(record.detail.get("explanation") or ""), 500))))


def _load_serialized_incidents(project: str) -> dict[str, Any]:
    """Load the stored incidents; a project that was never evaluated has them derived here."""
    with web_context().store.read() as tx:
        record = require_project(tx, project)
        overview = load_incidents_with_evaluation(tx, record)
        if overview is not None:
            serialized = serialize_stored_incident_overview(overview)
            return _keep_confirmed(serialized) if current_lens().confirmed_only else serialized
        evaluation = _evaluate(tx, record)
    return serialize_derived_incident_overview(
        project,
        evaluation.incidents,
        evaluation.retests,
        evaluation.creeps,
        evaluation.commits,
        evaluation.pages_per_week,
    )


def _keep_confirmed(serialized: dict[str, Any]) -> dict[str, Any]:
    """Leave the incidents that an A/B rerun confirmed."""
    incidents = [each for each in serialized["incidents"] if each.get("confirmed_series")]
    sentence = f"{format_count(len(incidents), 'confirmed incident')}, open or not"
    return serialized | {"sentence": sentence, "incidents": incidents, "retests": [], "slow_drifts": []}


def _load_trends(tx: Session, project: Project, incident: IncidentDetail) -> Mapping[Series, Trend]:
    """Load the trends around the largest changes of an incident."""
    members = incident.members[: incident_view_model.MAX_TRENDS]
    trends = load_series_trends(tx, project.slug, [member.series_id for member, _ in members])
    shas = {member.series_id: member.commit for member, _ in members}
    around = show_commits_around(tx, project.slug, trends, shas, incident_view_model.COMMITS_AROUND)
    return {trends[row_id].series: trend for row_id, trend in around.items()}


def _load_cause_inputs(
    tx: Session, project: Project, incident: IncidentDetail, trends: Mapping[Series, Trend]
) -> CauseInputs | None:
    """Count what tells whether the code or the runner moved the series of an incident; None where none has
    moved."""
    changes = [member.to_change_point(series) for member, series in incident.members]
    if not changes or incident.record.kind == DATA_KIND:
        return None
    marks = [
        next((mark for mark in trends[change.series].marks if mark.commit == change.commit), None)
        for change in changes
        if change.series in trends
    ]
    return load_cause_inputs(tx, project, changes, count_reruns(marks))


def _evaluate(tx: Session, project: Project) -> ProjectEvaluation:
    policies = web_context().load_policies(project)
    return evaluate_project(tx, project.slug, policies.policy, policies.history)


def _load_changed_incident(tx: Session, project: Project) -> tuple[IncidentEntry, str] | None:
    """Load the incident whose state was just changed or undone, with the change that can be undone."""
    number = request.args.get("changed", request.args.get("undone", 0, type=int), type=int)
    if not 0 < number < 2**31:
        return None
    record = incident_store.find_incident(tx, project.id, number)
    if record is None:
        return None
    undo_text = incident_view_model.describe_undoable_change(
        record, incident_store.load_incident_events(tx, record.id)
    )
    return IncidentEntry(record), undo_text


def find_window_end(tx: Session, project: Project) -> datetime:
    """Find when the time windows of a project end: now, or with its last result."""
    last_result_at = find_last_result_time(tx, project.id)
    return build_time_window(Lens(), web_context().clock(), last_result_at).until


def _require_incident(tx: Session, project: Project, number: int) -> None:
    if incident_store.find_incident(tx, project.id, number) is not None:
        return
    links = build_project_links(project.slug)
    suggestions = [
        Suggestion(f"#{record.number} {record.headline}", links.incident(record.number))
        for record in list_incidents(tx, project.id, limit=8)
    ]
    text = f"The project {project.slug} has no incident {number}."
    raise PageNotFound(text, suggestions, "Its newest incidents")
