"""Routes of one series: the page, its chart, and its JSON, SVG, PNG and CSV."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

from flask import Blueprint, Response, jsonify, redirect, render_template, request
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response as BaseResponse

from perfci.net.url_segments import encode_segment
from perfci.report.change_id import format_change_id
from perfci.report.charts.png import render_png
from perfci.report.charts.scene_svg import render_scene_svg
from perfci.report.serializers import serialize_trend
from perfci.report.series_trend import Trend
from perfci.service.chart_notes import serialize_chart_note
from perfci.store import verdicts_and_change_points
from perfci.store.chart_notes import list_chart_notes
from perfci.store.column_conversions import series_identity
from perfci.store.incidents.expected_changes_and_muted_benchmarks import load_mutes
from perfci.store.queries.invalid_marks import list_invalid_marks
from perfci.store.queries.query_records import SeriesRecord
from perfci.store.series_archive import list_archived_series
from perfci_web.application_context import may_triage, web_context
from perfci_web.load_series_trends import (
    draw_charts,
    find_range,
    load_series_trends,
    show_whole_histories,
)
from perfci_web.page_urls import PARAMETER_PREFIX, names_place
from perfci_web.points.load_point import load_point_view
from perfci_web.points.view_model import PointView
from perfci_web.series import view_model
from perfci_web.series.cause_evidence import load_series_cause_evidence, select_places
from perfci_web.series.chart_view import (
    OVERLAY_KEY,
    PIN_KEY,
    build_view_controls,
    narrow,
    parse_chart_view,
    parse_sha,
    serialize_scene,
    view_query,
)
from perfci_web.series.find_series import build_no_series_error, find_series, load_candidates
from perfci_web.series.load_series import LoadedSeries, load_series
from perfci_web.series.overlay import Overlay, build_series_scenes, load_overlay
from perfci_web.url_lookups import (
    PageNotFound,
    build_project_links,
    require_project,
)
from perfci_web.view_parts.csv_response import build_csv_response_of_cells
from perfci_web.view_parts.revalidation import revalidate

blueprint = Blueprint("series", __name__)

SERIES_PATH = "/<project:project>/s/<name:benchmark>/<name:metric>"

MAX_POINTS = 1000
"""The most points a browser draws; a request for more gets neighbours merged."""


@blueprint.get(SERIES_PATH)
def series_page(project: str, benchmark: str, metric: str) -> str | BaseResponse:
    """The page of a series; an address that names no machine leads to all series it may mean."""
    context = web_context()
    with context.store.read() as tx:
        candidates, records = load_candidates(tx, project, benchmark, metric)
        record, matches = view_model.find_series_of_url(candidates, request.args)
        if matches and (record is None or not names_place(request.args)):
            return redirect(_find_complete_address(project, record, benchmark, metric))
        if record is None:
            raise build_no_series_error(project, candidates)
        stored_project = require_project(tx, project)
        twin = view_model.find_series_of_other_clock(record, records)
        place_ids = select_places(view_model.find_namesakes(record, records))
        wanted = {record.id, *place_ids, *([twin.id] if twin else [])}
        trends = load_series_trends(tx, project, wanted)
        loaded = load_series(tx, stored_project, record, twin, records, trends)
        verdicts = verdicts_and_change_points.load_verdict_records(tx, project, series_id=record.id)
        places = {series_id: trend for series_id, trend in trends.items() if series_id in place_ids}
        elsewhere = {trend.series: trend for trend in show_whole_histories(tx, project, places).values()}
        cause = load_series_cause_evidence(tx, loaded, places.values())
        mutes = load_mutes(tx, stored_project.id, context.clock())
        marks = list_invalid_marks(tx, stored_project.id, series_id=record.id)
        archived = list_archived_series(tx, stored_project.id, series_ids=[record.id])
        point = _load_pinned_point(tx, loaded, records)
        overlay, refusal = load_overlay(tx, project, loaded, request.args.get(OVERLAY_KEY, ""))
    links = build_project_links(project, (sibling.series for sibling in records))
    view = parse_chart_view(request.args)
    pin_sha = parse_sha(request.args.get(PIN_KEY, ""))
    scene, narrow_scene = build_series_scenes(loaded, [view, narrow(view)], overlay, pin_sha)
    return render_template(
        "series/series.html",
        page=view_model.build_series_view(loaded, verdicts, records, elsewhere),
        loaded=loaded,
        view=view,
        scene=scene,
        narrow_scene=narrow_scene,
        pinned=pin_sha,
        overlay=overlay,
        overlay_refusal=refusal,
        controls=build_view_controls(
            loaded.charted, view, request.args, partial(links.series, record.series)
        ),
        state=view_query(request.args),
        point=point,
        earlier=loaded.earlier,
        cause=cause,
        muted=[mute for mute in mutes if mute.matches(record.series)],
        marks=marks,
        format_change_id=format_change_id,
        archived=archived[0] if archived else None,
        identity=series_identity(project, record.series),
        may_change=may_triage(stored_project),
        links=links,
    )


@blueprint.get(f"{SERIES_PATH}/figure")
@revalidate
def series_figure(project: str, benchmark: str, metric: str) -> Response:
    """The chart as plotly.js draws it, in the width and the view that the query asks for."""
    loaded, overlay = _load_series(project, benchmark, metric)
    pin_sha = parse_sha(request.args.get(PIN_KEY, ""))
    [scene] = build_series_scenes(loaded, [parse_chart_view(request.args)], overlay, pin_sha)
    trends = overlay.trends if overlay else [loaded.charted]
    return jsonify(serialize_scene(scene, trends, loaded.chart_context().breaks, loaded.note_texts))


@blueprint.get(f"{SERIES_PATH}/panel")
def series_panel(project: str, benchmark: str, metric: str) -> str:
    """What stands beside the chart of the commit that is pinned."""
    with web_context().store.read() as tx:
        record, records = find_series(tx, project, benchmark, metric)
        loaded = load_series(tx, require_project(tx, project), record, records=records)
        point = _load_pinned_point(tx, loaded, records)
    if point is None:
        raise PageNotFound("There is no result at that commit.")
    links = build_project_links(project, (sibling.series for sibling in records))
    return render_template("series/panel.html", point=point, links=links, project_name=project)


@blueprint.get(f"{SERIES_PATH}.json")
@revalidate
def series_json(project: str, benchmark: str, metric: str) -> Response:
    """The whole series; ``?max_points=N`` merges neighbours down to about N points, for a chart.

    ``from`` and ``to`` are commits that the chart begins and ends at.
    """
    max_points = request.args.get("max_points", type=int)
    max_dots = min(max(2, max_points), MAX_POINTS) if max_points else sys.maxsize
    trend = load_trend(project, benchmark, metric, max_dots)
    with web_context().store.read() as tx:
        record, _ = find_series(tx, project, benchmark, metric)
        notes = list_chart_notes(tx, require_project(tx, project).id, series_id=record.id)
    shapes = [serialize_chart_note(note).model_dump(mode="json") for note in notes]
    fields, identity = serialize_trend(trend), series_identity(project, trend.series)
    changes = [{"id": format_change_id(identity, each["commit"])} | each for each in fields["changes"]]
    return jsonify({"project": project} | fields | {"changes": changes, "notes": shapes})


@blueprint.get(f"{SERIES_PATH}.svg")
@revalidate
def series_svg(project: str, benchmark: str, metric: str) -> Response:
    """The chart as a picture that stands alone, of the part that the query asks for."""
    return Response(_draw_picture(project, benchmark, metric), content_type="image/svg+xml; charset=utf-8")


@blueprint.get(f"{SERIES_PATH}.png")
def series_png(project: str, benchmark: str, metric: str) -> Response:
    return Response(render_png(_draw_picture(project, benchmark, metric)), content_type="image/png")


@blueprint.get(f"{SERIES_PATH}.csv")
@revalidate
def series_csv(project: str, benchmark: str, metric: str) -> Response:
    trend = load_trend(project, benchmark, metric)
    file_name = f"{encode_segment(benchmark)}-{encode_segment(metric)}.csv"
    rows = map(view_model.format_point_cells, trend.dots)
    return build_csv_response_of_cells(view_model.POINT_COLUMNS, rows, file_name)


def _find_complete_address(project: str, record: SeriesRecord | None, benchmark: str, metric: str) -> str:
    """The address of the one series that a short address means, or of all that it may mean."""
    links = build_project_links(project)
    if record is not None:
        return links.series(record.series, **view_query(request.args))
    chosen = {name: value for name, value in request.args.items() if name.startswith(PARAMETER_PREFIX)}
    return links.benchmark(benchmark, metric=metric, **chosen)


def load_trend(project: str, benchmark: str, metric: str, max_dots: int = sys.maxsize) -> Trend:
    """Load the trend of the series that the current address means, from one commit of it to another."""
    with web_context().store.read() as tx:
        record, _ = find_series(tx, project, benchmark, metric)
        trends = load_series_trends(tx, project, [record.id])
        if record.id not in trends:
            return Trend(record.series, (), (), ())
        ends = (request.args.get("from", ""), request.args.get("to", ""))
        ranges = {record.id: find_range(tx, project, trends[record.id], *ends)}
        return draw_charts(tx, project, trends, max_dots, ranges)[record.id]


def _load_pinned_point(
    tx: Session, loaded: LoadedSeries, records: Sequence[SeriesRecord]
) -> PointView | None:
    """Load the result at the commit that is pinned: of this series, else what another harness measured."""
    sha = parse_sha(request.args.get(PIN_KEY, ""))
    point = load_point_view(tx, loaded, sha)
    if point is not None or not sha or loaded.earlier is None:
        return point
    earlier = next(record for record in records if record.series == loaded.earlier.series)
    return load_point_view(tx, load_series(tx, loaded.project, earlier), sha)


def _load_series(project: str, benchmark: str, metric: str) -> tuple[LoadedSeries, Overlay | None]:
    with web_context().store.read() as tx:
        record, records = find_series(tx, project, benchmark, metric)
        loaded = load_series(tx, require_project(tx, project), record, records=records)
        overlay, _ = load_overlay(tx, project, loaded, request.args.get(OVERLAY_KEY, ""))
    return loaded, overlay


def _draw_picture(project: str, benchmark: str, metric: str) -> str:
    loaded, overlay = _load_series(project, benchmark, metric)
    [scene] = build_series_scenes(loaded, [parse_chart_view(request.args)], overlay)
    return render_scene_svg(scene, standalone=True)
