"""Addresses of the list of benchmarks: the page, and its twins for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from flask import Flask, Response, jsonify, render_template, request
from sqlalchemy.orm import Session

from perfci.history.series_points import JudgedHistories
from perfci.model import Series
from perfci.net.url_segments import encode_segment
from perfci.store import Store
from perfci.store.incidents.mutes import load_mutes
from perfci.store.queries import measurements
from perfci.store.queries.latest_results import count_series_commits, load_series_records
from perfci.store.queries.records import SeriesRecord, StoredSeries
from perfci_web.benchmarks import view as benchmarks
from perfci_web.csv_export import csv_response, format_pairs
from perfci_web.lookups import project_links, require_project
from perfci_web.trends import SeriesVerdicts, load_level_trends
from perfci_web.view_parts.cells import CellRows

LIST_PATH = "/<project:project>/benchmarks"


def init_app(app: Flask, store: Store, clock: Callable[[], datetime]) -> None:
    app.add_url_rule(LIST_PATH, "benchmarks_page", partial(benchmarks_page, store, clock))
    app.add_url_rule(f"{LIST_PATH}.json", "benchmarks_json", partial(benchmarks_json, store))
    app.add_url_rule(f"{LIST_PATH}.csv", "benchmarks_csv", partial(benchmarks_csv, store))


def benchmarks_page(store: Store, clock: Callable[[], datetime], project: str) -> str:
    with store.read() as tx:
        everything, selection = _load_selection(tx, project, _query_options())
        if selection.show == benchmarks.UNAVAILABLE:
            never = [one for one in everything if one.never_measured]
            reasons = benchmarks.group_reasons(load_series_records(tx, project, never), selection.query)
            return _render_page(
                "benchmarks/unavailable.html", project, selection, everything, reasons=reasons
            )
        cells = _load_cells(tx, project, selection, everything)
        watched = load_mutes(tx, require_project(tx, project).id, clock())
    return _render_page(
        "benchmarks/benchmarks.html", project, selection, everything, cells=cells, watched=watched
    )


def _render_page(
    template: str,
    project: str,
    selection: benchmarks.SeriesSelection,
    all_series: Iterable[StoredSeries],
    **extra: Any,
) -> str:
    return render_template(
        template,
        project=project,
        page=selection,
        sorts=benchmarks.SORTS,
        sparkline_commits=benchmarks.SPARKLINE_COMMITS,
        unavailable=benchmarks.UNAVAILABLE,
        links=project_links(project, (one.series for one in all_series)),
        **extra,
    )


def benchmarks_json(store: Store, project: str) -> Response:
    with store.read() as tx:
        everything, selection = _load_selection(tx, project, _query_options())
        cells = _load_cells(tx, project, selection, everything)
    found = {
        "project": project,
        "page": selection.page,
        "pages": selection.pages,
        "total": selection.total,
        "unavailable": selection.unavailable,
    }
    return jsonify(found | {"series": [benchmarks.serialize_row(row) for cell in cells for row in cell.rows]})


def benchmarks_csv(store: Store, project: str) -> Response:
    """All results of the search, not only one page."""
    query, never = request.args.get("q", ""), request.args.get("show") == benchmarks.UNAVAILABLE
    with store.read() as tx:
        require_project(tx, project)
        found = measurements.search_series(tx, project, search=query)
        records = [record for record in found if record.never_measured == never]
        rows = _load_rows(tx, records, records)
    fields = [benchmarks.serialize_row(rows[record.id]) for record in records]
    plain = [
        row | {"parameters": format_pairs(row["parameters"]), "variant": format_pairs(row["variant"])}
        for row in fields
    ]
    return csv_response(
        plain[0].keys() if plain else ("benchmark",), plain, f"{encode_segment(project)}-benchmarks.csv"
    )


def _query_options() -> dict[str, Any]:
    return {
        "query": request.args.get("q", "").strip(),
        "sort": request.args.get("sort", "name"),
        "page": request.args.get("page", 1, type=int),
        "show": request.args.get("show", ""),
    }


def _load_selection(
    tx: Session, project: str, options: Mapping[str, Any]
) -> tuple[list[StoredSeries], benchmarks.SeriesSelection]:
    """All series of a project, and the page of them a request asks for."""
    require_project(tx, project)
    everything = measurements.search_stored_series(tx, project)
    return everything, benchmarks.select_series(
        everything, _load_ranks(tx, project, everything, options["sort"]), **options
    )


def _load_ranks(
    tx: Session, project: str, all_series: Sequence[StoredSeries], sort: str
) -> Mapping[Series, float]:
    """What to sort by, asked of all series only where it is wanted."""
    if sort == benchmarks.BY_CHANGE:
        decided = SeriesVerdicts.load(tx, [one.id for one in all_series])
        return benchmarks.largest_changes(decided.changes, decided.verdicts)
    if sort == benchmarks.BY_COMMITS:
        commits = count_series_commits(tx, project, [one.id for one in all_series])
        return {one.series: commits.get(one.id, 0) for one in all_series}
    if sort == benchmarks.BY_STATE:
        return {one.series: one.is_last_failed for one in load_series_records(tx, project, all_series)}
    return {}


def _load_cells(
    tx: Session, project: str, selection: benchmarks.SeriesSelection, all_series: Iterable[StoredSeries]
) -> list[CellRows[benchmarks.SeriesListRow]]:
    """What the page shows of the series that were asked for."""
    rows = _load_rows(tx, load_series_records(tx, project, selection.series), all_series)
    return [CellRows(cell.series, tuple(rows[one.id] for one in cell.rows)) for cell in selection.cells]


def _load_rows(
    tx: Session, records: Sequence[SeriesRecord], all_series: Iterable[StoredSeries]
) -> dict[int, benchmarks.SeriesListRow]:
    """The rows of some series by id, with what tells whether they are judged."""
    read = {one.series: one.id for one in benchmarks.add_clock_twins(records, all_series)}
    lines = JudgedHistories.load(tx, read.values())
    judged = set(lines.select_judged(tx, read))
    trends = load_level_trends(tx, lines, SeriesVerdicts.load(tx, [record.id for record in records]))
    return {
        one.id: benchmarks.build_row(one, trends[one.series], judged=one.series in judged) for one in records
    }
