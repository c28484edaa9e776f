"""Routes of one result: the page, and its JSON and CSV."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify, render_template

from perfci.model import NamedValues
from perfci.net.url_segments import encode_segment
from perfci.store.queries.runs_and_sessions import load_origins_of_results
from perfci_web.application_context import web_context
from perfci_web.page_urls import ProjectLinks
from perfci_web.points import view_model
from perfci_web.points.load_point import load_point_view
from perfci_web.series.find_series import find_series
from perfci_web.series.load_series import LoadedSeries, load_series
from perfci_web.url_lookups import PageNotFound, Suggestion, build_project_links, require_project
from perfci_web.view_parts.csv_response import build_csv_response

blueprint = Blueprint("points", __name__)

POINT_PATH = "/<project:project>/point/<name:benchmark>/<name:metric>/<name:sha>"


@blueprint.get(POINT_PATH)
def point_page(project: str, benchmark: str, metric: str, sha: str) -> str:
    """One result: its samples, their distribution beside that of the commit before, and its environment."""
    loaded, page, origins, links = _load_point(project, benchmark, metric, sha)
    return render_template(
        "points/point.html", project=project, loaded=loaded, page=page, origins=origins, links=links
    )


@blueprint.get(f"{POINT_PATH}.json")
def point_json(project: str, benchmark: str, metric: str, sha: str) -> Response:
    _, page, origins, _ = _load_point(project, benchmark, metric, sha)
    return jsonify({"project": project} | view_model.serialize_point(page, origins))


@blueprint.get(f"{POINT_PATH}.csv")
def point_csv(project: str, benchmark: str, metric: str, sha: str) -> Response:
    """Every sample as a row."""
    _, page, _, _ = _load_point(project, benchmark, metric, sha)
    name = f"{encode_segment(benchmark)}-{encode_segment(metric)}-{page.dot.commit.sha[:10]}.csv"
    return build_csv_response(view_model.SAMPLE_COLUMNS, view_model.sample_rows(page), name)


def _load_point(
    project: str, benchmark: str, metric: str, sha: str
) -> tuple[LoadedSeries, view_model.PointView, list[NamedValues], ProjectLinks]:
    with web_context().store.read() as tx:
        record, records = find_series(tx, project, benchmark, metric)
        loaded = load_series(tx, require_project(tx, project), record)
        page = load_point_view(tx, loaded, sha)
        links = build_project_links(project, (sibling.series for sibling in records))
        if page is None:
            text = f"{record.series.label} has no result at a commit that starts with {sha}."
            raise PageNotFound(text, [Suggestion("The series", links.series(record.series))])
        origins = load_origins_of_results(tx, record.id, page.dot.commit.sha)
    return loaded, page, origins, links
