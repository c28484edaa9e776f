"""Routes of the impact of commits: the page and its JSON."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify, render_template, request

from perfci.report.series_places import SeriesPlaces
from perfci.service.incidents.serialize_incidents import serialize_commit_impact
from perfci.store.queries.series_commits_machines import load_series_of_same_cells
from perfci_web.application_context import web_context
from perfci_web.commit_impacts import view_model
from perfci_web.url_lookups import build_project_links, require_project

blueprint = Blueprint("impact", __name__)

IMPACT_PATH = "/<project:project>/impact"


@blueprint.get(IMPACT_PATH)
def impact_page(project: str) -> str:
    with web_context().store.read() as tx:
        page = view_model.build_impact_view(
            tx, require_project(tx, project), view_model.parse_impact_query(request.args)
        )
        links = build_project_links(project, load_series_of_same_cells(tx, project, page.series))
    return render_template(
        "impact/impact.html",
        page=page,
        filters=view_model.DIRECTION_FILTERS,
        links=links,
        places=SeriesPlaces(page.series),
    )


@blueprint.get(f"{IMPACT_PATH}.json")
def impact_json(project: str) -> Response:
    with web_context().store.read() as tx:
        record = require_project(tx, project)
        impacts, next_cursor = view_model.load_impact_page(
            tx, record, view_model.parse_impact_query(request.args)
        )
    items = [serialize_commit_impact(impact) for impact in impacts]
    return jsonify({"project": project, "items": items, "next": next_cursor})
