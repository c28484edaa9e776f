"""Routes of results whose unit is unknown: what waits, and the form that says what it means."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from flask import Blueprint, Response, g, jsonify, redirect, render_template, request
from pydantic import ValidationError
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response as BaseResponse

from perfci.auth.permissions import AccessRequirement, decide_access
from perfci.model import PerfciError
from perfci.net.api_schemas.unresolved_results import MetricMeaning
from perfci.net.url_segments import encode_segment
from perfci.service.audit_context import AuditContext
from perfci.service.uploads.resolve_units import resolve_results_of_same_meaning
from perfci.store.projects import find_project
from perfci.store.unresolved_results import (
    UnitAnswer,
    UnresolvedResult,
    find_unresolved_result,
    load_unresolved_results,
)
from perfci_web.api.operations.unresolved_results import build_unresolved_payload
from perfci_web.application_context import current_actor, web_context
from perfci_web.url_lookups import build_project_links, require_project
from perfci_web.view_parts.csv_response import build_csv_response

blueprint = Blueprint("unresolved_results", __name__)

LIST_PATH = "/<project:project>/unresolved-results"
CSV_COLUMNS = ("id", "run", "format", "metric", "benchmark", "unit", "reason", "created_at", "results")


@dataclass(frozen=True, slots=True)
class WaitingMeaning:
    """Results that wait for one answer: the newest of them, and how many they are."""

    newest: UnresolvedResult
    count: int

    @property
    def first_values(self) -> list[float]:
        """The first numbers of the newest result, as the file gives them."""
        result = self.newest.document["result"]
        samples = [number for process in result.get("processes", ()) for number in process["samples"]]
        return (samples or [result["summary"]["value"]])[:5]


@blueprint.get(LIST_PATH)
def unresolved_results_page(project: str) -> str:
    return _render_page(project)


@blueprint.get(f"{LIST_PATH}.json")
def unresolved_results_json(project: str) -> Response:
    return jsonify({"project": project, "unresolved_results": _load_serialized_meanings(project)})


@blueprint.get(f"{LIST_PATH}.csv")
def unresolved_results_csv(project: str) -> Response:
    rows = _load_serialized_meanings(project)
    return build_csv_response(CSV_COLUMNS, rows, f"{encode_segment(project)}-unresolved-results.csv")


@blueprint.post(f"{LIST_PATH}/<int(max=2147483647):number>")
def resolve_result(project: str, number: int) -> BaseResponse | tuple[str, int]:
    """Set what a result means, for all that mean the same, and show what still waits."""
    actor, clock, request_id = current_actor(), web_context().clock, g.request_id
    try:
        meaning = MetricMeaning.model_validate(
            {"unit": request.form.get("unit", "").strip(), "direction": request.form.get("direction", "")}
        )
    except ValidationError:
        return _render_page(project, "Give a unit, such as ms, bytes or points, and a direction."), 400

    def job(tx: Session) -> None:
        record = find_project(tx, project)
        result = find_unresolved_result(tx, record.id, number) if record else None
        if record is None or result is None:
            raise PerfciError("This result does not wait any more.")
        answer = UnitAnswer(meaning.unit, meaning.direction)
        resolve_results_of_same_meaning(
            tx, result, record.id, answer, AuditContext(actor, clock(), request_id)
        )

    try:
        web_context().group_commit.submit(job)
    except PerfciError as error:
        return _render_page(project, str(error)), 409
    # 303: loading the next page again must not send the form again.
    return redirect(build_project_links(project).unresolved_results(), 303)


def _load_serialized_meanings(project: str) -> list[dict[str, Any]]:
    """Load what waits for an answer: the newest result of each meaning, and how many it stands for."""
    with web_context().store.read() as tx:
        meanings = _group_by_meaning(load_unresolved_results(tx, require_project(tx, project).id))
    return [
        build_unresolved_payload(meaning.newest).model_dump(mode="json") | {"results": meaning.count}
        for meaning in meanings
    ]


def _render_page(project: str, rejected: str = "") -> str:
    with web_context().store.read() as tx:
        record = require_project(tx, project)
        meanings = _group_by_meaning(load_unresolved_results(tx, record.id))
    return render_template(
        "unresolved_results/unresolved_results.html",
        project=project,
        meanings=meanings,
        links=build_project_links(project),
        may_change=decide_access(current_actor(), record, AccessRequirement.TRIAGE).allowed,
        rejected=rejected,
    )


def _group_by_meaning(waiting: Iterable[UnresolvedResult]) -> list[WaitingMeaning]:
    groups: dict[object, list[UnresolvedResult]] = {}
    for result in waiting:
        groups.setdefault(result.meaning_key, []).append(result)
    return [WaitingMeaning(group[-1], len(group)) for group in groups.values()]
