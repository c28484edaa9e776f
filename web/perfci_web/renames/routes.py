"""Routes of renames: what was renamed as page, JSON and CSV, and the form that counts what would move, or
renames.
"""

from __future__ import annotations

from typing import Any, Literal

from flask import Blueprint, Response, g, jsonify, redirect, render_template, request
from pydantic import ValidationError
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response as BaseResponse

from perfci.auth.permissions import AccessRequirement, decide_access
from perfci.model import PerfciError, freeze_named_values
from perfci.net.api_schemas.renames import NewRename
from perfci.net.url_segments import encode_segment
from perfci.service.audit_context import AuditContext
from perfci.service.rename_benchmarks import (
    Rename,
    RenameOutcome,
    list_renames,
    preview_rename,
    rename_series,
    serialize_rename,
)
from perfci.store.projects import find_project
from perfci.store.queries.series_commits_machines import load_project_series
from perfci_web.application_context import current_actor, web_context
from perfci_web.url_lookups import build_project_links, require_project
from perfci_web.view_parts.csv_response import build_csv_response, format_name_value_pairs

blueprint = Blueprint("renames", __name__)

LIST_PATH = "/<project:project>/renames"
CSV_COLUMNS = ("kind", "old", "new", "defaults", "series")
INVALID = "Give the old and the new name, and defaults as NAME=VALUE, one on each line."


@blueprint.get(LIST_PATH)
def renames_page(project: str) -> str:
    return _render_page(project)


@blueprint.post(LIST_PATH)
def add_rename(project: str) -> BaseResponse | str | tuple[str, int]:
    """Count what a rename would move, or with ``confirmed`` rename."""
    rename = _parse_form()
    if rename is None:
        return _render_page(project, problem=INVALID), 400
    context = AuditContext(current_actor(), web_context().clock(), g.request_id)

    def write(tx: Session) -> None:
        record = find_project(tx, project)
        assert record is not None  # page_access checked it before the view ran
        rename_series(tx, context, record, rename)

    try:
        if not request.form.get("confirmed"):
            with web_context().store.read() as tx:
                outcome = preview_rename(tx, require_project(tx, project), rename)
            return _render_page(project, rename=rename, outcome=outcome)
        web_context().group_commit.submit(write)
    except PerfciError as error:
        return _render_page(project, rename=rename, problem=str(error)), 409
    # 303: loading the next page again must not send the form again.
    return redirect(build_project_links(project).renames(), 303)


@blueprint.get(f"{LIST_PATH}.json")
def renames_json(project: str) -> Response:
    return jsonify({"project": project, "renames": _load_serialized_renames(project)})


@blueprint.get(f"{LIST_PATH}.csv")
def renames_csv(project: str) -> Response:
    renames = _load_serialized_renames(project)
    rows = [row | {"defaults": format_name_value_pairs(row["defaults"])} for row in renames]
    return build_csv_response(CSV_COLUMNS, rows, f"{encode_segment(project)}-renames.csv")


def _load_serialized_renames(project: str) -> list[dict[str, Any]]:
    """Load the renames with how many series each moved."""
    with web_context().store.read() as tx:
        renames = list_renames(tx, require_project(tx, project))
    return [serialize_rename(stored).model_dump(mode="json") for stored in renames]


def _parse_form() -> Rename | None:
    """Parse the form; None where a name is missing or a default has no value."""
    lines = [line.strip() for line in request.form.get("defaults", "").splitlines() if line.strip()]
    pairs = [line.partition("=") for line in lines]
    kind: Literal["benchmark", "machine"] = (
        "machine" if request.form.get("kind") == "machine" else "benchmark"
    )
    try:
        body = NewRename(
            kind=kind,
            old=request.form.get("old", "").strip(),
            new=request.form.get("new", "").strip(),
            defaults={name.strip(): value.strip() for name, _, value in pairs},
        )
    except ValidationError:
        return None
    return Rename(body.kind, body.old, body.new, freeze_named_values(body.defaults))


def _render_page(
    project: str, *, rename: Rename | None = None, outcome: RenameOutcome | None = None, problem: str = ""
) -> str:
    with web_context().store.read() as tx:
        record = require_project(tx, project)
        renames = list_renames(tx, record)
        series = load_project_series(tx, project).values()
    return render_template(
        "renames/renames.html",
        project=project,
        renames=renames,
        rename=rename,
        outcome=outcome,
        problem=problem,
        names=sorted({item.benchmark.name for item in series} | {item.machine.label for item in series}),
        links=build_project_links(project),
        may_change=decide_access(current_actor(), record, AccessRequirement.ADMIN).allowed,
    )
