"""Routes of matrices: the list of what has one, and one matrix, each as page, JSON and CSV."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flask import Blueprint, Response, jsonify, render_template, request
from sqlalchemy.orm import Session

from perfci.model import Series
from perfci.net.url_segments import encode_segment
from perfci.store.projects import Project
from perfci.store.queries.history_conditions import series_only_in_pulls_condition
from perfci.store.queries.series_commits_machines import load_project_series
from perfci.store.queries.series_search import load_series_of_metric
from perfci_web.application_context import web_context
from perfci_web.matrix import view_model
from perfci_web.matrix.axes import Axis, list_axes
from perfci_web.matrix.load_matrix import load_matrix
from perfci_web.url_lookups import (
    PageNotFound,
    build_benchmark_not_found_error,
    build_project_links,
    require_project,
)
from perfci_web.view_parts.csv_response import build_csv_response, format_name_value_pairs
from perfci_web.view_parts.list_search_and_paging import PAGE_ROWS

blueprint = Blueprint("matrix", __name__)

CHOOSER_PATH = "/<project:project>/matrix"
MATRIX_PATH = f"{CHOOSER_PATH}/<name:benchmark>/<name:metric>"
CHOOSER_COLUMNS = ("benchmark", "metric", "axes", "series")
MAX_TEXT = 200
"""Characters of a value of an address; a longer one chooses nothing."""


@dataclass(frozen=True, slots=True)
class ChooserRow:
    """A benchmark and metric with the axes of its series."""

    benchmark: str
    metric: str
    axes: tuple[Axis, ...]
    series: int


@blueprint.get(CHOOSER_PATH)
def matrix_chooser_page(project: str) -> str:
    """List every benchmark and metric that was measured with two values of something."""
    search, rows = _load_choices(project)
    pages = max(1, -(-len(rows) // PAGE_ROWS))
    page = min(max(1, request.args.get("page", 1, type=int)), pages)
    return render_template(
        "matrix/matrix_chooser.html",
        project=project,
        search=search,
        total=len(rows),
        rows=rows[(page - 1) * PAGE_ROWS : page * PAGE_ROWS],
        page=page,
        pages=pages,
        links=build_project_links(project),
    )


@blueprint.get(f"{CHOOSER_PATH}.json")
def matrix_chooser_json(project: str) -> Response:
    """All matrices of the search, not only one page."""
    _, rows = _load_choices(project)
    return jsonify({"project": project, "matrices": [_serialize_choice(row) for row in rows]})


@blueprint.get(f"{CHOOSER_PATH}.csv")
def matrix_chooser_csv(project: str) -> Response:
    _, rows = _load_choices(project)
    fields = [_serialize_choice(row) for row in rows]
    csv_rows = [row | {"axes": format_name_value_pairs(row["axes"])} for row in fields]
    return build_csv_response(CHOOSER_COLUMNS, csv_rows, f"{encode_segment(project)}-matrices.csv")


@blueprint.get(MATRIX_PATH)
def matrix_page(project: str, benchmark: str, metric: str) -> str:
    with web_context().store.read() as tx:
        view, series = _load_view(tx, require_project(tx, project), benchmark, metric)
    return render_template(
        "matrix/matrix.html",
        project=project,
        page=view,
        links=build_project_links(project, series),
        ratio_text=view_model.format_cell_ratio,
        interval_text=view_model.format_cell_interval,
    )


@blueprint.get(f"{MATRIX_PATH}.json")
def matrix_json(project: str, benchmark: str, metric: str) -> Response:
    with web_context().store.read() as tx:
        view, _ = _load_view(tx, require_project(tx, project), benchmark, metric)
    return jsonify(view_model.serialize_matrix(project, view))


@blueprint.get(f"{MATRIX_PATH}.csv")
def matrix_csv(project: str, benchmark: str, metric: str) -> Response:
    with web_context().store.read() as tx:
        view, _ = _load_view(tx, require_project(tx, project), benchmark, metric)
    name = f"{encode_segment(benchmark)}-{encode_segment(metric)}-matrix.csv"
    return build_csv_response(view_model.CSV_COLUMNS, view_model.list_cell_fields(view), name)


def _load_choices(project: str) -> tuple[str, list[ChooserRow]]:
    """The search of the address, and every benchmark and metric that it leaves."""
    search = request.args.get("q", "").strip()[:MAX_TEXT]
    with web_context().store.read() as tx:
        require_project(tx, project)
        series = load_project_series(tx, project, ~series_only_in_pulls_condition())
    return search, _list_choices(series, search)


def _serialize_choice(row: ChooserRow) -> dict[str, Any]:
    """Return the JSON of a line: each axis with how many values it has."""
    axes = {axis.label: len(axis.values) for axis in row.axes}
    return {"benchmark": row.benchmark, "metric": row.metric, "axes": axes, "series": row.series}


def _list_choices(series: Mapping[int, Series], search: str) -> list[ChooserRow]:
    groups: dict[tuple[str, str], list[Series]] = {}
    words = search.lower().split()
    for each in series.values():
        name = f"{each.benchmark.name} {each.metric.name}".lower()
        if all(word in name for word in words):
            groups.setdefault((each.benchmark.name, each.metric.name), []).append(each)
    rows = [
        ChooserRow(benchmark, metric, tuple(list_axes(members)), len(members))
        for (benchmark, metric), members in sorted(groups.items())
    ]
    return [row for row in rows if row.axes]


def _load_view(
    tx: Session, project: Project, benchmark: str, metric: str
) -> tuple[view_model.MatrixView, list[Series]]:
    """Load a matrix; raise ``PageNotFound`` where there is no such benchmark, or nothing to lay out."""
    stored = load_series_of_metric(tx, project.slug, benchmark, metric)
    if not stored:
        raise build_benchmark_not_found_error(tx, project.slug, f"{benchmark} {metric}")
    newest = stored[max(stored)].metric  # a metric that changed its unit is another one
    series = {row_id: each for row_id, each in sorted(stored.items()) if each.metric == newest}
    axes = list_axes(series.values())
    if not axes:
        raise PageNotFound(f"{benchmark} {metric} has one parameter set at one place: it makes no matrix.")
    query = _parse_query(axes)
    loaded = load_matrix(tx, project, series, query.at, query.base)
    if loaded is None:
        raise PageNotFound(f"No commit of the history has a result of {benchmark} {metric}.")
    return view_model.build_matrix_view(series.values(), axes, query, loaded), list(series.values())


def _parse_query(axes: list[Axis]) -> view_model.MatrixQuery:
    values = {key: value for key, value in request.args.items() if 0 < len(value) <= MAX_TEXT}
    rows, cols, at, vs = (values.get(key, "").strip() for key in ("rows", "cols", "at", "vs"))
    filters = {axis.key: values[axis.key] for axis in axes if axis.key in values}
    return view_model.MatrixQuery(rows, cols, at, vs, filters)
