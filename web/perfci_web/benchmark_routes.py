"""Addresses of the list of benchmarks: the page, and its twins for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from flask import Flask, Response, jsonify, render_template, request
from sqlalchemy.orm import Session

from perfci.net.slugs import segment
from perfci.service.judged_points import JudgedLines
from perfci.service.small_trends import Decided, small_trends
from perfci.store import Store, reads
from perfci.store.records import SeriesRecord
from perfci.store.suspensions import suspensions
from perfci_web.lookups import known_project, links_of
from perfci_web.pages import benchmarks
from perfci_web.pages.cells import Cell
from perfci_web.tables import csv_table, flat

LIST = "/<project:project>/benchmarks"


def install(app: Flask, store: Store, clock: Callable[[], datetime]) -> None:
    app.add_url_rule(LIST, "benchmarks_page", partial(benchmarks_page, store, clock))
    app.add_url_rule(f"{LIST}.json", "benchmarks_json", partial(benchmarks_json, store))
    app.add_url_rule(f"{LIST}.csv", "benchmarks_csv", partial(benchmarks_csv, store))


def benchmarks_page(store: Store, clock: Callable[[], datetime], project: str) -> str:
    knobs = _knobs()
    with store.read() as tx:
        everything, selection, rows = _selected(tx, project, knobs)
        watched = suspensions(tx, known_project(tx, project).id, clock())
    never = selection.show == benchmarks.UNAVAILABLE
    return render_template(
        "unavailable.html" if never else "benchmarks.html",
        project=project,
        page=selection,
        cells=rows,
        reasons=benchmarks.reasons(everything, selection.query) if never else (),
        sorts=benchmarks.SORTS,
        sparkline_commits=benchmarks.SPARKLINE_COMMITS,
        unavailable=benchmarks.UNAVAILABLE,
        watched=watched,
        links=links_of(project, (record.series for record in everything)),
    )


def benchmarks_json(store: Store, project: str) -> Response:
    with store.read() as tx:
        _, selection, cells = _selected(tx, project, _knobs())
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
        found = reads.series_of_project(tx, project, search=query)
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


def _selected(
    tx: Session, project: str, knobs: Mapping[str, Any]
) -> tuple[list[SeriesRecord], benchmarks.Selection, list[Cell[benchmarks.Row]]]:
    """All series of a project, the page of them a request asks for, and its rows."""
    known_project(tx, project)
    everything = reads.series_of_project(tx, project)
    by_size = knobs["sort"] == benchmarks.BY_CHANGE
    decided = Decided.of(tx, [record.id for record in everything]) if by_size else Decided((), ())
    sizes = benchmarks.sizes_of_changes(decided.changes, decided.verdicts)
    selection = benchmarks.selection(everything, sizes, **knobs)
    rows = _rows(tx, selection.records, everything)
    cells = [Cell(cell.series, tuple(rows[record.id] for record in cell.rows)) for cell in selection.cells]
    return everything, selection, cells


def _rows(
    tx: Session, records: Sequence[SeriesRecord], everything: Iterable[SeriesRecord]
) -> dict[int, benchmarks.Row]:
    """The rows of some series by id, with what tells whether they are judged."""
    read = {record.series: record.id for record in benchmarks.with_twins(records, everything)}
    lines = JudgedLines.of(tx, read.values())
    judged = set(lines.judged(tx, read))
    trends = small_trends(tx, lines, Decided.of(tx, [record.id for record in records]))
    return {one.id: benchmarks.row(one, trends[one.series], judged=one.series in judged) for one in records}
