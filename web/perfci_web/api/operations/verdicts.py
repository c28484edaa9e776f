"""What was decided, and between which commits."""

from __future__ import annotations

from sqlalchemy.orm import Session

from perfci.auth.permissions import AccessRequirement
from perfci.model import Commit
from perfci.net.shapes import PageQuery
from perfci.net.shapes import verdicts as shapes
from perfci.report.serializers import serialize_verdict
from perfci.store.conversions import series_identity
from perfci.store.queries import measurements, paged_lists
from perfci.store.queries.comparison_verdicts import CommitPair, count_ranked_verdicts, list_ranked_verdicts
from perfci.store.queries.paged_lists import SeriesListItem, VerdictFilter
from perfci.store.queries.records import MeasuredProcess, VerdictRecord
from perfci.store.queries.result_summaries import load_level_pairs
from perfci_web.api import pagination
from perfci_web.api.calls import Call, Reply
from perfci_web.api.operation import Operation
from perfci_web.api.operations.series import page_reply, require_series, series_shape
from perfci_web.api.problems import ProblemError

PROJECT_RULE = "/projects/<project:project>"


def list_verdicts(call: Call) -> Reply:
    asked: shapes.VerdictQuery = call.query
    narrowed = VerdictFilter(
        base=asked.base,
        head=asked.head,
        kind=asked.verdict or "",
        stage=asked.stage or "",
        series_id=require_series(call, asked.series).id if asked.series else None,
        current_only=not asked.superseded,
    )
    with call.store.read() as tx:
        found = paged_lists.load_verdicts_page(
            tx,
            call.required_project.id,
            narrowed,
            before=pagination.parse_cursor(asked.cursor),
            limit=asked.limit + 1,
        )
    return page_reply(
        shapes.VerdictPage, found, asked, lambda one: one.id, lambda one: verdict_shape(call, one)
    )


def get_verdict(call: Call) -> Reply:
    with call.store.read() as tx:
        found = paged_lists.find_verdict(tx, call.required_project.id, call.path["verdict"])
        if found is None:
            raise ProblemError("not-found", "There is no verdict of this number here.")
        rests_on = paged_lists.load_evidence_processes(tx, found.verdict.evidence, found.verdict.series)
    told = verdict_shape(call, found).model_dump() | {"processes": [_evidence_shape(one) for one in rests_on]}
    return Reply(shapes.VerdictDetailShape.model_validate(told))


def get_comparison(call: Call) -> Reply:
    """The verdicts that stand between two commits; nothing is computed for whoever asks."""
    asked: PageQuery = call.query
    with call.store.read() as tx:
        base, head = (_require_commit(tx, call, call.path[side]) for side in ("base", "head"))
        between = CommitPair(call.required_project.id, base.sha, head.sha)
        counts = count_ranked_verdicts(tx, between)
        found = list_ranked_verdicts(
            tx, between, after=pagination.parse_cursor(asked.cursor), limit=asked.limit + 1
        )
    items, following = pagination.cut_page(found, asked.limit, lambda one: one.rank)
    told = tuple(verdict_shape(call, one.record) for one in items)
    page = {"base": base.sha, "head": head.sha, "counts": counts, "items": told, "next": following}
    return Reply(shapes.ComparisonPage.model_validate(page))


def list_levels(call: Call) -> Reply:
    """What every series came to at two commits, without a sample being read."""
    asked: shapes.ResultSummaryQuery = call.query
    with call.store.read() as tx:
        base, head = (_require_commit(tx, call, call.path[side]) for side in ("base", "head"))
        found = load_level_pairs(
            tx, call.required_project.id, base.sha, head.sha, after=pagination.parse_cursor(asked.cursor)
        )
    items, following = pagination.cut_page(found, asked.limit, lambda one: one.series_id)
    told = tuple(
        shapes.ResultSummaryShape(series=one.identity, base=one.base, head=one.head) for one in items
    )
    return Reply(shapes.ResultSummaryPage(items=told, next=following))


def verdict_shape(call: Call, record: VerdictRecord) -> shapes.VerdictShape:
    series = record.verdict.series
    line = SeriesListItem(0, series_identity(call.required_project.slug, series), series)
    told = serialize_verdict(record.verdict) | {"series": series_shape(line), "id": record.id}
    about = {
        "session": record.session_uid,
        "created_at": record.created_at,
        "superseded_by": record.superseded_by,
    }
    return shapes.VerdictShape.model_validate(told | about)


def _evidence_shape(measured_process: MeasuredProcess) -> shapes.VerdictProcessShape:
    process = measured_process.process
    return shapes.VerdictProcessShape(
        id=measured_process.id,
        commit=measured_process.sha,
        role=process.role.value,
        status=process.status.value,
        pair=process.pair,
        clock=process.clock.value,
        samples=process.samples,
        flags=process.flags,
        reason=process.reason,
    )


def _require_commit(tx: Session, call: Call, sha: str) -> Commit:
    found = measurements.find_commit(tx, call.required_project.slug, sha)
    if found is None:
        raise ProblemError("not-found", "There is no commit of one of these shas here.")
    return found


OPERATIONS = (
    Operation(
        "list_verdicts",
        "GET",
        f"{PROJECT_RULE}/verdicts",
        AccessRequirement.READ,
        list_verdicts,
        "Verdicts, newest first",
        query=shapes.VerdictQuery,
        answers={200: shapes.VerdictPage},
        etag=True,
    ),
    Operation(
        "get_verdict",
        "GET",
        f"{PROJECT_RULE}/verdicts/<number:verdict>",
        AccessRequirement.READ,
        get_verdict,
        "One verdict with the samples it rests on",
        answers={200: shapes.VerdictDetailShape},
        etag=True,
    ),
    Operation(
        "get_comparison",
        "GET",
        f"{PROJECT_RULE}/comparisons/<name:base>...<name:head>",
        AccessRequirement.READ,
        get_comparison,
        "What stands between two commits, worst first, with counts of all",
        query=PageQuery,
        answers={200: shapes.ComparisonPage},
        etag=True,
    ),
    Operation(
        "list_levels",
        "GET",
        f"{PROJECT_RULE}/comparisons/<name:base>...<name:head>/levels",
        AccessRequirement.READ,
        list_levels,
        "What every series came to at two commits, compared or not",
        query=shapes.ResultSummaryQuery,
        answers={200: shapes.ResultSummaryPage},
        etag=True,
    ),
)
