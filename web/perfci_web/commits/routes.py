"""The route of one commit."""

from __future__ import annotations

from functools import partial

from flask import Blueprint, Response, jsonify, render_template, request

from perfci.report.commits.commit_results_text import serialize_commit_report, serialize_commit_result
from perfci.report.series_places import SeriesPlaces
from perfci.service.load_commit_report import load_commit_report
from perfci.store.chart_notes import list_chart_notes
from perfci.store.incidents.incident_lists import list_incidents
from perfci.store.queries import (
    runs_and_sessions,
    series_commits_machines,
)
from perfci.store.queries.comparisons.variant_comparisons import count_variant_results
from perfci.store.queries.series_commits_machines import load_series_of_same_cells
from perfci.store.verdicts_and_change_points import load_change_points, load_verdict_records
from perfci_web.application_context import may_triage, web_context
from perfci_web.commits.load_values import load_commit_values, load_dots
from perfci_web.commits.view_model import LIST_NAMES, build_commit_view, paginate_lists
from perfci_web.url_lookups import build_project_links, require_commit, require_project
from perfci_web.view_parts.csv_response import SERIES_COLUMNS, build_csv_response, flatten_series_fields
from perfci_web.view_parts.list_search_and_paging import parse_list_query

blueprint = Blueprint("commits", __name__)

MAX_NOTES = 50

CSV_COLUMNS = (
    *SERIES_COLUMNS,
    "status",
    "reason",
    "level",
    "q25",
    "q75",
    "processes",
    "base",
    "base_level",
    "before",
    "after",
    "relative_change",
    "verdict",
)


@blueprint.get("/<project:project>/commit/<name:sha>")
def commit_page(project: str, sha: str) -> str:
    return render_commit_page(project, sha)


@blueprint.get("/<project:project>/commit/<name:sha>.json")
def commit_json(project: str, sha: str) -> Response:
    """The levels of a commit beside those before it, as ``perfci show --json`` has them."""
    context = web_context()
    with context.store.read() as tx:
        commit = require_commit(tx, project, sha)
        policy = context.load_policies(require_project(tx, project)).policy
        return jsonify(serialize_commit_report(load_commit_report(tx, project, commit, policy)))


@blueprint.get("/<project:project>/commit/<name:sha>.csv")
def commit_csv(project: str, sha: str) -> Response:
    """The levels of a commit, one series a line."""
    context = web_context()
    with context.store.read() as tx:
        commit = require_commit(tx, project, sha)
        policy = context.load_policies(require_project(tx, project)).policy
        report = load_commit_report(tx, project, commit, policy)
    rows = []
    for result in report.results:
        fields = serialize_commit_result(result)
        rows.append(fields | flatten_series_fields(fields["series"]))
    return build_csv_response(CSV_COLUMNS, rows, f"{commit.short_sha}.csv")


def render_commit_page(project: str, sha: str, rejection: str = "") -> str:
    """Render a commit; ``rejection`` says why a form of it was not accepted."""
    with web_context().store.read() as tx:
        commit = require_commit(tx, project, sha)
        records = runs_and_sessions.load_runs_of_commit(tx, project, commit.sha)
        run_ids = [record.id for record in records]
        verdicts = [
            *load_verdict_records(tx, project, head=commit.sha, with_pull_requests=True),
            *load_verdict_records(tx, project, base=commit.sha, with_pull_requests=True),
        ]
        page = build_commit_view(
            project,
            commit,
            series_commits_machines.load_commit_with_neighbours(tx, project, commit),
            records,
            load_commit_values(tx, project, run_ids),
            verdicts,
            load_change_points(tx, project, commit=commit.sha),
        )
        lists = paginate_lists(
            page, parse_list_query(request.args, LIST_NAMES), partial(load_dots, tx, run_ids)
        )
        project_record = require_project(tx, project)
        incidents = list_incidents(tx, project_record.id, commit=commit.sha)
        may_change = may_triage(project_record)
        notes = list_chart_notes(tx, project_record.id, sha=commit.sha, limit=MAX_NOTES)
        links = build_project_links(
            project,
            load_series_of_same_cells(
                tx, project, [*lists.linked_series, *(note.series for note in notes if note.series)]
            ),
        )
        variants, clauses = count_variant_results(tx, project_record.id, commit.sha)
    return render_template(
        "commits/commit.html",
        page=page,
        lists=lists,
        links=links,
        places=SeriesPlaces(lists.linked_series),
        incidents=incidents,
        notes=notes,
        variants=variants,
        clauses=clauses,
        may_change=may_change,
        rejection=rejection,
    )
