"""Routes of the first pages: the projects of a store, and one of them at a glance."""

from __future__ import annotations

from flask import Blueprint, redirect, render_template, request
from werkzeug.wrappers import Response as BaseResponse

from perfci.report.series_places import SeriesPlaces
from perfci.store.queries import (
    project_counts,
    project_status,
    series_commits_machines,
)
from perfci.store.queries.series_commits_machines import load_series_of_same_cells
from perfci.store.unresolved_results import count_unresolved_results
from perfci_web.application_context import web_context
from perfci_web.incidents.incident_list_view_model import load_or_derive_open_incidents
from perfci_web.load_series_trends import VerdictsAndChangePoints, load_series_trends, show_whole_histories
from perfci_web.overview import view_model
from perfci_web.page_urls import encode_project_segment
from perfci_web.url_lookups import build_project_links, list_visible_projects, require_project

blueprint = Blueprint("overview", __name__)


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


@blueprint.get("/<project:project>/")
def overview_page(project: str) -> str:
    context = web_context()
    with context.store.read() as tx:
        project_record = require_project(tx, project)
        [record] = project_counts.load_projects_with_counts(tx, project)
        changed_series = project_status.find_newest_and_largest_changed_series(
            tx, project, view_model.MAX_LARGEST_CHANGES
        )
        decisions = VerdictsAndChangePoints.load(tx, changed_series)
        changed = load_series_trends(tx, project, changed_series, decisions)
        trends = show_whole_histories(tx, changed).values()
        trends_by_label = sorted(trends, key=lambda trend: trend.series.label)
        open_incidents = load_or_derive_open_incidents(
            tx, project_record, context.load_policies(project_record)
        )
        page = view_model.build_overview(
            record,
            view_model.build_head_coverage(project_status.load_head_status(tx, project)),
            project_status.count_changes_and_undecided_verdicts(tx, project),
            decisions,
            trends_by_label,
            series_commits_machines.load_commits_newest_first(tx, project, limit=view_model.RECENT_COMMITS),
            series_commits_machines.load_commits_by_sha(
                tx, project, view_model.collect_changed_commit_shas(trends_by_label)
            ),
            open_incidents.count,
        )
        waiting = count_unresolved_results(tx, project_record.id)
        links = build_project_links(project, load_series_of_same_cells(tx, project, page.linked_series))
    return render_template(
        "overview/overview.html",
        page=page,
        incidents=open_incidents.entries,
        links=links,
        places=SeriesPlaces(page.linked_series),
        max_not_run=view_model.MAX_NOT_RUN,
        waiting=waiting,
    )
