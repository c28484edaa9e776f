"""Rows to model values: the joins that every question over measurements shares."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import (
    Boundaries,
    Commit,
    Environment,
    Machine,
    Point,
    Process,
    Result,
    Series,
    Status,
    Variant,
)
from perfci.store import conversions
from perfci.store.dialects import in_chunks
from perfci.store.tables.measurements import (
    BenchmarkRow,
    CommitRow,
    EnvironmentRow,
    MachineRow,
    ProcessRow,
    ProjectRow,
    ResultRow,
    RunRow,
    SeriesRow,
    SessionRow,
    VariantRow,
)
from perfci.store.writes.row_ids import table

HISTORY_KINDS = ("history", "import")
"""Sessions whose runs enter the history of a series; what a pull request or an A/A run measured does not."""

Condition = sa.ColumnElement[bool]


def of_project(project: str) -> Condition:
    return project_of(BenchmarkRow.project_id, project)


def project_of(column: Any, project: str) -> Condition:
    found: Condition = column == sa.select(ProjectRow.id).where(ProjectRow.slug == project).scalar_subquery()
    return found


def in_history(query: Any) -> Any:
    """Restrict a query over results to those that make up the history of a series."""
    return (
        query.select_from(ResultRow)
        .join(RunRow, ResultRow.run_id == RunRow.id)
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .join(CommitRow, RunRow.commit_id == CommitRow.id)
        .where(SessionRow.kind.in_(HISTORY_KINDS), CommitRow.dirty.is_(False))
    )


def load_points(tx: Session, chosen: Condition) -> Iterator[tuple[int, Point]]:
    """The history points made of the chosen results, by the id of their series, in no order."""
    columns = (*table(ResultRow).c, RunRow.commit_id, RunRow.environment_id)
    ordered = in_history(sa.select(*columns)).where(chosen).order_by(RunRow.started_at, ResultRow.id)
    rows = tx.connection().execute(ordered).all()
    processes, environments = load_processes(tx, chosen), load_environments(tx, {row.environment_id for row in rows})
    by_id = commits_by_ids(tx, {row.commit_id for row in rows})
    grouped: dict[tuple[int, int], list[Any]] = defaultdict(list)
    for row in rows:
        grouped[row.series_id, row.commit_id].append(row)
    for (series_id, commit_id), results in grouped.items():
        yield series_id, _point(by_id[commit_id], results, processes, environments)


def _point(
    commit: Commit,
    results: Sequence[Any],
    processes: Mapping[int, list[Process]],
    environments: Mapping[int, Environment],
) -> Point:
    """Join what several runs say of one commit; of what cannot be joined the newest counts."""
    newest = next((row for row in reversed(results) if row.status == Status.OK), results[-1])
    kinds = {row.boundaries for row in results if row.status == Status.OK} or {newest.boundaries}
    return Point(
        commit=commit,
        status=Status(newest.status),
        processes=tuple(process for row in results for process in processes.get(row.id, ())),
        summary=conversions.summary_of(newest),
        boundaries=Boundaries(kinds.pop()) if len(kinds) == 1 else Boundaries.UNKNOWN,
        environment=environments[newest.environment_id],
        reason=newest.reason,
    )


def load_processes(tx: Session, of_results: Condition) -> dict[int, list[Process]]:
    query = (
        sa.select(*table(ProcessRow).c)
        .join(ResultRow, ProcessRow.result_id == ResultRow.id)
        .join(RunRow, ResultRow.run_id == RunRow.id)
        .where(of_results)
        .order_by(ProcessRow.result_id, ProcessRow.id)
    )
    found: dict[int, list[Process]] = defaultdict(list)
    for row in tx.connection().execute(query):  # past the session, whose rows cost twice as much
        found[row.result_id].append(conversions.process_of(row))
    return found


def load_results(tx: Session, chosen: Condition) -> Iterator[Result]:
    processes = load_processes(tx, chosen)
    rows = tx.execute(sa.select(*table(ResultRow).c).where(chosen).order_by(ResultRow.id)).all()
    series = series_by_ids(tx, {row.series_id for row in rows})
    for row in rows:
        yield Result(
            series=series[row.series_id],
            status=Status(row.status),
            processes=tuple(processes.get(row.id, ())),
            summary=conversions.summary_of(row),
            boundaries=Boundaries(row.boundaries),
            number=row.number,
            reason=row.reason,
        )


def series_by_ids(tx: Session, ids: Iterable[int]) -> dict[int, Series]:
    """Series never change, so readers share those that any of them has read."""
    known: dict[int, Series] = tx.info.get(SERIES_READ, {})
    ordered = sorted(ids)
    missing = [row_id for row_id in ordered if row_id not in known]
    read: dict[int, Series] = {}
    for some in in_chunks(missing):
        read |= load_series(tx, SeriesRow.id.in_(some))
    found = {row_id: known.get(row_id) or read[row_id] for row_id in ordered}
    _share(known, read)
    return found


def series_by_project(tx: Session, project: str) -> dict[int, Series]:
    """All series of a project: shared like those, and read in one question where any is new."""
    known: dict[int, Series] = tx.info.get(SERIES_READ, {})
    query = sa.select(SeriesRow.id).join(BenchmarkRow, SeriesRow.benchmark_id == BenchmarkRow.id)
    ids = list(tx.scalars(query.where(of_project(project))))
    shared = {row_id: known[row_id] for row_id in ids if row_id in known}
    if len(shared) == len(ids):
        return shared
    read = load_series(tx, of_project(project))
    _share(known, read)
    return read


def _share(known: dict[int, Series], read: dict[int, Series]) -> None:
    if len(known) + len(read) > MOST_SERIES:
        known.clear()
    known |= read


SERIES_READ = "series read"

MOST_SERIES = 50_000
"""Series a store keeps at hand for readers: some hundred megabytes at most."""


def load_series(tx: Session, *chosen: Condition) -> dict[int, Series]:
    query = (
        sa.select(*table(SeriesRow).c, BenchmarkRow.name, BenchmarkRow.version)
        .join(BenchmarkRow, SeriesRow.benchmark_id == BenchmarkRow.id)
        .where(*chosen)
    )
    machines, variants = load_machines(tx), load_variants(tx)
    rows = tx.connection().execute(query)
    return {row.id: conversions.series_of(row, machines[row.machine_id], variants[row.variant_id]) for row in rows}


def load_machines(tx: Session) -> dict[int, Machine]:
    return {row.id: conversions.machine_of(row) for row in tx.execute(sa.select(*table(MachineRow).c))}


def load_variants(tx: Session) -> dict[int, Variant]:
    rows = tx.execute(sa.select(VariantRow.id, VariantRow.chosen))
    return {row_id: Variant(conversions.pairs(chosen)) for row_id, chosen in rows}


def load_environments(tx: Session, ids: Collection[int]) -> dict[int, Environment]:
    """Environments change with every driver and clock, so only those are read that are asked for."""
    query = sa.select(EnvironmentRow.id, EnvironmentRow.observed)
    rows = (row for some in in_chunks(ids) for row in tx.execute(query.where(EnvironmentRow.id.in_(some))))
    return {row_id: Environment(conversions.pairs(observed)) for row_id, observed in rows}


def commits_by_ids(tx: Session, ids: Collection[int]) -> dict[int, Commit]:
    found: dict[int, Commit] = {}
    for some in in_chunks(ids):
        found |= load_commits(tx, CommitRow.id.in_(some))
    return found


def load_commits(tx: Session, *chosen: Condition) -> dict[int, Commit]:
    rows = tx.connection().execute(sa.select(*table(CommitRow).c).where(*chosen))
    return {row.id: conversions.commit_of(row) for row in rows}
