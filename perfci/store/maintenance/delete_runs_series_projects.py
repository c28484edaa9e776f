"""Delete runs, series and whole projects with everything that hangs on them, in short transactions.

A deletion is recorded first. While it is, triggers let verdicts of its project go. Each batch deletes a
bounded number of rows, children before what they refer to; the last one removes the record. The caller owns
the transaction ``tx``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.store.jobs.work_queue_and_leases import enqueue_work
from perfci.store.projects import mark_projects_changed
from perfci.store.queries.history_conditions import HISTORY_KINDS, pull_request_session_condition
from perfci.store.tables.access import MembershipRow, TokenRow
from perfci.store.tables.base import TableBase
from perfci.store.tables.chart_notes import ChartNoteRow
from perfci.store.tables.deletions import DeletionRow
from perfci.store.tables.explanations import ArtifactRow, CallProfileRow, ExplanationRow, ProfilePartRow
from perfci.store.tables.github import RepositoryRow, RunEventRow, RunTokenRow
from perfci.store.tables.incidents import (
    EvaluationRow,
    ExpectedChangeRow,
    ImpactRow,
    IncidentEventRow,
    IncidentMemberRow,
    IncidentRow,
    MutedBenchmarkRow,
    ReportingScheduleRow,
)
from perfci.store.tables.measurement_orders import MeasurementOrderRow, OrderRequestRow
from perfci.store.tables.measurements import (
    BenchmarkRow,
    CommitRow,
    EnvironmentRow,
    InvalidMarkRow,
    MachineRow,
    ProcessRow,
    ProjectRow,
    ResultRow,
    RunRow,
    SeriesCountRow,
    SeriesRow,
    SessionRow,
    UnresolvedResultRow,
    VariantRow,
)
from perfci.store.tables.notifications import DeliveryRow, DestinationRow
from perfci.store.tables.series_archive import ArchivedSeriesRow
from perfci.store.tables.short_links import ShortLinkRow
from perfci.store.tables.variant_comparisons import (
    GoalClauseRow,
    VariantComparisonRow,
    VariantStepRow,
    VariantVerdictRow,
)
from perfci.store.tables.verdicts import ChangePointRow, DecisionRow, VerdictRow
from perfci.store.tables.work_queue_and_leases import OutboxRow
from perfci.store.transactions import forget_cached_ids
from perfci.store.writes.series_points import delete_series_points, mark_series_points_stale

ROWS_PER_BATCH = 500
"""Results, or rows of another table, that one transaction deletes: some ten milliseconds."""

RUNS_PER_BATCH = 50

SERIES_TABLES = (
    ChangePointRow,
    IncidentMemberRow,
    ImpactRow,
    InvalidMarkRow,
    VariantVerdictRow,
    GoalClauseRow,
    ChartNoteRow,
    ArchivedSeriesRow,
)
"""Tables whose rows are of one series, beside its verdicts and results."""

DeletionKind = Literal["run", "series", "project"]
Row = type[TableBase]
Condition = sa.ColumnElement[bool]


@dataclass(frozen=True, slots=True)
class Deletion:
    """A recorded deletion; ``row_id`` is the id of a run, a series or the project."""

    id: int
    project_id: int
    kind: DeletionKind
    row_id: int
    run_keys: Sequence[str] = ()


def record_deletion_request(
    tx: Session, project_id: int, kind: DeletionKind, row_id: int, at: datetime
) -> None:
    """Record a deletion, once; it is carried out by ``delete_next_batch``."""
    same = (DeletionRow.kind == kind, DeletionRow.row_id == row_id)
    if tx.scalar(sa.select(DeletionRow.id).where(*same)) is not None:
        return
    keys = _find_runs_to_judge_again(tx, row_id) if kind == "run" else []
    values = {"project_id": project_id, "kind": kind, "row_id": row_id, "requested_at": at, "run_keys": keys}
    tx.execute(sa.insert(DeletionRow.__table__), values)


def delete_next_batch(tx: Session, at: datetime, limit: int = ROWS_PER_BATCH) -> bool:
    """Delete a batch of the oldest deletion; return False where nothing is left to delete."""
    row = tx.execute(sa.select(*DeletionRow.__table__.c).order_by(DeletionRow.id).limit(1)).first()
    if row is None:
        return False
    deletion = Deletion(row.id, row.project_id, row.kind, row.row_id, tuple(row.run_keys))
    delete_part = {
        "run": _delete_part_of_run,
        "series": _delete_part_of_series,
        "project": _delete_part_of_project,
    }
    if not delete_part[deletion.kind](tx, deletion, limit):
        _finish(tx, deletion, at)
    forget_cached_ids(tx)
    return True


def _finish(tx: Session, deletion: Deletion, at: datetime) -> None:
    """Remove the record, and what nothing of the database refers to any more."""
    _delete(tx, DeletionRow, DeletionRow.id == deletion.id)
    if deletion.kind == "project":
        _delete(tx, DeletionRow, DeletionRow.project_id == deletion.project_id)
        _delete(tx, ProjectRow, ProjectRow.id == deletion.project_id)
    else:
        there = sa.select(RunRow.key).where(RunRow.key.in_(deletion.run_keys)).order_by(RunRow.key)
        enqueue_work(tx, deletion.project_id, "judge", tx.scalars(there).all(), at)
        enqueue_work(tx, deletion.project_id, "evaluate", ["deletion"], at)
        mark_projects_changed(tx, [deletion.project_id])
    _delete_unused_contexts(tx)


def _delete_part_of_run(tx: Session, deletion: Deletion, limit: int) -> bool:
    run_id = deletion.row_id
    if _delete_results(tx, ResultRow.run_id == run_id, limit):
        return True
    run = tx.execute(
        sa.select(RunRow.session_id, RunRow.key, CommitRow.sha)
        .join(CommitRow, RunRow.commit_id == CommitRow.id)
        .where(RunRow.id == run_id)
    ).first()
    if run is not None:
        of_commit = sa.or_(VerdictRow.base == run.sha, VerdictRow.head == run.sha)
        if _delete_verdicts(tx, sa.and_(VerdictRow.session_id == run.session_id, of_commit), limit):
            return True
        _delete(tx, UnresolvedResultRow, UnresolvedResultRow.run_id == run_id)
        _delete(tx, InvalidMarkRow, InvalidMarkRow.run_id == run_id)
        _delete(tx, OutboxRow, OutboxRow.subject == run.key)
        _delete(tx, RunRow, RunRow.id == run_id)
    ended = sa.and_(SessionRow.project_id == deletion.project_id, SessionRow.state == "finished")
    without_runs = ~sa.exists().where(RunRow.session_id == SessionRow.id)
    sessions = _first_ids(tx, SessionRow, limit, ended, without_runs)
    if sessions and _delete_verdicts(tx, VerdictRow.session_id.in_(sessions), limit):
        return True
    of_variants = _list_variant_tables(VariantComparisonRow.session_id.in_(sessions))
    if _delete_first(tx, [*of_variants, (GoalClauseRow, GoalClauseRow.session_id.in_(sessions))], limit):
        return True
    uids = sa.select(SessionRow.uid).where(SessionRow.id.in_(sessions))
    waiting = sa.and_(OutboxRow.project_id == deletion.project_id, OutboxRow.kind == "judge_pr")
    _delete(tx, OutboxRow, sa.and_(waiting, OutboxRow.subject.in_(uids)))
    _delete_by_ids(tx, SessionRow, sessions)
    return bool(sessions) or _delete_series_without_results(tx, deletion.project_id, limit)


def _delete_part_of_series(tx: Session, deletion: Deletion, limit: int) -> bool:
    return _delete_results(tx, ResultRow.series_id == deletion.row_id, limit) or _delete_series(
        tx, _first_ids(tx, SeriesRow, 1, SeriesRow.id == deletion.row_id), limit
    )


def _delete_part_of_project(tx: Session, deletion: Deletion, limit: int) -> bool:
    project_id = deletion.project_id
    if _delete_first(tx, _list_project_tables(project_id), limit):
        return True
    if _delete_verdicts(tx, VerdictRow.project_id == project_id, limit):
        return True
    sessions = sa.select(SessionRow.id).where(SessionRow.project_id == project_id)
    runs = _first_ids(tx, RunRow, RUNS_PER_BATCH, RunRow.session_id.in_(sessions))
    if runs:
        if not _delete_results(tx, ResultRow.run_id.in_(runs), limit):
            _delete(tx, UnresolvedResultRow, UnresolvedResultRow.run_id.in_(runs))
            _delete_by_ids(tx, RunRow, runs)
        return True
    if _delete_series_without_results(tx, project_id, limit):
        return True
    rest = [(table, table.project_id == project_id) for table in (CommitRow, SessionRow)]
    return _delete_first(tx, rest, limit)


def _list_project_tables(project_id: int) -> list[tuple[Row, Condition]]:
    """List what refers to nothing but the project, or to incidents and destinations of it."""
    incidents = sa.select(IncidentRow.id).where(IncidentRow.project_id == project_id)
    variants = _list_variant_tables(VariantComparisonRow.project_id == project_id)
    destinations = sa.select(DestinationRow.id).where(DestinationRow.project_id == project_id)
    alone: list[Any] = [OutboxRow, RunEventRow, RunTokenRow, RepositoryRow, MembershipRow, TokenRow]
    alone += [SeriesCountRow, EvaluationRow, ExpectedChangeRow, MutedBenchmarkRow, ReportingScheduleRow]
    alone += [InvalidMarkRow, OrderRequestRow, MeasurementOrderRow, ShortLinkRow, ChartNoteRow]
    alone += [ArchivedSeriesRow, ExplanationRow]
    return [
        *((table, table.project_id == project_id) for table in alone),
        *variants,
        *_list_profile_tables(project_id),
        (GoalClauseRow, GoalClauseRow.project_id == project_id),
        (DeliveryRow, DeliveryRow.destination_id.in_(destinations)),
        (DestinationRow, DestinationRow.project_id == project_id),
        (IncidentEventRow, IncidentEventRow.incident_id.in_(incidents)),
        (IncidentMemberRow, IncidentMemberRow.incident_id.in_(incidents)),
        (ImpactRow, ImpactRow.project_id == project_id),
        (IncidentRow, IncidentRow.project_id == project_id),
    ]


def _list_profile_tables(project_id: int) -> list[tuple[Row, Condition]]:
    """List profiles, and then the files that no profile of another project has."""
    profiles = sa.select(CallProfileRow.id).where(CallProfileRow.project_id == project_id)
    columns = (CallProfileRow.tree_id, CallProfileRow.tables_id, CallProfileRow.trace_id)
    used = sa.union_all(*(sa.select(column).where(column.is_not(None)) for column in columns))
    return [
        (ProfilePartRow, ProfilePartRow.profile_id.in_(profiles)),
        (CallProfileRow, CallProfileRow.project_id == project_id),
        (ArtifactRow, ArtifactRow.id.not_in(used)),
    ]


def _list_variant_tables(comparisons: Condition) -> list[tuple[Row, Condition]]:
    """List what some comparisons of variants consist of, and then these."""
    comparison_ids = sa.select(VariantComparisonRow.id).where(comparisons)
    steps = sa.select(VariantStepRow.id).where(VariantStepRow.comparison_id.in_(comparison_ids))
    return [
        (VariantVerdictRow, VariantVerdictRow.step_id.in_(steps)),
        (VariantStepRow, VariantStepRow.comparison_id.in_(comparison_ids)),
        (VariantComparisonRow, comparisons),
    ]


def _delete_results(tx: Session, condition: Condition, limit: int) -> bool:
    """Delete results with their processes; return whether there were any."""
    result_ids = _first_ids(tx, ResultRow, limit, condition)
    series_of_results = sa.select(ResultRow.series_id).where(ResultRow.id.in_(result_ids))
    mark_series_points_stale(tx, set(tx.scalars(series_of_results)))
    _delete(tx, ProcessRow, ProcessRow.result_id.in_(result_ids))
    _delete_by_ids(tx, ResultRow, result_ids)
    return bool(result_ids)


def _delete_verdicts(tx: Session, condition: Condition, limit: int) -> bool:
    """Delete verdicts and how they were reached; return whether there were any."""
    columns = (VerdictRow.id, VerdictRow.superseded_by)
    rows = tx.execute(sa.select(*columns).where(condition).order_by(VerdictRow.id).limit(limit)).all()
    following = {row.id: row.superseded_by for row in rows}
    _restore_superseded(tx, following)
    _delete(tx, DecisionRow, DecisionRow.verdict_id.in_(following))
    _set_superseded_by(tx, following, None)
    tx.execute(sa.delete(VerdictRow.__table__).where(VerdictRow.id.in_(following)))
    return bool(following)


def _restore_superseded(tx: Session, following: Mapping[int, int | None]) -> None:
    """Let what the deleted verdicts superseded be current again, or superseded by what follows them."""
    of_pull = pull_request_session_condition(VerdictRow.session_id)
    earlier = sa.and_(VerdictRow.superseded_by.in_(following), VerdictRow.id.not_in(following))
    columns = (VerdictRow.id, VerdictRow.superseded_by)
    # The one that becomes current comes first: the newest, of no pull request if there is such a one.
    rows = tx.execute(sa.select(*columns).where(earlier).order_by(of_pull, VerdictRow.id.desc())).all()
    heirs: dict[int, int] = {}
    for row_id, deleted in rows:
        chain: list[int] = [deleted or 0]
        while (later := following.get(chain[-1])) is not None:
            chain.append(later)
        heir = heirs.setdefault(chain[-1], row_id) if chain[-1] in following else chain[-1]
        _set_superseded_by(tx, [row_id], None if heir == row_id else heir)


def _set_superseded_by(tx: Session, verdict_ids: Collection[int], later: int | None) -> None:
    update = sa.update(VerdictRow.__table__).where(VerdictRow.id.in_(verdict_ids))
    tx.execute(update.values(superseded_by=later))


def _delete_series_without_results(tx: Session, project_id: int, limit: int) -> bool:
    benchmarks = sa.select(BenchmarkRow.id).where(BenchmarkRow.project_id == project_id)
    unmeasured = ~sa.exists().where(ResultRow.series_id == SeriesRow.id)
    # An empty series that was renamed tells where later results of its name go.
    mine = sa.and_(SeriesRow.benchmark_id.in_(benchmarks), SeriesRow.renamed_to.is_(None))
    series_ids = _first_ids(tx, SeriesRow, limit, mine, unmeasured)
    if _delete_series(tx, series_ids, limit):
        return True
    unused = ~sa.exists().where(SeriesRow.benchmark_id == BenchmarkRow.id)
    empty = _first_ids(tx, BenchmarkRow, limit, BenchmarkRow.project_id == project_id, unused)
    _delete_by_ids(tx, BenchmarkRow, empty)
    return bool(empty)


def _delete_series(tx: Session, series_ids: Sequence[int], limit: int) -> bool:
    """Delete series that have no results any more; return whether there were any."""
    if not series_ids:
        return False
    if _delete_verdicts(tx, VerdictRow.series_id.in_(series_ids), limit):
        return True
    benchmarks = set(tx.scalars(sa.select(SeriesRow.benchmark_id).where(SeriesRow.id.in_(series_ids))))
    delete_series_points(tx, series_ids)
    for table in SERIES_TABLES:
        _delete(tx, table, table.series_id.in_(series_ids))
    followers = sa.update(SeriesRow.__table__).where(SeriesRow.renamed_to.in_(series_ids))
    tx.execute(followers.values(renamed_to=None))
    _delete_by_ids(tx, SeriesRow, series_ids)
    unused = ~sa.exists().where(SeriesRow.benchmark_id == BenchmarkRow.id)
    _delete(tx, BenchmarkRow, sa.and_(BenchmarkRow.id.in_(benchmarks), unused))
    return True


def _delete_unused_contexts(tx: Session) -> None:
    """Delete machine classes, environments and variants that nothing has: they have names too."""
    users: dict[Row, list[Any]] = {
        MachineRow: [RunRow.machine_id, SeriesRow.machine_id, ReportingScheduleRow.machine_id],
        EnvironmentRow: [RunRow.environment_id],
        VariantRow: [RunRow.variant_id, SeriesRow.variant_id],
    }
    for table, columns in users.items():
        table_id = table.__table__.c.id
        _delete(tx, table, sa.and_(*(table_id.not_in(sa.select(column).distinct()) for column in columns)))


def _find_runs_to_judge_again(tx: Session, run_id: int) -> list[str]:
    """Find the keys of runs that share series with a run: the newest of a history for each series."""
    mine = sa.select(ResultRow.series_id).where(ResultRow.run_id == run_id)
    newest = (
        sa.select(sa.func.max(ResultRow.id))
        .join(RunRow, ResultRow.run_id == RunRow.id)
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .where(ResultRow.series_id.in_(mine), ResultRow.run_id != run_id, SessionRow.kind.in_(HISTORY_KINDS))
        .group_by(ResultRow.series_id)
    )
    runs = sa.select(RunRow.key).join(ResultRow, ResultRow.run_id == RunRow.id)
    return sorted(set(tx.scalars(runs.where(ResultRow.id.in_(newest)))))


def _delete_first(tx: Session, tables: Sequence[tuple[Row, Condition]], limit: int) -> bool:
    """Delete rows of the first table that has any; return whether one had."""
    for table, condition in tables:
        if row_ids := _first_ids(tx, table, limit, condition):
            if table is IncidentRow:
                cut = sa.update(IncidentRow.__table__).where(IncidentRow.duplicate_of.in_(row_ids))
                tx.execute(cut.values(duplicate_of=None))
            _delete_by_ids(tx, table, row_ids)
            return True
    return False


def _first_ids(tx: Session, table: Row, limit: int, *conditions: Condition) -> list[int]:
    row_id = table.__table__.c.id
    return list(tx.scalars(sa.select(row_id).where(*conditions).order_by(row_id).limit(limit)))


def _delete_by_ids(tx: Session, table: Row, row_ids: Sequence[int]) -> None:
    if row_ids:
        _delete(tx, table, table.__table__.c.id.in_(row_ids))


def _delete(tx: Session, table: Row, condition: Condition) -> None:
    tx.execute(sa.delete(table.__table__).where(condition))
