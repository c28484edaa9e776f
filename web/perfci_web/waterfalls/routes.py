"""Routes of what moved a series since a release: the page, and its JSON, CSV, SVG and PNG."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify, redirect, render_template, request
from werkzeug.wrappers import Response as BaseResponse

from perfci.net.url_segments import encode_segment
from perfci.report.charts.png import render_png
from perfci.report.charts.scene import Scene
from perfci.report.charts.scene_svg import render_scene_svg
from perfci.report.charts.waterfall import build_waterfall_scene
from perfci_web.application_context import web_context
from perfci_web.page_urls import ProjectLinks, names_place
from perfci_web.series.find_series import find_series
from perfci_web.url_lookups import PageNotFound, Suggestion, build_project_links, require_project
from perfci_web.view_parts.csv_response import build_csv_response
from perfci_web.waterfalls import view_model
from perfci_web.waterfalls.view_model import SINCE_KEY, WaterfallView

blueprint = Blueprint("waterfalls", __name__)

WATERFALL_PATH = "/<project:project>/waterfall/<name:benchmark>/<name:metric>"

NARROW = {"width": 358, "height": 300}


@blueprint.get(WATERFALL_PATH)
def waterfall_page(project: str, benchmark: str, metric: str) -> str | BaseResponse:
    view, links = _load_waterfall(project, benchmark, metric)
    if not names_place(request.args):
        since = request.args.get(SINCE_KEY, "")
        return redirect(links.waterfall(view.record.series, since=since))
    return render_template(
        "waterfalls/waterfall.html",
        page=view,
        spans=view_model.SPANS,
        scene=_build_scene(view) if view.waterfall else None,
        narrow_scene=_build_scene(view, **NARROW) if view.waterfall else None,
        links=links,
    )


@blueprint.get(f"{WATERFALL_PATH}.json")
def waterfall_json(project: str, benchmark: str, metric: str) -> Response:
    view, _ = _load_waterfall(project, benchmark, metric)
    return jsonify(view_model.serialize_waterfall(view))


@blueprint.get(f"{WATERFALL_PATH}.csv")
def waterfall_csv(project: str, benchmark: str, metric: str) -> Response:
    """The steps, one a line."""
    view, _ = _load_waterfall(project, benchmark, metric)
    rows = []
    for step in view_model.serialize_waterfall(view)["steps"]:
        lo, hi = step["relative_change_interval"] or (None, None)
        rows.append(step | {"ci_lo": lo, "ci_hi": hi})
    name = f"{encode_segment(benchmark)}-{encode_segment(metric)}-waterfall.csv"
    return build_csv_response(view_model.CSV_COLUMNS, rows, name)


@blueprint.get(f"{WATERFALL_PATH}.svg")
def waterfall_svg(project: str, benchmark: str, metric: str) -> Response:
    picture = _draw_picture(project, benchmark, metric)
    return Response(picture, content_type="image/svg+xml; charset=utf-8")


@blueprint.get(f"{WATERFALL_PATH}.png")
def waterfall_png(project: str, benchmark: str, metric: str) -> Response:
    return Response(render_png(_draw_picture(project, benchmark, metric)), content_type="image/png")


def _draw_picture(project: str, benchmark: str, metric: str) -> str:
    """Draw a waterfall that stands alone; raise ``PageNotFound`` where the series has no value."""
    view, links = _load_waterfall(project, benchmark, metric)
    if view.waterfall is None:
        suggestion = Suggestion("The series", links.series(view.record.series))
        raise PageNotFound(f"{view.record.series.label} has no value to draw.", [suggestion])
    return render_scene_svg(_build_scene(view), standalone=True)


def _load_waterfall(project: str, benchmark: str, metric: str) -> tuple[WaterfallView, ProjectLinks]:
    with web_context().store.read() as tx:
        record, records = find_series(tx, project, benchmark, metric)
        stored = require_project(tx, project)
        view = view_model.load_waterfall(tx, stored, record, request.args.get(SINCE_KEY, ""))
    return view, build_project_links(project, (sibling.series for sibling in records))


def _build_scene(view: WaterfallView, **size: int) -> Scene:
    assert view.waterfall is not None
    start = "start" if view.since == view_model.ALL else view.start_name
    return build_waterfall_scene(view.waterfall, name=view.record.series.label, start_label=start, **size)
