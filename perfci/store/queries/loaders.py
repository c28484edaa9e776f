"""Load measurements by condition: the joins and conversions that other queries share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import (
    Commit,
    Environment,
    Machine,
    Point,
    Process,
    ProcessBoundaries,
    Result,
    Series,
    Status,
    Variant,
)
from perfci.store.columns import (
    build_commit,
    build_machine,
    build_process,
    build_series,
    build_summary,
    build_verdict,
    series_identity,
    to_pairs,
)
from perfci.store.database import SERIES_CACHE
from perfci.store.dialects import CHUNK, in_chunks
from perfci.store.queries.records import VerdictRecord
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

MAX_CACHED_SERIES = 50_000
"""Series a store caches for readers, in at most some hundred MB."""

HISTORY_KINDS = ("history", "import")
"""Kinds of sessions whose runs enter histories; pull requests and A/A runs do not."""

Condition = sa.ColumnElement[bool]


def benchmark_in_project(project: str) -> Condition:
    """Build the condition that a benchmark is of a project."""
    return matches_project(BenchmarkRow.project_id, project)


def matches_project(column: Any, project: str) -> Condition:
    """Build the condition that a project id column is that of a project."""
    condition: Condition = (
        column == sa.select(ProjectRow.id).where(ProjectRow.slug == project).scalar_subquery()
    )
    return condition


def in_history(query: Any) -> Any:
    """Restrict a query over results to those that make up the history of a series."""
    return (
        query.select_from(ResultRow)
        .join(RunRow, ResultRow.run_id == RunRow.id)
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .join(CommitRow, RunRow.commit_id == CommitRow.id)
        .where(SessionRow.kind.in_(HISTORY_KINDS), CommitRow.dirty.is_(False))
    )


def load_points(tx: Session, condition: Condition) -> Iterator[tuple[int, Point]]:
    """Load the history points of the chosen results, by series id, in no order."""
    columns = (*ResultRow.__table__.c, RunRow.commit_id, RunRow.environment_id)
    ordered = in_history(sa.select(*columns)).where(condition).order_by(RunRow.started_at, ResultRow.id)
    rows = tx.connection().execute(ordered).all()
    processes, environments = (
        load_processes(tx, condition),
        load_environments(tx, {row.environment_id for row in rows}),
    )
    by_id = load_commits_by_ids(tx, {row.commit_id for row in rows})
    grouped: dict[tuple[int, int], list[Any]] = defaultdict(list)
    for row in rows:
        grouped[row.series_id, row.commit_id].append(row)
    for (series_id, commit_id), results in grouped.items():
        yield series_id, _build_point(by_id[commit_id], results, processes, environments)


def _build_point(
    commit: Commit,
    results: Sequence[Any],
    processes: Mapping[int, list[Process]],
    environments: Mapping[int, Environment],
) -> Point:
    """Join the results of several runs of a commit; what cannot be joined is that of the newest."""
    newest = next((row for row in reversed(results) if row.status == Status.OK), results[-1])
    kinds = {row.boundaries for row in results if row.status == Status.OK} or {newest.boundaries}
    return Point(
        commit=commit,
        status=Status(newest.status),
        processes=tuple(process for row in results for process in processes.get(row.id, ())),
        summary=build_summary(newest),
        boundaries=ProcessBoundaries(kinds.pop()) if len(kinds) == 1 else ProcessBoundaries.UNKNOWN,
        environment=environments[newest.environment_id],
        reason=newest.reason,
    )


def load_processes(tx: Session, condition: Condition) -> dict[int, list[Process]]:
    """Load the processes of the chosen results, by result id."""
    query = (
        sa.select(*ProcessRow.__table__.c)
        .join(ResultRow, ProcessRow.result_id == ResultRow.id)
        .join(RunRow, ResultRow.run_id == RunRow.id)
        .where(condition)
        .order_by(ProcessRow.result_id, ProcessRow.id)
    )
    processes: dict[int, list[Process]] = defaultdict(list)
    for row in tx.connection().execute(query):  # past the session, whose rows cost twice as much
        processes[row.result_id].append(build_process(row))
    return processes


def load_results(tx: Session, condition: Condition) -> Iterator[Result]:
    """Load the chosen results with their processes."""
    processes = load_processes(tx, condition)
    rows = tx.execute(sa.select(*ResultRow.__table__.c).where(condition).order_by(ResultRow.id)).all()
    series = load_series_by_ids(tx, {row.series_id for row in rows})
    for row in rows:
        yield Result(
            series=series[row.series_id],
            status=Status(row.status),
            processes=tuple(processes.get(row.id, ())),
            summary=build_summary(row),
            boundaries=ProcessBoundaries(row.boundaries),
            number=row.number,
            reason=row.reason,
        )


def load_series_by_ids(tx: Session, ids: Iterable[int]) -> dict[int, Series]:
    """Load series by id. Series never change, so all readers of a store share a cache."""
    cached: dict[int, Series] = tx.info.get(SERIES_CACHE, {})
    ordered = sorted(ids)
    missing = [row_id for row_id in ordered if row_id not in cached]
    read: dict[int, Series] = {}
    for some in in_chunks(missing):
        read |= load_series(tx, SeriesRow.id.in_(some))
    series = {row_id: cached.get(row_id) or read[row_id] for row_id in ordered}
    _cache_series(cached, read)
    return series


def load_project_series(tx: Session, project: str) -> dict[int, Series]:
    """Load all series of a project, from the cache, or in one query if any is new."""
    cached: dict[int, Series] = tx.info.get(SERIES_CACHE, {})
    query = sa.select(SeriesRow.id).join(BenchmarkRow, SeriesRow.benchmark_id == BenchmarkRow.id)
    ids = list(tx.scalars(query.where(benchmark_in_project(project))))
    shared = {row_id: cached[row_id] for row_id in ids if row_id in cached}
    if len(shared) == len(ids):
        return shared
    read = load_series(tx, benchmark_in_project(project))
    _cache_series(cached, read)
    return read


def _cache_series(cache: dict[int, Series], loaded: dict[int, Series]) -> None:
    if len(cache) + len(loaded) > MAX_CACHED_SERIES:
        cache.clear()
    cache |= loaded


def load_series(tx: Session, *conditions: Condition) -> dict[int, Series]:
    """Load the chosen series, by id."""
    query = (
        sa.select(*SeriesRow.__table__.c, BenchmarkRow.name, BenchmarkRow.version)
        .join(BenchmarkRow, SeriesRow.benchmark_id == BenchmarkRow.id)
        .where(*conditions)
    )
    machines, variants = load_machines(tx), load_variants(tx)
    rows = tx.connection().execute(query)
    return {row.id: build_series(row, machines[row.machine_id], variants[row.variant_id]) for row in rows}


def build_verdict_record(row: Any, series: Series) -> VerdictRecord:
    """Build a verdict record from a row of ``verdicts`` that also has the ``session_uid``."""
    return VerdictRecord(
        id=row.id,
        verdict=build_verdict(row, series),
        session_uid=row.session_uid,
        created_at=row.created_at,
        superseded_by=row.superseded_by,
    )


def load_machines(tx: Session) -> dict[int, Machine]:
    """Load all machine classes, by id."""
    return {row.id: build_machine(row) for row in tx.execute(sa.select(*MachineRow.__table__.c))}


def load_variants(tx: Session) -> dict[int, Variant]:
    """Load all variants, by id."""
    rows = tx.execute(sa.select(VariantRow.id, VariantRow.chosen))
    return {row_id: Variant(to_pairs(chosen)) for row_id, chosen in rows}


def load_environments(tx: Session, ids: Collection[int]) -> dict[int, Environment]:
    """Load environments by id; only those needed, since each driver or clock change adds one."""
    query = sa.select(EnvironmentRow.id, EnvironmentRow.observed)
    rows = (row for some in in_chunks(ids) for row in tx.execute(query.where(EnvironmentRow.id.in_(some))))
    return {row_id: Environment(to_pairs(observed)) for row_id, observed in rows}


def load_commits_by_ids(tx: Session, ids: Collection[int]) -> dict[int, Commit]:
    """Load commits by id."""
    commits: dict[int, Commit] = {}
    for some in in_chunks(ids):
        commits |= load_commits(tx, CommitRow.id.in_(some))
    return commits


def load_commits(tx: Session, *conditions: Condition) -> dict[int, Commit]:
    """Load the chosen commits, by id."""
    rows = tx.connection().execute(sa.select(*CommitRow.__table__.c).where(*conditions))
    return {row.id: build_commit(row) for row in rows}


FULL_SHA_LENGTH = 40


def sha_starts_with(column: Any, prefix: str) -> sa.ColumnElement[bool]:
    """Build the condition that a sha has a prefix: a range, which an index on the column answers."""
    whole = len(prefix) >= FULL_SHA_LENGTH
    condition: sa.ColumnElement[bool] = (
        column == prefix if whole else sa.and_(column >= prefix, column < prefix + "g")
    )
    return condition


def find_series_ids(tx: Session, identities: Collection[str]) -> dict[str, int]:
    """Find the ids of stored series by identity; identities that are not stored are left out."""
    query = sa.select(SeriesRow.identity, SeriesRow.id)
    ids_by_identity: dict[str, int] = {}
    for some in in_chunks(identities):
        ids_by_identity |= dict(tx.execute(query.where(SeriesRow.identity.in_(some))).all())
    return ids_by_identity


def find_ids_of_series(tx: Session, project: str, series: Collection[Series]) -> dict[Series, int]:
    """Find the ids of stored series; many are found faster by loading all of their project."""
    if len(series) > MAX_SERIES_BY_IDENTITY:
        return {
            each_series: row_id
            for row_id, each_series in load_project_series(tx, project).items()
            if each_series in series
        }
    identities = {series_identity(project, each_series): each_series for each_series in series}
    return {identities[identity]: row_id for identity, row_id in find_series_ids(tx, identities).items()}


MAX_SERIES_BY_IDENTITY = 500


def load_series_of_same_cells(tx: Session, project: str, series: Iterable[Series]) -> list[Series]:
    """Load all series with the same benchmarks and parameters, to make addresses unambiguous."""
    cells: dict[str, list[Any]] = defaultdict(list)
    for item in series:
        cells[item.benchmark.name].append(item.parameters)
    matching: list[Series] = []
    for start in range(0, len(names := sorted(cells)), BENCHMARKS_PER_QUERY):
        some = names[start : start + BENCHMARKS_PER_QUERY]
        parameters = list(dict.fromkeys(cell for name in some for cell in cells[name]))[:CHUNK]
        chosen = (
            benchmark_in_project(project),
            BenchmarkRow.name.in_(some),
            SeriesRow.parameters.in_(parameters),
        )
        matching += load_series(tx, *chosen).values()
    return matching


BENCHMARKS_PER_QUERY = 50
"""Benchmarks per query: a page names few, and their parameters mostly agree."""
