"""Routes of the changes of a project: the page, and its JSON, CSV and feed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flask import Blueprint, Response, jsonify, redirect, render_template, request
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response as BaseResponse

from perfci.net.url_segments import encode_segment
from perfci.report.change_id import format_change_id
from perfci.report.change_list_text import change_description, change_title
from perfci.report.incidents.incident_text import member_change_sentence
from perfci.report.serializers import serialize_change_size, serialize_series
from perfci.report.series_places import SeriesPlaces
from perfci.store.column_conversions import series_identity
from perfci.store.incidents.recorded_changes import (
    RecordedChange,
    count_recorded_changes,
    load_recorded_changes,
)
from perfci.store.projects import Project
from perfci.store.queries.project_counts import find_last_result_time
from perfci.store.queries.series_commits_machines import load_series_of_same_cells
from perfci_web.application_context import web_context
from perfci_web.changes import view_model
from perfci_web.lens import SINCE_KEY, WINDOW_DAYS, LensView, TimeWindow, build_time_window, load_lens
from perfci_web.url_lookups import build_project_links, require_project
from perfci_web.view_parts.atom_feed import FeedEntry, build_atom_response
from perfci_web.view_parts.csv_response import build_csv_response, flatten_series_fields

blueprint = Blueprint("changes", __name__)

CHANGES_PATH = "/<project:project>/changes"


@blueprint.get(CHANGES_PATH)
def changes_page(project: str) -> str:
    query = view_model.parse_changes_query(request.args)
    with web_context().store.read() as tx:
        record = require_project(tx, project)
        lens, window = _load_lens_and_window(tx, record, query)
        page = view_model.build_changes_view(tx, record, query, lens, window)
        links = build_project_links(project, load_series_of_same_cells(tx, project, page.series))
    return render_template(
        "changes/changes.html",
        page=page,
        lens_view=lens,
        lens_extra=query.values,
        filters=view_model.DIRECTION_FILTERS,
        links=links,
        places=SeriesPlaces(page.series),
    )


@blueprint.get(f"{CHANGES_PATH}.json")
def changes_json(project: str) -> Response:
    changes = _load_all_changes(project, view_model.MAX_EXPORTED)
    items = [_serialize_change(project, recorded) for recorded in changes]
    return jsonify({"project": project, "items": items})


@blueprint.get(f"{CHANGES_PATH}.csv")
def changes_csv(project: str) -> Response:
    rows = []
    for recorded in _load_all_changes(project, view_model.MAX_EXPORTED):
        fields = _serialize_change(project, recorded)
        series, interval = fields.pop("series"), fields.pop("relative_change_interval")
        lo, hi = interval or (None, None)
        rows.append({**fields, **flatten_series_fields(series), "ci_lo": lo, "ci_hi": hi})
    return build_csv_response(CSV_COLUMNS, rows, f"{encode_segment(project)}-changes.csv")


@blueprint.get(f"{CHANGES_PATH}.atom")
def changes_feed(project: str) -> Response:
    changes = _load_all_changes(project, view_model.MAX_IN_FEED)
    links = build_project_links(project)
    entries = [
        FeedEntry(
            identity=f"{series_identity(project, recorded.change.series)}/{recorded.change.commit}",
            title=change_title(recorded.change, recorded.commit),
            address=links.changes(commit=recorded.change.commit),
            updated=recorded.changed_at,
            author=recorded.commit.author if recorded.commit else "",
            summary=change_description(recorded.change, recorded.commit, recorded.confirmed),
        )
        for recorded in changes
    ]
    return build_atom_response(f"Changes of {project}", f"{project}/changes", entries, web_context().clock())


@blueprint.get("/<project:project>/impact")
def old_changes_page(project: str) -> BaseResponse:
    """Redirect the address that this page had."""
    return _redirect_to_changes(project, "")


@blueprint.get("/<project:project>/impact.json")
def old_changes_json(project: str) -> BaseResponse:
    return _redirect_to_changes(project, "json")


CSV_COLUMNS = (
    "id",
    "commit",
    "committed_at",
    "author",
    "benchmark",
    "parameters",
    "metric",
    "unit",
    "direction",
    "machine",
    "variant",
    "before",
    "after",
    "relative_change",
    "ci_lo",
    "ci_hi",
    "confirmed",
    "incident",
    "state",
)


def _redirect_to_changes(project: str, extension: str) -> BaseResponse:
    arguments: dict[str, Any] = request.args.to_dict()
    moved = arguments.pop("effect", "")
    arguments.pop("before", None)
    query = {"since": "all", **({"moved": moved} if moved else {}), **arguments}
    return redirect(build_project_links(project).changes(extension, **query), 301)


def _load_lens_and_window(
    tx: Session, project: Project, query: view_model.ChangesQuery
) -> tuple[LensView, TimeWindow]:
    """Load the lens; an address without a time means the shortest window in which something changed."""
    view, now = load_lens(tx, project), web_context().clock()
    last_result_at = find_last_result_time(tx, project.id)
    for name in [view.lens.window] if SINCE_KEY in request.args else WINDOW_DAYS:
        candidate = replace(view, lens=replace(view.lens, window=name))
        window = build_time_window(candidate.lens, now, last_result_at)
        chosen = view_model.build_change_filter(query, candidate, window)
        if count_recorded_changes(tx, project.id, chosen).total:
            return candidate, window
    return view, build_time_window(view.lens, now, last_result_at)


def _load_all_changes(project: str, limit: int) -> list[RecordedChange]:
    """Load the changes of every page that an address means."""
    query = view_model.parse_changes_query(request.args)
    with web_context().store.read() as tx:
        record = require_project(tx, project)
        lens, window = _load_lens_and_window(tx, record, query)
        chosen = view_model.build_change_filter(query, lens, window)
        return load_recorded_changes(tx, record.id, chosen, limit=limit)


def _serialize_change(project: str, recorded: RecordedChange) -> dict[str, Any]:
    commit = recorded.commit
    return {
        "id": format_change_id(series_identity(project, recorded.change.series), recorded.change.commit),
        "commit": recorded.change.commit,
        "committed_at": commit.committed_at.isoformat() if commit and commit.committed_at else None,
        "author": commit.author if commit else "",
        "series": serialize_series(recorded.change.series),
        "sentence": member_change_sentence(recorded.change),
        **serialize_change_size(recorded.change),
        "confirmed": recorded.confirmed,
        "incident": recorded.incident,
        "state": recorded.state.value if recorded.state else None,
    }
