"""Addresses of one series: the page, its chart, and its twins for programs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial

from flask import Flask, Response, jsonify, render_template, request
from sqlalchemy.orm import Session

from perfci.net.url_segments import segment
from perfci.report.charts.series_trend import Trend, of_witness, thinned
from perfci.report.charts.svg_charts import trend_svg
from perfci.report.serializers import trend_fields
from perfci.store import Store
from perfci.store.incidents.mutes import suspensions
from perfci.store.queries import measurements
from perfci.store.queries.loaders import series_by_project
from perfci.store.queries.records import SeriesRecord
from perfci_web.csv_export import csv_table
from perfci_web.lookups import known_project, links_of
from perfci_web.not_found import Missing, Offer, nearest
from perfci_web.series import view as series
from perfci_web.trends import Decided
from perfci_web.view_parts import commit_values

SERIES = "/<project:project>/s/<name:benchmark>/<name:metric>"

MOST_POINTS = 1000
"""What a browser draws at most; a chart that asks for more gets neighbours merged."""


def install(app: Flask, store: Store, clock: Callable[[], datetime]) -> None:
    app.add_url_rule(SERIES, "series_page", partial(series_page, store, clock))
    for twin, view in (("json", series_json), ("svg", series_svg), ("csv", series_csv)):
        app.add_url_rule(f"{SERIES}.{twin}", f"series_{twin}", partial(view, store))


def series_page(store: Store, clock: Callable[[], datetime], project: str, benchmark: str, metric: str) -> str:
    with store.read() as tx:
        record, records = _series(tx, project, benchmark, metric)
        twin = series.twin_of(record, records)
        trends, judged = _shown(tx, record, twin)
        verdicts = measurements.verdict_records(tx, project, series_id=record.id)
        watched = suspensions(tx, known_project(tx, project).id, clock())
    beside = trends[twin.id] if twin else None
    page = series.series_page(project, trends[record.id], verdicts, records, beside=beside, judged=judged)
    mine = [one for one in watched if one.means(record.series)]
    return render_template(
        "series/series.html", page=page, watched=mine, links=links_of(project, (one.series for one in records))
    )


def series_json(store: Store, project: str, benchmark: str, metric: str) -> Response:
    """The whole series; ``?most=N`` merges neighbours down to about N points, as a chart wants them."""
    trend = _trend(store, project, benchmark, metric)
    most = request.args.get("most", type=int)
    drawn = thinned(trend, min(max(2, most), MOST_POINTS)) if most else trend
    return jsonify({"project": project} | trend_fields(drawn))


def series_svg(store: Store, project: str, benchmark: str, metric: str) -> Response:
    trend = _trend(store, project, benchmark, metric)
    return Response(trend_svg(trend, alone=True), content_type="image/svg+xml; charset=utf-8")


def series_csv(store: Store, project: str, benchmark: str, metric: str) -> Response:
    rows = trend_fields(_trend(store, project, benchmark, metric))["points"]
    return csv_table(series.POINT_COLUMNS, rows, f"{segment(benchmark)}-{segment(metric)}.csv")


def _series(tx: Session, project: str, benchmark: str, metric: str) -> tuple[SeriesRecord, list[SeriesRecord]]:
    """The series an address names, and all series of the same benchmark."""
    known_project(tx, project)
    records = measurements.find_series(tx, project, benchmark)
    alike = [record for record in records if record.series.metric.name == metric]
    if not alike:
        raise _no_benchmark(tx, project, f"{benchmark} · {metric}")
    fitting = series.chosen(alike, request.args)
    if not fitting:
        links = links_of(project, (one.series for one in alike))
        offers = [Offer(f"{one.series.label}, {one.series.machine.label}", links.series(one.series)) for one in alike]
        text = f"{benchmark} · {metric} has {len(alike)} series; the address names none of them exactly."
        raise Missing(text, offers, "Choose one")
    return fitting[0], records


def _trend(store: Store, project: str, benchmark: str, metric: str) -> Trend:
    with store.read() as tx:
        record, records = _series(tx, project, benchmark, metric)
        trends, _ = _shown(tx, record, series.twin_of(record, records))
    return trends[record.id]


def _shown(tx: Session, record: SeriesRecord, twin: SeriesRecord | None) -> tuple[dict[int, Trend], bool]:
    """A series and its twin as every page shows them, and whether the series itself is judged."""
    both = {one.series: one.id for one in (record, *([twin] if twin else []))}
    histories = measurements.histories(tx, list(both.values()))
    points = {one: histories[row_id] for one, row_id in both.items()}
    judged, trends = commit_values.judged_of(points), Decided.of(tx, both.values()).trends(points)
    shown = {both[one]: trend if one in judged else of_witness(trend) for one, trend in trends.items()}
    return shown, record.series in judged and not record.witness


def _no_benchmark(tx: Session, project: str, asked: str) -> Missing:
    known = series_by_project(tx, project).values()
    links = links_of(project, known)
    offers = {one.label: Offer(one.label, links.series(one)) for one in known}
    return Missing(
        f"The project {project} has no benchmark {asked}.", nearest(asked, list(offers.values())), "Did you mean"
    )
