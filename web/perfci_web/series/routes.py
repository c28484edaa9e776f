"""Routes of one series: the page, its chart, and its JSON, SVG and CSV."""

from __future__ import annotations

import sys

from flask import Blueprint, Response, jsonify, redirect, render_template, request
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response as BaseResponse

from perfci.net.url_segments import encode_segment
from perfci.report.charts.joined_trend import EarlierHistory, join_earlier_history
from perfci.report.charts.svg_charts import MAX_DOTS, render_trend_chart
from perfci.report.serializers import serialize_trend
from perfci.report.series_places import SeriesPlaces
from perfci.report.series_trend import Trend
from perfci.store import verdicts_and_change_points
from perfci.store.column_conversions import series_identity
from perfci.store.incidents.expected_changes_and_muted_benchmarks import load_mutes
from perfci.store.queries import measured_samples, series_search
from perfci.store.queries.invalid_marks import list_invalid_marks
from perfci.store.queries.query_records import SeriesRecord
from perfci_web.application_context import may_triage, web_context
from perfci_web.load_series_trends import (
    SeriesTrend,
    VerdictsAndChangePoints,
    draw_charts,
    find_range,
    load_series_trends,
)
from perfci_web.page_urls import PARAMETER_PREFIX, names_place, series_matches_url_query
from perfci_web.series import view_model
from perfci_web.url_lookups import (
    PageNotFound,
    Suggestion,
    build_benchmark_not_found_error,
    build_project_links,
    raise_if_renamed,
    require_project,
)
from perfci_web.view_parts.csv_response import build_csv_response

blueprint = Blueprint("series", __name__)

SERIES_PATH = "/<project:project>/s/<name:benchmark>/<name:metric>"

MAX_POINTS = 1000
"""The most points a browser draws; a request for more gets neighbours merged."""


@blueprint.get(SERIES_PATH)
def series_page(project: str, benchmark: str, metric: str) -> str | BaseResponse:
    """The page of a series; an address that names no machine leads to all series it may mean."""
    context = web_context()
    with context.store.read() as tx:
        candidates, records = _load_candidates(tx, project, benchmark, metric)
        record, matches = view_model.find_series_of_url(candidates, request.args)
        if matches and (record is None or not names_place(request.args)):
            return redirect(_find_complete_address(project, record, benchmark, metric))
        if record is None:
            raise _build_no_series_error(project, candidates)
        twin = view_model.find_series_of_other_clock(record, records)
        trends = load_series_trends(tx, project, [item.id for item in (record, twin) if item])
        trend = trends.get(record.id)
        chart, newest = _draw_page(tx, record, trend)
        verdicts = verdicts_and_change_points.load_verdict_records(tx, project, series_id=record.id)
        stored_project = require_project(tx, project)
        mutes = load_mutes(tx, stored_project.id, context.clock())
        marks = list_invalid_marks(tx, stored_project.id, series_id=record.id)
        earlier = _load_earlier_history(tx, record, records)
    page = view_model.build_series_view(
        project,
        chart,
        verdicts,
        records,
        newest=newest,
        twin_trend=trends.get(twin.id) if twin else None,
        judged=trend is not None and trend.record.judged and not record.is_informational,
    )
    return render_template(
        "series/series.html",
        page=page,
        earlier=earlier,
        muted=[mute for mute in mutes if mute.matches(record.series)],
        marks=marks,
        identity=series_identity(project, record.series),
        may_change=may_triage(stored_project),
        links=build_project_links(project, (sibling.series for sibling in records)),
    )


@blueprint.get(f"{SERIES_PATH}.json")
def series_json(project: str, benchmark: str, metric: str) -> Response:
    """The whole series; ``?max_points=N`` merges neighbours down to about N points, for a chart.

    ``from`` and ``to`` are commits that the chart begins and ends at.
    """
    max_points = request.args.get("max_points", type=int)
    max_dots = min(max(2, max_points), MAX_POINTS) if max_points else sys.maxsize
    trend = load_trend(project, benchmark, metric, max_dots)
    return jsonify({"project": project} | serialize_trend(trend))


@blueprint.get(f"{SERIES_PATH}.svg")
def series_svg(project: str, benchmark: str, metric: str) -> Response:
    trend = load_trend(project, benchmark, metric, MAX_DOTS)
    return Response(render_trend_chart(trend, standalone=True), content_type="image/svg+xml; charset=utf-8")


