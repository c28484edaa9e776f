"""Addresses of one series: the page, its chart, and its twins for programs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial

from flask import Flask, Response, jsonify, render_template, request
from sqlalchemy.orm import Session

from perfci.net.url_segments import encode_segment
from perfci.report.charts.series_trend import Trend, downsample, hide_levels_of_informational
from perfci.report.charts.svg_charts import render_trend
from perfci.report.serializers import serialize_trend
from perfci.store import Store
from perfci.store.incidents.mutes import load_mutes
from perfci.store.queries import measurements
from perfci.store.queries.loaders import load_project_series
from perfci.store.queries.records import SeriesRecord
from perfci_web.csv_export import csv_response
from perfci_web.lookups import project_links, require_project
from perfci_web.not_found import PageNotFound, Suggestion, closest_suggestions
from perfci_web.series import view as series
from perfci_web.trends import SeriesVerdicts
from perfci_web.view_parts import commit_values

SERIES_PATH = "/<project:project>/s/<name:benchmark>/<name:metric>"

MAX_POINTS = 1000
"""What a browser draws at most; a chart that asks for more gets neighbours merged."""


def init_app(app: Flask, store: Store, clock: Callable[[], datetime]) -> None:
    app.add_url_rule(SERIES_PATH, "series_page", partial(series_page, store, clock))
    for twin, view in (("json", series_json), ("svg", series_svg), ("csv", series_csv)):
        app.add_url_rule(f"{SERIES_PATH}.{twin}", f"series_{twin}", partial(view, store))


def series_page(
    store: Store, clock: Callable[[], datetime], project: str, benchmark: str, metric: str
) -> str:
    with store.read() as tx:
        record, records = _find_series(tx, project, benchmark, metric)
        twin = series.find_clock_twin(record, records)
        trends, judged = _load_trends(tx, record, twin)
        verdicts = measurements.load_verdict_records(tx, project, series_id=record.id)
        watched = load_mutes(tx, require_project(tx, project).id, clock())
    beside = trends[twin.id] if twin else None
    page = series.build_series_view(
        project, trends[record.id], verdicts, records, twin_trend=beside, judged=judged
    )
    mine = [one for one in watched if one.matches(record.series)]
    return render_template(
        "series/series.html",
        page=page,
        watched=mine,
        links=project_links(project, (one.series for one in records)),
    )


def series_json(store: Store, project: str, benchmark: str, metric: str) -> Response:
    """The whole series; ``?most=N`` merges neighbours down to about N points, as a chart wants them."""
    trend = _load_trend(store, project, benchmark, metric)
    most = request.args.get("most", type=int)
    drawn = downsample(trend, min(max(2, most), MAX_POINTS)) if most else trend
    return jsonify({"project": project} | serialize_trend(drawn))


def series_svg(store: Store, project: str, benchmark: str, metric: str) -> Response:
    trend = _load_trend(store, project, benchmark, metric)
    return Response(render_trend(trend, standalone=True), content_type="image/svg+xml; charset=utf-8")


def series_csv(store: Store, project: str, benchmark: str, metric: str) -> Response:
    rows = serialize_trend(_load_trend(store, project, benchmark, metric))["points"]
    return csv_response(
        series.POINT_COLUMNS, rows, f"{encode_segment(benchmark)}-{encode_segment(metric)}.csv"
    )


def _find_series(
    tx: Session, project: str, benchmark: str, metric: str
) -> tuple[SeriesRecord, list[SeriesRecord]]:
    """The series an address names, and all series of the same benchmark."""
    require_project(tx, project)
    records = measurements.find_series(tx, project, benchmark)
    alike = [record for record in records if record.series.metric.name == metric]
    if not alike:
        raise _benchmark_not_found(tx, project, f"{benchmark} · {metric}")
    fitting = series.match_series(alike, request.args)
    if not fitting:
        links = project_links(project, (one.series for one in alike))
        offers = [
            Suggestion(f"{one.series.label}, {one.series.machine.label}", links.series(one.series))
            for one in alike
        ]
        text = f"{benchmark} · {metric} has {len(alike)} series; the address names none of them exactly."
        raise PageNotFound(text, offers, "Choose one")
    return fitting[0], records


def _load_trend(store: Store, project: str, benchmark: str, metric: str) -> Trend:
    with store.read() as tx:
        record, records = _find_series(tx, project, benchmark, metric)
        trends, _ = _load_trends(tx, record, series.find_clock_twin(record, records))
    return trends[record.id]


def _load_trends(
    tx: Session, record: SeriesRecord, twin: SeriesRecord | None
) -> tuple[dict[int, Trend], bool]:
    """A series and its twin as every page shows them, and whether the series itself is judged."""
    both = {one.series: one.id for one in (record, *([twin] if twin else []))}
    histories = measurements.load_histories(tx, list(both.values()))
    points = {one: histories[row_id] for one, row_id in both.items()}
    judged, trends = (
        commit_values.find_judged_series(points),
        SeriesVerdicts.load(tx, both.values()).build_trends(points),
    )
    shown = {
        both[one]: trend if one in judged else hide_levels_of_informational(trend)
        for one, trend in trends.items()
    }
    return shown, record.series in judged and not record.is_informational


def _benchmark_not_found(tx: Session, project: str, requested_name: str) -> PageNotFound:
    known = load_project_series(tx, project).values()
    links = project_links(project, known)
    offers = {one.label: Suggestion(one.label, links.series(one)) for one in known}
    return PageNotFound(
        f"The project {project} has no benchmark {requested_name}.",
        closest_suggestions(requested_name, list(offers.values())),
        "Did you mean",
    )
