"""Addresses of the list of benchmarks: the page, and its twins for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from flask import Flask, Response, jsonify, render_template, request
from sqlalchemy.orm import Session

from perfci.history.series_points import JudgedLines
from perfci.model import Series
from perfci.net.url_segments import segment
from perfci.store import Store
from perfci.store.incidents.mutes import suspensions
from perfci.store.queries import measurements
from perfci.store.queries.latest_results import commits_of_series, series_records
from perfci.store.queries.records import KnownSeries, SeriesRecord
from perfci_web.benchmarks import view as benchmarks
from perfci_web.csv_export import csv_table, flat
from perfci_web.lookups import known_project, links_of
from perfci_web.trends import Decided, small_trends
from perfci_web.view_parts.cells import Cell

LIST = "/<project:project>/benchmarks"


def install(app: Flask, store: Store, clock: Callable[[], datetime]) -> None:
    app.add_url_rule(LIST, "benchmarks_page", partial(benchmarks_page, store, clock))
    app.add_url_rule(f"{LIST}.json", "benchmarks_json", partial(benchmarks_json, store))
    app.add_url_rule(f"{LIST}.csv", "benchmarks_csv", partial(benchmarks_csv, store))


def benchmarks_page(store: Store, clock: Callable[[], datetime], project: str) -> str:
    with store.read() as tx:
        everything, selection = _selected(tx, project, _knobs())
        if selection.show == benchmarks.UNAVAILABLE:
            never = [one for one in everything if one.never_measured]
            reasons = benchmarks.reasons(series_records(tx, project, never), selection.query)
            return _page("benchmarks/unavailable.html", project, selection, everything, reasons=reasons)
        cells = _cells(tx, project, selection, everything)
        watched = suspensions(tx, known_project(tx, project).id, clock())
    return _page("benchmarks/benchmarks.html", project, selection, everything, cells=cells, watched=watched)


def _page(
    template: str, project: str, selection: benchmarks.Selection, everything: Iterable[KnownSeries], **more: Any
) -> str:
    return render_template(
        template,
        project=project,
        page=selection,
        sorts=benchmarks.SORTS,
        sparkline_commits=benchmarks.SPARKLINE_COMMITS,
        unavailable=benchmarks.UNAVAILABLE,
        links=links_of(project, (one.series for one in everything)),
        **more,
    )


def benchmarks_json(store: Store, project: str) -> Response:
    with store.read() as tx:
        everything, selection = _selected(tx, project, _knobs())
        cells = _cells(tx, project, selection, everything)
    found = {
        "project": project,
        "page": selection.page,
        "pages": selection.pages,
        "total": selection.total,
        "unavailable": selection.unavailable,
    }
    return jsonify(found | {"series": [benchmarks.row_fields(row) for cell in cells for row in cell.rows]})


def benchmarks_csv(store: Store, project: str) -> Response:
    """All results of the search, not only one page."""
    query, never = request.args.get("q", ""), request.args.get("show") == benchmarks.UNAVAILABLE
    with store.read() as tx:
        known_project(tx, project)
        found = measurements.series_of_project(tx, project, search=query)
        records = [record for record in found if record.never_measured == never]
        rows = _rows(tx, records, records)
    fields = [benchmarks.row_fields(rows[record.id]) for record in records]
    plain = [row | {"parameters": flat(row["parameters"]), "variant": flat(row["variant"])} for row in fields]
    return csv_table(plain[0].keys() if plain else ("benchmark",), plain, f"{segment(project)}-benchmarks.csv")


def _knobs() -> dict[str, Any]:
    return {
        "query": request.args.get("q", "").strip(),
        "sort": request.args.get("sort", "name"),
        "page": request.args.get("page", 1, type=int),
        "show": request.args.get("show", ""),
    }


def _selected(tx: Session, project: str, knobs: Mapping[str, Any]) -> tuple[list[KnownSeries], benchmarks.Selection]:
    """All series of a project, and the page of them a request asks for."""
    known_project(tx, project)
    everything = measurements.known_series_of_project(tx, project)
    return everything, benchmarks.selection(everything, _ranks(tx, project, everything, knobs["sort"]), **knobs)


def _ranks(tx: Session, project: str, everything: Sequence[KnownSeries], sort: str) -> Mapping[Series, float]:
    """What to sort by, asked of all series only where it is wanted."""
    if sort == benchmarks.BY_CHANGE:
        decided = Decided.of(tx, [one.id for one in everything])
        return benchmarks.sizes_of_changes(decided.changes, decided.verdicts)
    if sort == benchmarks.BY_COMMITS:
        commits = commits_of_series(tx, project, [one.id for one in everything])
        return {one.series: commits.get(one.id, 0) for one in everything}
    if sort == benchmarks.BY_STATE:
        return {one.series: one.failed_last for one in series_records(tx, project, everything)}
    return {}


def _cells(
    tx: Session, project: str, selection: benchmarks.Selection, everything: Iterable[KnownSeries]
) -> list[Cell[benchmarks.Row]]:
    """What the page shows of the series that were asked for."""
    rows = _rows(tx, series_records(tx, project, selection.series), everything)
    return [Cell(cell.series, tuple(rows[one.id] for one in cell.rows)) for cell in selection.cells]


def _rows(tx: Session, records: Sequence[SeriesRecord], everything: Iterable[KnownSeries]) -> dict[int, benchmarks.Row]:
    """The rows of some series by id, with what tells whether they are judged."""
    read = {one.series: one.id for one in benchmarks.with_twins(records, everything)}
    lines = JudgedLines.of(tx, read.values())
    judged = set(lines.judged(tx, read))
    trends = small_trends(tx, lines, Decided.of(tx, [record.id for record in records]))
    return {one.id: benchmarks.row(one, trends[one.series], judged=one.series in judged) for one in records}