@blueprint.get(f"{SERIES_PATH}.csv")
def series_csv(project: str, benchmark: str, metric: str) -> Response:
    rows = serialize_trend(load_trend(project, benchmark, metric))["points"]
    file_name = f"{encode_segment(benchmark)}-{encode_segment(metric)}.csv"
    return build_csv_response(view_model.POINT_COLUMNS, rows, file_name)


def _find_series(
    tx: Session, project: str, benchmark: str, metric: str
) -> tuple[SeriesRecord, list[SeriesRecord]]:
    """Find the one series of an address, and all series of its benchmark."""
    candidates, records = _load_candidates(tx, project, benchmark, metric)
    record, _ = view_model.find_series_of_url(candidates, request.args)
    if record is None:
        raise _build_no_series_error(project, candidates)
    return record, records


def _load_candidates(
    tx: Session, project: str, benchmark: str, metric: str
) -> tuple[list[SeriesRecord], list[SeriesRecord]]:
    """Load the series of a benchmark and metric, and those of all its metrics, the latest first."""
    require_project(tx, project)
    records = series_search.find_series_of_benchmark(tx, project, benchmark)
    candidates = [record for record in records if record.series.metric.name == metric]
    if not any(series_matches_url_query(record.series, request.args) for record in candidates):
        raise_if_renamed(tx, project, benchmark, metric)
    if not candidates:
        raise build_benchmark_not_found_error(tx, project, f"{benchmark} · {metric}")
    return candidates, records


def _find_complete_address(project: str, record: SeriesRecord | None, benchmark: str, metric: str) -> str:
    """The address of the one series that a short address means, or of all that it may mean."""
    links = build_project_links(project)
    if record is not None:
        return links.series(record.series)
    chosen = {name: value for name, value in request.args.items() if name.startswith(PARAMETER_PREFIX)}
    return links.benchmark(benchmark, metric=metric, **chosen)


def _build_no_series_error(project: str, candidates: list[SeriesRecord]) -> PageNotFound:
    """Build the 404 of an address that means none of the series of its benchmark and metric, or several."""
    series = [record.series for record in candidates]
    links, places = build_project_links(project, series), SeriesPlaces(series)
    suggestions = [
        Suggestion(f"{item.label} {places.label(item)}".strip(), links.series(item)) for item in series
    ]
    name = f"{series[0].benchmark.name} · {series[0].metric.name}"
    text = f"{name} has {len(candidates)} series; the address names none of them exactly."
    return PageNotFound(text, suggestions, "Choose one")


def load_trend(project: str, benchmark: str, metric: str, max_dots: int = sys.maxsize) -> Trend:
    """Load the trend of the series that the current address means, from one commit of it to another."""
    with web_context().store.read() as tx:
        record, _ = _find_series(tx, project, benchmark, metric)
        trends = load_series_trends(tx, project, [record.id])
        if record.id not in trends:
            return Trend(record.series, (), (), ())
        ends = (request.args.get("from", ""), request.args.get("to", ""))
        ranges = {record.id: find_range(tx, project, trends[record.id], *ends)}
        return draw_charts(tx, trends, max_dots, ranges)[record.id]


def _draw_page(tx: Session, record: SeriesRecord, trend: SeriesTrend | None) -> tuple[Trend, Trend]:
    """Draw the chart of a page, and the newest commits for its table: with the last one before them."""
    if trend is None:
        empty = Trend(record.series, (), (), ())
        return empty, empty
    chart = draw_charts(tx, {record.id: trend}, MAX_DOTS)[record.id]
    commits = len(trend.columns)
    ranges = {record.id: (max(0, commits - view_model.MAX_ROWS - 1), commits)}
    return chart, draw_charts(tx, {record.id: trend}, sys.maxsize, ranges)[record.id]


def _load_earlier_history(
    tx: Session, record: SeriesRecord, records: list[SeriesRecord]
) -> EarlierHistory | None:
    """Load the history by another method of measuring that this series goes on from, if there is one."""
    others = view_model.find_series_of_other_harnesses(record, records)
    if not others:
        return None
    series_ids = {item.series: item.id for item in (record, *others)}
    histories = measured_samples.load_histories_by_series_id(tx, list(series_ids.values()))
    points = {series: histories[series_id] for series, series_id in series_ids.items()}
    trends = VerdictsAndChangePoints.load(tx, series_ids.values()).build_trends(points)
    own = record.series
    joined = (
        join_earlier_history(trends[own], points[own], trends[other.series], points[other.series])
        for other in others
    )
    return next((history for history in joined if history is not None), None)
