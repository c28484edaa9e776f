"""Routes of disagreements: the page, and its JSON and CSV."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify, render_template, request
from sqlalchemy.orm import Session

from perfci.net.url_segments import encode_segment
from perfci.report.series_places import SeriesPlaces
from perfci.store.incidents.recorded_changes import ChangeFilter, load_recorded_changes
from perfci.store.projects import Project
from perfci.store.queries.project_counts import find_last_result_time
from perfci.store.queries.series_commits_machines import load_series_of_same_cells
from perfci_web.application_context import web_context
from perfci_web.disagreements import view_model
from perfci_web.lens import LensView, build_time_window, load_lens
from perfci_web.url_lookups import build_project_links, require_commit, require_project
from perfci_web.view_parts.csv_response import build_csv_response

blueprint = Blueprint("disagreements", __name__)

DISAGREEMENTS_PATH = "/<project:project>/disagreements"

MAX_CHANGES = 5_000
"""Recorded changes that are read, the newest of them."""

MAX_SHOWN = 100
"""Benchmarks that the page shows."""


@blueprint.get(DISAGREEMENTS_PATH)
def disagreements_page(project: str) -> str:
    after = request.args.get("after", "")
    with web_context().store.read() as tx:
        lens, window, items = _load_disagreements(tx, require_project(tx, project), after)
        shown = items[:MAX_SHOWN]
        series = [move.series for each in shown for move in each.moves]
        links = build_project_links(project, load_series_of_same_cells(tx, project, series))
    return render_template(
        "disagreements/disagreements.html",
        project=project,
        lens_view=lens,
        window=window,
        after=after,
        items=shown,
        total=len(items),
        links=links,
        places=SeriesPlaces(series),
    )


@blueprint.get(f"{DISAGREEMENTS_PATH}.json")
def disagreements_json(project: str) -> Response:
    with web_context().store.read() as tx:
        _, _, items = _load_disagreements(tx, require_project(tx, project), request.args.get("after", ""))
    return jsonify(view_model.serialize_disagreements(project, items))


@blueprint.get(f"{DISAGREEMENTS_PATH}.csv")
def disagreements_csv(project: str) -> Response:
    """The places of each benchmark, one a line."""
    with web_context().store.read() as tx:
        _, _, items = _load_disagreements(tx, require_project(tx, project), request.args.get("after", ""))
    rows = [view_model.build_csv_row(move) for each in items for move in each.moves]
    return build_csv_response(view_model.CSV_COLUMNS, rows, f"{encode_segment(project)}-disagreements.csv")


def _load_disagreements(
    tx: Session, project: Project, after: str
) -> tuple[LensView, str, list[view_model.Disagreement]]:
    """The lens, the time in words, and what disagrees since the commit ``after``, else in the lens' time."""
    lens = load_lens(tx, project)
    window = build_time_window(lens.lens, web_context().clock(), find_last_result_time(tx, project.id))
    since, text = window.since, window.text
    if after:
        commit = require_commit(tx, project.slug, after)
        since, text = commit.committed_at, f"since {commit.short_sha}"
    chosen = ChangeFilter(
        confirmed_only=lens.lens.confirmed_only, branch=lens.lens.branch, since=since, places=lens.places
    )
    changes = load_recorded_changes(tx, project.id, chosen, limit=MAX_CHANGES)
    return lens, text, view_model.find_disagreements(changes)
