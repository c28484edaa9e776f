"""What was decided, and between which commits."""

from __future__ import annotations

from sqlalchemy.orm import Session

from perfci.auth.permissions import Need
from perfci.model import Commit
from perfci.net.shapes import Paged
from perfci.net.shapes import verdicts as shapes
from perfci.report.serializers import verdict_fields
from perfci.store.conversions import series_identity
from perfci.store.queries import measurements, paged_lists
from perfci.store.queries.comparison_verdicts import Between, standing, standing_counts
from perfci.store.queries.paged_lists import SeriesLine, VerdictFilter
from perfci.store.queries.records import MeasuredProcess, VerdictRecord
from perfci.store.queries.result_summaries import levels_between
from perfci_web.api import pagination
from perfci_web.api.calls import Call, Reply
from perfci_web.api.operation import Operation
from perfci_web.api.operations.series import page_of, series_of, series_shape
from perfci_web.api.problems import Declined

P = "/projects/<project:project>"


def list_verdicts(call: Call) -> Reply:
    asked: shapes.VerdictFilter = call.query
    narrowed = VerdictFilter(
        base=asked.base,
        head=asked.head,
        kind=asked.verdict or "",
        stage=asked.stage or "",
        series_id=series_of(call, asked.series).id if asked.series else None,
        current_only=not asked.superseded,
    )
    with call.store.read() as tx:
        found = paged_lists.verdicts_page(
            tx, call.the_project.id, narrowed, before=pagination.read(asked.cursor), limit=asked.limit + 1
        )
    return page_of(shapes.VerdictPage, found, asked, lambda one: one.id, lambda one: verdict_shape(call, one))


def get_verdict(call: Call) -> Reply:
    with call.store.read() as tx:
        found = paged_lists.verdict_of_id(tx, call.the_project.id, call.path["verdict"])
        if found is None:
            raise Declined("not-found", "There is no verdict of this number here.")
        rests_on = paged_lists.processes_of(tx, found.verdict.evidence, found.verdict.series)
    told = verdict_shape(call, found).model_dump() | {"processes": [_evidence(one) for one in rests_on]}
    return Reply(shapes.WholeVerdict.model_validate(told))


def get_comparison(call: Call) -> Reply:
    """The verdicts that stand between two commits; nothing is computed for whoever asks."""
    asked: Paged = call.query
    with call.store.read() as tx:
        base, head = (_commit(tx, call, call.path[side]) for side in ("base", "head"))
        between = Between(call.the_project.id, base.sha, head.sha)
        counts = standing_counts(tx, between)
        found = standing(tx, between, after=pagination.read(asked.cursor), limit=asked.limit + 1)
    items, following = pagination.page(found, asked.limit, lambda one: one.place)
    told = tuple(verdict_shape(call, one.record) for one in items)
    page = {"base": base.sha, "head": head.sha, "counts": counts, "items": told, "next": following}
    return Reply(shapes.ComparisonPage.model_validate(page))


def list_levels(call: Call) -> Reply:
    """What every series came to at two commits, without a sample being read."""
    asked: shapes.LevelFilter = call.query
    with call.store.read() as tx:
        base, head = (_commit(tx, call, call.path[side]) for side in ("base", "head"))
        found = levels_between(tx, call.the_project.id, base.sha, head.sha, after=pagination.read(asked.cursor))
    items, following = pagination.page(found, asked.limit, lambda one: one.series_id)
    told = tuple(shapes.LevelShape(series=one.identity, base=one.base, head=one.head) for one in items)
    return Reply(shapes.LevelPage(items=told, next=following))


def verdict_shape(call: Call, record: VerdictRecord) -> shapes.VerdictShape:
    series = record.verdict.series
    line = SeriesLine(0, series_identity(call.the_project.slug, series), series)
    told = verdict_fields(record.verdict) | {"series": series_shape(line), "id": record.id}
    about = {"session": record.session_uid, "created_at": record.created_at, "superseded_by": record.superseded_by}
    return shapes.VerdictShape.model_validate(told | about)


def _evidence(one: MeasuredProcess) -> shapes.EvidenceShape:
    process = one.process
    return shapes.EvidenceShape(
        id=one.id, commit=one.sha, role=process.role.value, status=process.status.value, pair=process.pair,
        clock=process.clock.value, samples=process.samples, flags=process.flags, reason=process.reason,
    )  # fmt: skip


def _commit(tx: Session, call: Call, sha: str) -> Commit:
    found = measurements.find_commit(tx, call.the_project.slug, sha)
    if found is None:
        raise Declined("not-found", "There is no commit of one of these shas here.")
    return found


OPERATIONS = (
    Operation(
        "list_verdicts", "GET", f"{P}/verdicts", Need.READ, list_verdicts, "Verdicts, newest first",
        query=shapes.VerdictFilter, answers={200: shapes.VerdictPage}, etag=True,
    ),
    Operation(
        "get_verdict", "GET", f"{P}/verdicts/<number:verdict>", Need.READ, get_verdict,
        "One verdict with the samples it rests on", answers={200: shapes.WholeVerdict}, etag=True,
    ),
    Operation(
        "get_comparison", "GET", f"{P}/comparisons/<name:base>...<name:head>", Need.READ, get_comparison,
        "What stands between two commits, worst first, with counts of all", query=Paged,
        answers={200: shapes.ComparisonPage}, etag=True,
    ),
    Operation(
        "list_levels", "GET", f"{P}/comparisons/<name:base>...<name:head>/levels", Need.READ, list_levels,
        "What every series came to at two commits, compared or not", query=shapes.LevelFilter,
        answers={200: shapes.LevelPage}, etag=True,
    ),
)  # fmt: skip
