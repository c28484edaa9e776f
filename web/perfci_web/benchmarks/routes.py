"""Routes of the list of benchmarks: the page and its JSON and CSV."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from flask import Blueprint, Response, jsonify, render_template, request
from sqlalchemy.orm import Session

from perfci.history.load_series_points import load_points_records
from perfci.model import Series
from perfci.net.url_segments import encode_segment
from perfci.report.charts.build_graph_scene import MAX_LINES
from perfci.report.series_places import SeriesPlaces
from perfci.store.derived_values import load_or_derive
from perfci.store.incidents.expected_changes_and_muted_benchmarks import load_mutes
from perfci.store.queries import series_search
from perfci.store.queries.archived_series import load_archived_series_ids
from perfci.store.queries.measured_series import load_series_with_newest_commits
from perfci.store.queries.project_status import load_change_ratios
from perfci.store.queries.query_records import SeriesRecord, StoredSeries
from perfci.store.series_archive import count_archived_by_hand, list_archived_series
from perfci_web.application_context import may_triage, web_context
from perfci_web.benchmarks import view_model
from perfci_web.benchmarks.benchmark_places import (
    METRIC_KEY,
    BenchmarkPlaces,
    load_places,
    select_places,
    serialize_place,
    serialize_places,
)
from perfci_web.benchmarks.csv_rows import HISTORY_COLUMNS, load_csv_rows
from perfci_web.benchmarks.load_rows import load_rows
from perfci_web.load_series_trends import (
    SPARKLINE_COMMITS,
)
from perfci_web.page_urls import PARAMETER_PREFIX
from perfci_web.url_lookups import (
    build_benchmark_not_found_error,
    build_project_links,
    raise_if_renamed,
    require_project,
)
from perfci_web.view_parts.csv_response import (
    SERIES_COLUMNS,
    build_csv_response,
    build_csv_response_of_cells,
    flatten_series_fields,
)
from perfci_web.view_parts.table_row_groups import CellRows

blueprint = Blueprint("benchmarks", __name__)

LIST_PATH = "/<project:project>/benchmarks"
BENCHMARK_PATH = "/<project:project>/b/<name:benchmark>"


@blueprint.get(LIST_PATH)
def benchmarks_page(project: str) -> str:
    context = web_context()
    with context.store.read() as tx:
        listed, selection = _load_selection(tx, project, _query_options())
        if selection.show == view_model.UNAVAILABLE:
            never_measured = [stored for cell in listed.unmeasured for stored in cell.rows]
            records = load_series_with_newest_commits(tx, project, never_measured)
            reasons = view_model.group_unmeasured_series_by_reason(records, selection.query)
            shown = [series for reason in reasons for series in reason.series]
            return _render_page("unavailable", project, selection, listed, shown, reasons=reasons)
        cells = _load_cells(tx, project, selection)
        project_id = require_project(tx, project).id
        mutes = load_mutes(tx, project_id, context.clock())
        by_hand = []
        if selection.archived:
            listed_ids = [stored.id for stored in selection.series]
            by_hand = list_archived_series(tx, project_id, series_ids=listed_ids)
        by_hand_count = count_archived_by_hand(tx, project_id)
    shown = [stored.series for stored in selection.series]
    return _render_page(
        "benchmarks",
        project,
        selection,
        listed,
        shown,
        cells=cells,
        muted=mutes,
        archive_notes={each.series_id: each for each in by_hand},
        by_hand=by_hand_count,
    )


@blueprint.get(BENCHMARK_PATH)
def benchmark_page(project: str, benchmark: str) -> str:
    """All series of one benchmark: every metric, parameter, machine and variant."""
    context = web_context()
    with context.store.read() as tx:
        project_record = require_project(tx, project)
        records = _find_records(tx, project, benchmark)
        chosen = [record for record in records if _matches_filters(record.series)]
        listed = view_model.build_series_list(chosen)
        selection = view_model.select_series_page(listed, {}, page=request.args.get("page", 1, type=int))
        cells = _load_cells(tx, project, selection)
        mutes = load_mutes(tx, project_record.id, context.clock())
        by_hand = list_archived_series(tx, project_record.id, series_ids=[record.id for record in records])
        places_selection = select_places(records, request.args)
        charted = load_places(tx, project, places_selection) if places_selection else None
    return render_template(
        "benchmarks/benchmark.html",
        project=project,
        benchmark=benchmark,
        page=selection,
        charted=charted,
        max_lines=MAX_LINES,
        filters=_table_filters(),
        places=SeriesPlaces(stored.series for stored in selection.series),
        sparkline_commits=SPARKLINE_COMMITS,
        links=build_project_links(project, (record.series for record in records)),
        cells=cells,
        muted=mutes,
        archived=by_hand,
        archive_notes={},
        listed_count=len(records),
        may_change=may_triage(project_record),
    )


@blueprint.get(f"{BENCHMARK_PATH}.json")
def benchmark_json(project: str, benchmark: str) -> Response:
    """The places of one metric of a benchmark, and which of them moved together."""
    charted = _load_all_places(project, benchmark)
    fields = {"project": project, "benchmark": benchmark}
    return jsonify(fields | (serialize_places(charted) if charted else {"places": []}))


@blueprint.get(f"{BENCHMARK_PATH}.csv")
def benchmark_csv(project: str, benchmark: str) -> Response:
    """The places of one metric of a benchmark, one a line."""
    charted = _load_all_places(project, benchmark)
    rows = [flatten_series_fields(serialize_place(place)) for place in charted.places] if charted else []
    columns = rows[0].keys() if rows else ("benchmark",)
    return build_csv_response(columns, rows, f"{encode_segment(benchmark)}.csv")


def _load_all_places(project: str, benchmark: str) -> BenchmarkPlaces | None:
    with web_context().store.read() as tx:
        require_project(tx, project)
        selection = select_places(_find_records(tx, project, benchmark), request.args)
        return load_places(tx, project, selection, all_places=True) if selection else None


def _find_records(tx: Session, project: str, benchmark: str) -> list[SeriesRecord]:
    """Find all series of a benchmark; a renamed one leads to its new name."""
    records = series_search.find_series_of_benchmark(tx, project, benchmark)
    if not records:
        raise_if_renamed(tx, project, benchmark)
        raise build_benchmark_not_found_error(tx, project, benchmark)
    return records


def _table_filters() -> dict[str, str]:
    """What the query says of the series that the table lists."""
    return {
        name: value
        for name, value in request.args.items()
        if name == METRIC_KEY or name.startswith(PARAMETER_PREFIX)
    }


def _matches_filters(series: Series) -> bool:
    """Whether a series has the metric and the parameters that the query of the page names, if any."""
    metric = request.args.get("metric", "")
    parameters = {f"{PARAMETER_PREFIX}{name}": value for name, value in series.parameters}
    wanted = {name: value for name, value in request.args.items() if name.startswith(PARAMETER_PREFIX)}
    return metric in ("", series.metric.name) and all(
        parameters.get(name) == value for name, value in wanted.items()
    )


@blueprint.get(f"{LIST_PATH}.json")
def benchmarks_json(project: str) -> Response:
    with web_context().store.read() as tx:
        _, selection = _load_selection(tx, project, _query_options())
        cells = _load_cells(tx, project, selection)
    return jsonify(
        {
            "project": project,
            "page": selection.page,
            "pages": selection.pages,
            "total": selection.total,
            "unavailable": selection.unavailable,
            "archived": selection.archived,
            "series": [view_model.serialize_series_list_row(row) for cell in cells for row in cell.rows],
        }
    )


@blueprint.get(f"{LIST_PATH}.csv")
def benchmarks_csv(project: str) -> Response:
    """All results of the search, not only one page."""
    query = request.args.get("q", "")
    show = request.args.get("show", "")
    with web_context().store.read() as tx:
        require_project(tx, project)
        matches = series_search.search_series_without_histories(tx, project, search=query)
        archived = load_archived_series_ids(tx, project, web_context().clock())
        chosen = [stored for stored in matches if _is_shown(stored, show, archived)]
        rows = load_csv_rows(tx, project, chosen)
    columns = (*SERIES_COLUMNS, *HISTORY_COLUMNS) if chosen else ("benchmark",)
    return build_csv_response_of_cells(columns, rows, f"{encode_segment(project)}-benchmarks.csv")


def _is_shown(stored: StoredSeries, show: str, archived: Collection[int]) -> bool:
    if show == view_model.UNAVAILABLE or stored.never_measured:
        return show == view_model.UNAVAILABLE and stored.never_measured
    return (stored.id in archived) == (show == view_model.ARCHIVED)


def _render_page(
    name: str,
    project: str,
    selection: view_model.SeriesSelection,
    listed: view_model.SeriesList,
    shown: Sequence[Series],
    **values: Any,
) -> str:
    return render_template(
        f"benchmarks/{name}.html",
        project=project,
        page=selection,
        places=SeriesPlaces(shown),
        sorts=view_model.SORTS,
        sparkline_commits=SPARKLINE_COMMITS,
        unavailable=view_model.UNAVAILABLE,
        archived=view_model.ARCHIVED,
        links=build_project_links(project, listed.find_namesakes(shown)),
        **values,
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
) -> tuple[view_model.SeriesList, view_model.SeriesSelection]:
    """Load all series of a project, and select the page of them that a request is for."""
    require_project(tx, project)
    listed = load_or_derive(
        tx,
        project,
        "series by cell",
        lambda: view_model.build_series_list(
            series_search.load_listed_series(tx, project),
            load_archived_series_ids(tx, project, web_context().clock()),
        ),
    )
    ranks = _load_ranks(tx, project, listed, options["sort"])
    return listed, view_model.select_series_page(listed, ranks, **options)


def _load_ranks(tx: Session, project: str, listed: view_model.SeriesList, sort: str) -> Mapping[int, float]:
    """Load the values to sort by, by series id; the order by name needs none."""
    if sort == view_model.BY_CHANGE:
        return view_model.rank_by_largest_change(load_change_ratios(tx, project))
    if sort not in (view_model.BY_COMMITS, view_model.BY_STATE):
        return {}
    records = load_points_records(tx, listed.search_texts, project=project)
    if sort == view_model.BY_COMMITS:
        return {series_id: record.commits for series_id, record in records.items()}
    return {series_id: record.is_last_failed for series_id, record in records.items()}


def _load_cells(
    tx: Session, project: str, selection: view_model.SeriesSelection
) -> list[CellRows[view_model.SeriesListRow]]:
    """Load the rows of the selected series."""
    rows = load_rows(tx, project, load_series_with_newest_commits(tx, project, selection.series))
    return [CellRows(cell.series, tuple(rows[stored.id] for stored in cell.rows)) for cell in selection.cells]
