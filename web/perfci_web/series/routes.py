"""Routes of one series: the page, its chart, and its JSON, SVG and CSV."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify, render_template, request
from sqlalchemy.orm import Session

from perfci.net.url_segments import encode_segment
from perfci.report.charts.svg_charts import render_trend_chart
from perfci.report.serializers import serialize_trend
from perfci.report.series_trend import Trend, downsample_trend, hide_levels_of_informational_trend
from perfci.store import verdicts_and_change_points
from perfci.store.column_conversions import series_identity
from perfci.store.incidents.expected_changes_and_muted_benchmarks import load_mutes
from perfci.store.queries import measured_samples, series_search
from perfci.store.queries.history_conditions import series_only_in_pulls_condition
from perfci.store.queries.invalid_marks import list_invalid_marks
from perfci.store.queries.query_records import SeriesRecord
from perfci.store.queries.series_commits_machines import load_project_series
from perfci_web.application_context import may_triage, web_context
from perfci_web.csv_response import build_csv_response
from perfci_web.load_series_trends import VerdictsAndChangePoints
from perfci_web.series import view_model
from perfci_web.url_lookups import (
    PageNotFound,
    Suggestion,
    build_project_links,
    find_closest_names,
    require_project,
)

blueprint = Blueprint("series", __name__)

SERIES_PATH = "/<project:project>/s/<name:benchmark>/<name:metric>"

MAX_POINTS = 1000
"""The most points a browser draws; a request for more gets neighbours merged."""


@blueprint.get(SERIES_PATH)
def series_page(project: str, benchmark: str, metric: str) -> str:
    context = web_context()
    with context.store.read() as tx:
        record, records = _find_series(tx, project, benchmark, metric)
        twin = view_model.find_series_of_other_clock(record, records)
        trends, judged = _load_trends(tx, record, twin)
        verdicts = verdicts_and_change_points.load_verdict_records(tx, project, series_id=record.id)
        stored_project = require_project(tx, project)
        mutes = load_mutes(tx, stored_project.id, context.clock())
        marks = list_invalid_marks(tx, stored_project.id, series_id=record.id)
    twin_trend = trends[twin.id] if twin else None
    page = view_model.build_series_view(
        project, trends[record.id], verdicts, records, twin_trend=twin_trend, judged=judged
    )
    return render_template(
        "series/series.html",
        page=page,
        muted=[mute for mute in mutes if mute.matches(record.series)],
        marks=marks,
        identity=series_identity(project, record.series),
        may_change=may_triage(stored_project),
        links=build_project_links(project, (sibling.series for sibling in records)),
    )


@blueprint.get(f"{SERIES_PATH}.json")
def series_json(project: str, benchmark: str, metric: str) -> Response:
    """The whole series; ``?max_points=N`` merges neighbours down to about N points, for a chart."""
    trend = _load_trend(project, benchmark, metric)
    max_points = request.args.get("max_points", type=int)
    if max_points:
        trend = downsample_trend(trend, min(max(2, max_points), MAX_POINTS))
    return jsonify({"project": project} | serialize_trend(trend))


@blueprint.get(f"{SERIES_PATH}.svg")
def series_svg(project: str, benchmark: str, metric: str) -> Response:
    trend = _load_trend(project, benchmark, metric)
    return Response(render_trend_chart(trend, standalone=True), content_type="image/svg+xml; charset=utf-8")


@blueprint.get(f"{SERIES_PATH}.csv")
def series_csv(project: str, benchmark: str, metric: str) -> Response:
    rows = serialize_trend(_load_trend(project, benchmark, metric))["points"]
    file_name = f"{encode_segment(benchmark)}-{encode_segment(metric)}.csv"
    return build_csv_response(view_model.POINT_COLUMNS, rows, file_name)


def _find_series(
    tx: Session, project: str, benchmark: str, metric: str
) -> tuple[SeriesRecord, list[SeriesRecord]]:
    """Find the series of an address, and all series of its benchmark."""
    require_project(tx, project)
    records = series_search.find_series_of_benchmark(tx, project, benchmark)
    candidates = [record for record in records if record.series.metric.name == metric]
    if not candidates:
        raise _benchmark_not_found(tx, project, f"{benchmark} · {metric}")
    matches = view_model.select_series_of_url(candidates, request.args)
    if not matches:
        links = build_project_links(project, (record.series for record in candidates))
        suggestions = [
            Suggestion(f"{record.series.label}, {record.series.machine.label}", links.series(record.series))
            for record in candidates
        ]
        text = f"{benchmark} · {metric} has {len(candidates)} series; the address names none of them exactly."
        raise PageNotFound(text, suggestions, "Choose one")
    return matches[0], records


def _load_trend(project: str, benchmark: str, metric: str) -> Trend:
    with web_context().store.read() as tx:
        record, records = _find_series(tx, project, benchmark, metric)
        trends, _ = _load_trends(tx, record, view_model.find_series_of_other_clock(record, records))
    return trends[record.id]


def _load_trends(
    tx: Session, record: SeriesRecord, twin: SeriesRecord | None
) -> tuple[dict[int, Trend], bool]:
    """Load the trends of a series and its twin by series id, and whether the series itself is judged."""
    records = [record, twin] if twin else [record]
    series_ids = {sibling.series: sibling.id for sibling in records}
    histories = measured_samples.load_histories_by_series_id(tx, list(series_ids.values()))
    points = {series: histories[series_id] for series, series_id in series_ids.items()}
    judged = view_model.find_judged_series(points)
    trends = VerdictsAndChangePoints.load(tx, series_ids.values()).build_trends(points)
    trends_by_id = {
        series_ids[series]: trend if series in judged else hide_levels_of_informational_trend(trend)
        for series, trend in trends.items()
    }
    return trends_by_id, record.series in judged and not record.is_informational


def _benchmark_not_found(tx: Session, project: str, requested_name: str) -> PageNotFound:
    all_series = load_project_series(tx, project, ~series_only_in_pulls_condition()).values()
    by_label = {series.label: series for series in all_series}
    links = build_project_links(project, all_series)
    return PageNotFound(
        f"The project {project} has no benchmark {requested_name}.",
        [
            Suggestion(label, links.series(by_label[label]))
            for label in find_closest_names(requested_name, by_label)
        ],
        "Did you mean",
    )
