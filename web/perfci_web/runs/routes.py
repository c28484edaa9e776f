"""Routes of one run: what it measured, on what, and who uploaded it, as page, JSON and CSV."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify, render_template, request
from sqlalchemy.orm import Session

from perfci.report.series_places import SeriesPlaces
from perfci.store.queries.comparisons.results_of_runs import load_results_of_runs
from perfci.store.queries.runs_and_sessions import find_run, load_run_commit_and_origin
from perfci.store.queries.series_commits_machines import load_series_by_ids, load_series_of_same_cells
from perfci_web.application_context import may_triage, web_context
from perfci_web.runs.view_model import RunView, build_run_view, paginate_results, serialize_run
from perfci_web.url_lookups import PageNotFound, build_project_links, require_project
from perfci_web.view_parts.csv_response import SERIES_COLUMNS, build_csv_response, build_series_cells
from perfci_web.view_parts.list_search_and_paging import parse_list_query

blueprint = Blueprint("runs", __name__)

RUN_PATH = "/<project:project>/run/<key:key>"


@blueprint.get(RUN_PATH)
def run_page(project: str, key: str) -> str:
    with web_context().store.read() as tx:
        page = _load_run_view(tx, project, key)
        results = paginate_results(page, parse_list_query(request.args, ("results",)))
        listed = [result.series for result in results.rows]
        listed += [series for reason in page.failed for series in reason.series]
        links = build_project_links(project, load_series_of_same_cells(tx, project, listed))
        may_change = may_triage(require_project(tx, project))
    return render_template(
        "runs/run.html",
        page=page,
        results=results,
        links=links,
        places=SeriesPlaces(listed),
        query=request.args.get("q", "").strip(),
        may_change=may_change,
    )


@blueprint.get(f"{RUN_PATH}.json")
def run_json(project: str, key: str) -> Response:
    """What the page shows; the run document with all samples is at ``/api/v1``."""
    with web_context().store.read() as tx:
        page = _load_run_view(tx, project, key)
    return jsonify(serialize_run(page))


@blueprint.get(f"{RUN_PATH}.csv")
def run_csv(project: str, key: str) -> Response:
    """The levels of the run, one series a line."""
    with web_context().store.read() as tx:
        page = _load_run_view(tx, project, key)
    rows = [build_series_cells(result.series) | {"level": result.level} for result in page.results]
    return build_csv_response((*SERIES_COLUMNS, "level"), rows, f"run-{key[:12]}.csv")


def _load_run_view(tx: Session, project: str, key: str) -> RunView:
    require_project(tx, project)
    record = find_run(tx, project, key)
    if record is None:
        raise PageNotFound(f"The project {project} has no run {key[:12]}…: it may have been deleted.")
    commit, origin = load_run_commit_and_origin(tx, record.id)
    results = load_results_of_runs(tx, [record.id])
    series = load_series_by_ids(tx, {result.series_id for result in results})
    return build_run_view(project, record, commit, origin, [(series[r.series_id], r) for r in results])
