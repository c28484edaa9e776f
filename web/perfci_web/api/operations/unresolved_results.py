"""Results that wait because the unit or the direction of their metric is unknown."""

from __future__ import annotations

from sqlalchemy.orm import Session

from perfci.auth.permissions import AccessRequirement
from perfci.net.api_schemas import PageQuery
from perfci.net.api_schemas.unresolved_results import (
    MetricMeaning,
    ResolvedResults,
    UnresolvedResultPage,
    UnresolvedResultShape,
)
from perfci.service.uploads.resolve_units import resolve_results_of_same_meaning
from perfci.store import unresolved_results
from perfci.store.unresolved_results import UnitAnswer, UnresolvedResult
from perfci_web.api import pagination
from perfci_web.api.operation import PROJECT_RULE, Call, Operation, Reply
from perfci_web.api.problem_details import ProblemError


def list_unresolved_results(call: Call) -> Reply:
    query: PageQuery = call.query
    with call.store.read() as tx:
        results = unresolved_results.list_unresolved_results(
            tx, call.required_project.id, after=pagination.parse_cursor(query.cursor), limit=query.limit + 1
        )
    return pagination.build_page_reply(
        UnresolvedResultPage, results, query.limit, lambda result: result.id, build_unresolved_payload
    )


def set_metric_unit(call: Call) -> Reply:
    meaning: MetricMeaning = call.body
    project = call.required_project

    def write(tx: Session) -> ResolvedResults:
        record = unresolved_results.find_unresolved_result(tx, project.id, call.path["number"])
        if record is None:
            raise ProblemError("not-found", "There is no unresolved result of this number here.")
        answer = UnitAnswer(meaning.unit, meaning.direction)
        resolved = resolve_results_of_same_meaning(tx, record, project.id, answer, call.audit_context)
        return ResolvedResults(resolved=resolved)

    return Reply(call.group_commit.submit(write))


def build_unresolved_payload(record: UnresolvedResult) -> UnresolvedResultShape:
    return UnresolvedResultShape(
        id=record.id,
        run=record.run_key,
        format=record.format,
        metric=record.metric,
        benchmark=record.benchmark,
        unit=record.unit_in_file,
        reason=record.reason,
        created_at=record.created_at,
        raw_result=record.document["found"],
    )


OPERATIONS = (
    Operation(
        "list_unresolved_results",
        "GET",
        f"{PROJECT_RULE}/unresolved-results",
        AccessRequirement.READ,
        list_unresolved_results,
        "Results whose unit or direction is unknown",
        query=PageQuery,
        answers={200: UnresolvedResultPage},
        etag=True,
    ),
    Operation(
        "resolve_result",
        "POST",
        f"{PROJECT_RULE}/unresolved-results/<number:number>/resolve",
        AccessRequirement.TRIAGE,
        set_metric_unit,
        "Set unit and direction of a metric; all its waiting results are judged",
        body=MetricMeaning,
        answers={200: ResolvedResults},
    ),
)
