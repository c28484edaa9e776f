"""Routes of pull requests: the list, and the address of a number, which leads to its comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flask import Blueprint, Response, jsonify, redirect, render_template
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response as BaseResponse

from perfci.model import Commit
from perfci.net.url_segments import encode_segment
from perfci.report.verdict_text import VerdictKindCount, count_verdict_kinds
from perfci.store.projects import Project
from perfci.store.queries.comparisons.comparison_verdicts import CommitPair, count_kinds_and_stages
from perfci.store.queries.comparisons.pull_request_uploads import (
    PullRequestRecord,
    list_measured_pull_requests,
)
from perfci.store.queries.series_commits_machines import load_commits_by_sha
from perfci_web.application_context import web_context
from perfci_web.comparisons.sides import PULL_PREFIX
from perfci_web.url_lookups import PageNotFound, build_project_links, require_project
from perfci_web.view_parts.csv_response import build_csv_response, format_name_value_pairs

blueprint = Blueprint("pull_requests", __name__)

CSV_COLUMNS = ("number", "head", "base", "measured_at", "verdicts")

LIST_PATH = "/<project:project>/pulls"

PULL_PATH = "/<project:project>/pr/<number:number>"

MAX_ROWS = 100
"""Pull requests that the list shows."""


@dataclass(frozen=True, slots=True)
class PullRequestRow:
    """One pull request of the list with what its newest commit came to."""

    record: PullRequestRecord
    head: Commit
    counts: tuple[VerdictKindCount, ...]


@blueprint.get(LIST_PATH)
def pull_requests_page(project: str) -> str:
    """List the pull requests that were measured last, the newest first."""
    with web_context().store.read() as tx:
        rows = _load_rows(tx, require_project(tx, project))
    return render_template(
        "pull_requests/pull_requests.html", project=project, rows=rows, links=build_project_links(project)
    )


@blueprint.get(f"{LIST_PATH}.json")
def pull_requests_json(project: str) -> Response:
    with web_context().store.read() as tx:
        rows = _load_rows(tx, require_project(tx, project))
    return jsonify({"project": project, "pull_requests": [_serialize_row(row) for row in rows]})


@blueprint.get(f"{LIST_PATH}.csv")
def pull_requests_csv(project: str) -> Response:
    with web_context().store.read() as tx:
        rows = [_serialize_row(row) for row in _load_rows(tx, require_project(tx, project))]
    counted = [row | {"verdicts": format_name_value_pairs(row["verdicts"])} for row in rows]
    return build_csv_response(CSV_COLUMNS, counted, f"{encode_segment(project)}-pulls.csv")


@blueprint.get(PULL_PATH)
@blueprint.get(f"{PULL_PATH}.json", defaults={"extension": "json"})
@blueprint.get(f"{PULL_PATH}.csv", defaults={"extension": "csv"})
def pull_request_page(project: str, number: int, extension: str = "") -> BaseResponse:
    """Lead to the comparison of a pull request with the commit that it starts from."""
    with web_context().store.read() as tx:
        stored_project = require_project(tx, project)
        records = list_measured_pull_requests(tx, stored_project.id, number=str(number))
    if not records:
        raise PageNotFound(f"Nothing was measured for the pull request #{number} of {project}.")
    links = build_project_links(project)
    if not records[0].base:
        return redirect(links.commit(records[0].head, extension))
    return redirect(links.compare(records[0].base, f"{PULL_PREFIX}{number}", extension))


def _load_rows(tx: Session, project: Project) -> list[PullRequestRow]:
    records = list_measured_pull_requests(tx, project.id)[:MAX_ROWS]
    commits = load_commits_by_sha(tx, project.slug, {record.head for record in records})
    return [
        PullRequestRow(
            record,
            commits.get(record.head, Commit(record.head)),
            tuple(
                count_verdict_kinds(
                    count_kinds_and_stages(tx, CommitPair(project.id, record.base, record.head))
                )
            ),
        )
        for record in records
    ]


def _serialize_row(row: PullRequestRow) -> dict[str, Any]:
    return {
        "number": int(row.record.number),
        "head": row.record.head,
        "base": row.record.base or None,
        "measured_at": row.record.measured_at.isoformat(),
        "verdicts": {count.label: count.count for count in row.counts},
    }
