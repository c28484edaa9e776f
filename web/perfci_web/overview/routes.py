"""Addresses of the first pages: the projects of a store, and one of them at a glance."""

from __future__ import annotations

from functools import partial

from flask import Flask, redirect, render_template, request
from werkzeug.wrappers import Response as Answer

from perfci.history.series_points import JudgedHistories
from perfci.policies import LoadPolicies
from perfci.store import Store
from perfci.store.queries import measurements, project_status
from perfci.store.queries.loaders import load_series_of_same_cells
from perfci_web.incidents import list_view
from perfci_web.lookups import require_project
from perfci_web.overview import view as overview
from perfci_web.page_access import list_visible_projects
from perfci_web.page_urls import Links, project_segment
from perfci_web.trends import SeriesVerdicts, load_level_trends


def init_app(app: Flask, store: Store, load_policies: LoadPolicies) -> None:
    app.add_url_rule("/", "projects_page", partial(projects_page, store))
    app.add_url_rule("/<project:project>/", "overview", partial(overview_page, store, load_policies))


def projects_page(store: Store) -> str | Answer:
    with store.read() as tx:
        seen = {one.slug for one in list_visible_projects(tx)}
        known = [record for record in measurements.load_project_records(tx) if record.slug in seen]
    if len(known) == 1:
        return redirect(f"{request.script_root}/{project_segment(known[0].slug)}/")
    return render_template(
        "overview/projects.html", projects=known, links_of=partial(Links, root=request.script_root)
    )


def overview_page(store: Store, load_policies: LoadPolicies, project: str) -> str:
    with store.read() as tx:
        known = require_project(tx, project)
        [record] = measurements.load_project_records(tx, project)
        moved = JudgedHistories.load(tx, project_status.find_changed_series(tx, project, overview.MAX_MOVERS))
        decided = SeriesVerdicts.load(tx, moved.points)
        trends = sorted(load_level_trends(tx, moved, decided).values(), key=lambda trend: trend.series.label)
        found = list_view.load_open_incidents(tx, known, load_policies(known))
        page = overview.build_overview(
            record,
            overview.build_coverage(project_status.load_head_status(tx, project)),
            project_status.count_decisions(tx, project),
            decided,
            trends,
            measurements.load_commits_newest_first(tx, project, limit=overview.RECENT_COMMITS),
            measurements.load_commits_by_sha(tx, project, overview.find_marked_commits(trends)),
            found.count,
        )
        links = Links(
            project, load_series_of_same_cells(tx, project, page.linked_series), root=request.script_root
        )
    return render_template(
        "overview/overview.html",
        page=page,
        incidents=found.entries,
        links=links,
        most_not_run=overview.MAX_NOT_RUN,
    )
