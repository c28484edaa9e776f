"""Routes of the first pages: the projects of a store, and one of them at a glance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from flask import Blueprint, Response, jsonify, redirect, render_template, request
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response as BaseResponse

from perfci.history.change_since_release import ChangeSinceRelease
from perfci.model import Series, Status
from perfci.report.incidents.news_text import write_news
from perfci.report.page_summaries import PageSummary
from perfci.report.series_places import SeriesPlaces
from perfci.report.series_trend import Trend
from perfci.store.column_conversions import series_identity
from perfci.store.incidents.incident_lists import list_fixed_incidents
from perfci.store.projects import Project
from perfci.store.queries import (
    project_counts,
    project_status,
    series_commits_machines,
)
from perfci.store.queries.measured_places import load_machines_last_seen
from perfci.store.queries.series_commits_machines import (
    find_series_ids_by_identity,
    load_series_of_same_cells,
)
from perfci.store.queries.series_points import load_series_points_records
from perfci.store.unresolved_results import count_unresolved_results
from perfci_web.application_context import current_actor, may_triage, web_context
from perfci_web.incidents.incident_list_view_model import load_or_derive_open_incidents
from perfci_web.lens import SINCE_KEY, LensView, TimeWindow, build_time_window, current_lens, load_lens
from perfci_web.load_series_trends import (
    VerdictsAndChangePoints,
    load_series_trends,
    show_commits_around,
    show_whole_histories,
)
from perfci_web.overview import view_model
from perfci_web.overview.last_look import LOOKED_KEY, find_last_look, load_news, remember_look
from perfci_web.overview.scorecard import AGAINST_KEY, load_scorecard
from perfci_web.page_urls import ProjectLinks, encode_project_segment
from perfci_web.url_lookups import build_project_links, list_visible_projects, require_project
from perfci_web.view_parts.link_preview import server_address

blueprint = Blueprint("overview", __name__)

OVERVIEW_PATH = "/<project:project>/"

COMMITS_AROUND = 30
"""Commits of a sparkline on either side of its change."""


@blueprint.get("/")
def projects_page() -> str | BaseResponse:
    """List the projects; a store with a single one goes straight to it."""
    with web_context().store.read() as tx:
        visible = {project.slug for project in list_visible_projects(tx)}
        records = [
            record for record in project_counts.load_projects_with_counts(tx) if record.slug in visible
        ]
    if len(records) == 1:
        return redirect(f"{request.script_root}/{encode_project_segment(records[0].slug)}/")
    return render_template(
        "overview/projects.html", projects=records, build_project_links=build_project_links
    )


@blueprint.get(OVERVIEW_PATH)
def overview_page(project: str) -> BaseResponse:
    now = web_context().clock()
    last_look = find_last_look(request.cookies, now)
    with web_context().store.read() as tx:
        project_record = require_project(tx, project)
        if LOOKED_KEY in request.args:
            return _mark_looked_at(project, now)
        loaded = _load_overview(tx, project_record)
        news = load_news(tx, project_record, last_look) if last_look else None
        sparklines = _load_sparklines(tx, project, loaded.incidents)
        listed_series = [*loaded.page.linked_series, *loaded.incidents.series]
        links = build_project_links(project, load_series_of_same_cells(tx, project, listed_series))
    lens = loaded.lens
    page = render_template(
        "overview/overview.html",
        news=news,
        news_text=write_news(project, news, ProjectLinks(project, root=server_address()).incident)
        if news
        else "",
        scorecard=loaded.scorecard,
        scorecard_problem=loaded.scorecard_problem,
        against=request.args.get(AGAINST_KEY, "").strip(),
        page=loaded.page,
        summary=loaded.summary,
        incidents=loaded.incidents,
        sparklines=sparklines,
        machines=loaded.machines,
        window=loaded.window,
        # Its lists show every place, so of the lens it offers the time alone; the tabs keep the rest.
        window_view=replace(lens, choices=()),
        lens_extra=lens.lens.query_without(SINCE_KEY) | _get_against(),
        lens_query=lens.lens.query,
        may_change=may_triage(project_record),
        actor_name=current_actor().name,
        links=links,
        places=SeriesPlaces(listed_series),
        max_not_run=view_model.MAX_NOT_RUN,
        waiting=loaded.waiting,
    )
    response = Response(page, mimetype="text/html")
    if last_look is None:
        remember_look(response, links.overview, now)
    return response


def _get_against() -> dict[str, str]:
    """What the address says that the scorecard compares with."""
    against = request.args.get(AGAINST_KEY, "").strip()
    return {AGAINST_KEY: against} if against else {}


def _mark_looked_at(project: str, now: datetime) -> BaseResponse:
    """Lead back to the overview, with nothing new on it."""
    links = build_project_links(project)
    query = {name: value for name, value in request.args.items() if name != LOOKED_KEY}
    response = Response(status=303, headers={"Location": links.overview_with(**query)})
    remember_look(response, links.overview, now)
    return response


@blueprint.get(f"{OVERVIEW_PATH.removesuffix('/')}.json")
def overview_json(project: str) -> Response:
    with web_context().store.read() as tx:
        loaded = _load_overview(tx, require_project(tx, project))
    return jsonify(
        view_model.serialize_overview(loaded.page, loaded.summary, loaded.incidents, loaded.machines)
        | {
            "unresolved_results": loaded.waiting,
            "scorecard": view_model.serialize_scorecard(loaded.scorecard),
            "scorecard_problem": loaded.scorecard_problem,
        }
    )


@dataclass(frozen=True, slots=True)
class LoadedOverview:
    """What the first page of a project shows; ``waiting`` counts results without a unit."""

    page: view_model.Overview
    summary: PageSummary
    incidents: view_model.IncidentRows
    machines: tuple[view_model.SeenMachine, ...]
    lens: LensView
    window: TimeWindow
    waiting: int
    scorecard: ChangeSinceRelease | None
    scorecard_problem: str


def _load_overview(tx: Session, project_record: Project) -> LoadedOverview:
    project, context = project_record.slug, web_context()
    record = project_counts.load_project_with_counts(tx, project)
    changed_series = project_status.find_newest_and_largest_changed_series(
        tx, project, view_model.MAX_LARGEST_CHANGES
    )
    decisions = VerdictsAndChangePoints.load(tx, changed_series)
    changed = load_series_trends(tx, project, changed_series, decisions)
    trends = show_whole_histories(tx, project, changed).values()
    trends_by_label = sorted(trends, key=lambda trend: trend.series.label)
    policies = context.load_policies(project_record)
    confirmed_only = current_lens().confirmed_only
    if confirmed_only:
        trends_by_label = [_keep_confirmed_marks(trend) for trend in trends_by_label]
    open_incidents = load_or_derive_open_incidents(
        tx, project_record, policies, confirmed_only=confirmed_only
    )
    page = view_model.build_overview(
        record,
        _load_coverage(tx, project),
        project_status.count_changes_and_undecided_verdicts(tx, project),
        decisions,
        trends_by_label,
        series_commits_machines.load_commits_newest_first(tx, project, limit=view_model.RECENT_COMMITS),
        series_commits_machines.load_commits_by_sha(
            tx, project, view_model.collect_changed_commit_shas(trends_by_label)
        ),
        open_incidents.count,
    )
    lens, now = load_lens(tx, project_record), context.clock()
    window = build_time_window(lens.lens, now, record.last_measured_at)
    fixed = list_fixed_incidents(
        tx, project_record.id, window.since, limit=view_model.MAX_FIXED, confirmed_only=confirmed_only
    )
    incidents = view_model.build_incident_rows(open_incidents, fixed, window, confirmed_only=confirmed_only)
    against = request.args.get(AGAINST_KEY, "").strip()
    # A mean over separate runs is no A/B rerun.
    scorecard = (None, "") if confirmed_only else load_scorecard(tx, project_record, policies, against)
    return LoadedOverview(
        page,
        view_model.summarize(page, incidents, now),
        incidents,
        view_model.build_seen_machines(load_machines_last_seen(tx, project), now),
        lens,
        window,
        count_unresolved_results(tx, project_record.id),
        *scorecard,
    )


def _keep_confirmed_marks(trend: Trend) -> Trend:
    """The trend with nothing but the changes that an A/B rerun confirmed."""
    return replace(trend, marks=tuple(mark for mark in trend.marks if mark.state == "confirmed"))


def _load_coverage(tx: Session, project: str) -> view_model.HeadCoverage:
    """Load which series have a value at the newest commit, and since when the others have none."""
    head = project_status.load_head_status(tx, project, web_context().clock())
    failed = [item.series for item in head.unmeasured if item.status is not Status.SKIPPED]
    identities = [series_identity(project, series) for series in failed[: view_model.MAX_BROKEN]]
    ids = find_series_ids_by_identity(tx, identities).values()
    records = load_series_points_records(tx, ids)
    return view_model.build_head_coverage(head, [record.failing_since for record in records.values()])


def _load_sparklines(tx: Session, project: str, incidents: view_model.IncidentRows) -> Mapping[Series, Trend]:
    """Load the trend of the largest change of each incident, around that change."""
    changes = {entry.members[0].series: entry.members[0] for entry in incidents.shown if entry.members}
    if not changes:
        return {}
    identities = [series_identity(project, series) for series in changes]
    trends = load_series_trends(tx, project, find_series_ids_by_identity(tx, identities).values())
    shas = {series_id: changes[trend.series].commit for series_id, trend in trends.items()}
    around = show_commits_around(tx, project, trends, shas, COMMITS_AROUND)
    return {trends[series_id].series: trend for series_id, trend in around.items()}
