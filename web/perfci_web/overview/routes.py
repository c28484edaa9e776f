"""Addresses of the first pages: the projects of a store, and one of them at a glance."""

from __future__ import annotations

from functools import partial

from flask import Flask, redirect, render_template, request
from werkzeug.wrappers import Response as Answer

from perfci.history.series_points import JudgedLines
from perfci.policies import StandardsOf
from perfci.store import Store
from perfci.store.incidents.incident_members import namesakes
from perfci.store.queries import measurements, project_status
from perfci_web.incidents import list_view
from perfci_web.lookups import known_project
from perfci_web.overview import view as overview
from perfci_web.page_access import seen_projects
from perfci_web.page_urls import Links, project_segment
from perfci_web.trends import Decided, small_trends


def install(app: Flask, store: Store, standards_of: StandardsOf) -> None:
    app.add_url_rule("/", "projects_page", partial(projects_page, store))
    app.add_url_rule("/<project:project>/", "overview", partial(overview_page, store, standards_of))


def projects_page(store: Store) -> str | Answer:
    with store.read() as tx:
        seen = {one.slug for one in seen_projects(tx)}
        known = [record for record in measurements.projects(tx) if record.slug in seen]
    if len(known) == 1:
        return redirect(f"{request.script_root}/{project_segment(known[0].slug)}/")
    return render_template("overview/projects.html", projects=known, links_of=partial(Links, root=request.script_root))


def overview_page(store: Store, standards_of: StandardsOf, project: str) -> str:
    with store.read() as tx:
        known = known_project(tx, project)
        [record] = measurements.projects(tx, project)
        moved = JudgedLines.of(tx, project_status.series_that_moved(tx, project, overview.MOST_MOVERS))
        decided = Decided.of(tx, moved.points)
        trends = sorted(small_trends(tx, moved, decided).values(), key=lambda trend: trend.series.label)
        found = list_view.open_on_overview(tx, known, standards_of(known))
        page = overview.overview(
            record,
            overview.coverage_of(project_status.at_head(tx, project)),
            project_status.tally(tx, project),
            decided,
            trends,
            measurements.commits(tx, project, limit=overview.RECENT_COMMITS),
            measurements.commits_of(tx, project, overview.marked_commits(trends)),
            found.count,
        )
        links = Links(project, namesakes(tx, project, page.linked), root=request.script_root)
    return render_template(
        "overview/overview.html", page=page, incidents=found.entries, links=links, most_not_run=overview.MOST_NOT_RUN
    )
