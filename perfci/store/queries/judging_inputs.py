"""Load what histories are judged by: series, levels of results and visits of commits.

Levels stand for samples: they are computed once, and saved.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Clock, Machine, Process, ProcessBoundaries, ResultSummary, Series, Status
from perfci.store.column_conversions import CLOCKS, STATUSES, build_process
from perfci.store.queries.history_conditions import (
    HISTORY_KINDS,
    project_id_condition,
    restrict_to_history,
    select_results_without_pulls,
)
from perfci.store.queries.measured_samples import load_processes_where
from perfci.store.queries.measured_series import load_clocks_of_results
from perfci.store.queries.series_commits_machines import load_machines_by_id, load_series_by_ids
from perfci.store.tables.measurements import (
    BenchmarkRow,
    CommitRow,
    ProcessRow,
    ResultRow,
    RunRow,
    SeriesRow,
    SessionRow,
)
from perfci.store.transactions import CHUNK, in_chunks

RESULTS, RUNS, COMMITS, SESSIONS, SERIES = (
    row.__table__ for row in (ResultRow, RunRow, CommitRow, SessionRow, SeriesRow)
)
PROCESSES = ProcessRow.__table__

MAX_ROWS_IN_MEMORY = 1000
"""Processes in memory while levels are computed."""

MAX_SERIES_BY_ID = 2 * CHUNK
"""Up to this many series, results are found by series; of more by commit, most of whose results are needed.
"""

ResultProcesses = tuple[int, list[Process]]
"""The id of a result, and its processes."""


class ResultLevel(NamedTuple):
    """One result of a history and its level; ``clock`` is None until the level is computed.

    ``value`` is the value of a result without samples; ``started_at`` is in milliseconds.
    """

    id: int
    series_id: int
    commit_id: int
    environment_id: int
    started_at: int
    status: str
    boundaries: str
    value: float | None
    level: float | None
    clock: str | None
    spread: float | None

    @property
    def result_summary(self) -> ResultSummary | None:
        """The stored summary of the processes; None until it is computed."""
        return ResultSummary(self.level, CLOCKS[self.clock], self.spread) if self.clock else None

    @property
    def is_ok(self) -> bool:
        """Whether the result has a value."""
        return self.status == Status.OK.value

    @property
    def is_value_without_processes(self) -> bool:
        """Whether another tool gave only a value, without separate processes."""
        return self.value is not None and self.boundaries != ProcessBoundaries.PROCESS.value


def load_series_ids_of_runs(tx: Session, keys: Sequence[str]) -> list[int]:
    """Load the ids of the series that runs measured, by the keys of the runs."""
    series_ids: set[int] = set()
    query = sa.select(ResultRow.series_id).join(RunRow, ResultRow.run_id == RunRow.id)
    for some in in_chunks(keys):
        series_ids.update(tx.scalars(query.where(RunRow.key.in_(some))))
    return sorted(series_ids)


def load_judged_series_ids(tx: Session, project: str) -> dict[Series, int]:
    """Load the series that verdicts may be given on: those with a history that are not informational."""
    # The newest result with a value of every series with a history, and its clock if it has a summary.
    mine = ResultRow.series_id == SeriesRow.id
    history = restrict_to_history(sa.select(ResultRow.id)).where(mine).correlate(SeriesRow).exists()
    ok = select_results_without_pulls().where(mine, ResultRow.status == Status.OK.value).correlate(SeriesRow)
    newest = ok.order_by(ResultRow.id.desc()).limit(1).scalar_subquery()
    latest = (
        sa.select(SeriesRow.id.label("series_id"), newest.label("result_id"))
        .join(BenchmarkRow, SeriesRow.benchmark_id == BenchmarkRow.id)
        .where(project_id_condition(BenchmarkRow.project_id, project), history)
        .subquery()
    )
    query = sa.select(latest, ResultRow.clock).outerjoin(ResultRow, ResultRow.id == latest.c.result_id)
    rows = tx.connection().execute(query).all()
    clocks = {row.series_id: row.clock for row in rows}
    # Without a summary, the clock is that of the processes.
    unread = {row.series_id: row.result_id for row in rows if not row.clock and row.result_id is not None}
    if unread:
        read = load_clocks_of_results(tx, unread.values())
        clocks |= {row_id: read[result] for row_id, result in unread.items() if result in read}
    judged = [row_id for row_id, clock in clocks.items() if clock != Clock.INFORMATIONAL.value]
    return {series: row_id for row_id, series in load_series_by_ids(tx, judged).items()}


def load_result_levels(
    tx: Session, series_ids: Collection[int] | None, commit_ids: Sequence[int] | None = None
) -> list[ResultLevel]:
    """Load the results of the histories of series, or at commits, or of both; in no order."""
    columns = (
        RESULTS.c.id,
        RESULTS.c.series_id,
        RUNS.c.commit_id,
        RUNS.c.environment_id,
        sa.type_coerce(RUNS.c.started_at, sa.BigInteger),
        RESULTS.c.status,
        RESULTS.c.boundaries,
        RESULTS.c.value,
        RESULTS.c.level,
        RESULTS.c.clock,
        RESULTS.c.spread,
    )
    query = restrict_to_history(sa.select(*columns))
    if commit_ids is not None:
        query = query.where(RUNS.c.commit_id.in_(commit_ids))
    queries = [query]
    if series_ids is not None:
        queries = [query.where(RESULTS.c.series_id.in_(some)) for some in in_chunks(series_ids)]
    return [ResultLevel(*row) for query in queries for row in tx.connection().execute(query).all()]


def load_process_statuses_and_clocks(
    tx: Session, result_ids: Collection[int]
) -> dict[int, set[tuple[Status, Clock]]]:
    """Load the status and clock of each process of some results; results without processes are left out."""
    query = sa.select(PROCESSES.c.result_id, PROCESSES.c.status, PROCESSES.c.clock).distinct()
    kinds: dict[int, set[tuple[Status, Clock]]] = defaultdict(set)
    for some in in_chunks(result_ids):
        for result_id, status, clock in tx.connection().execute(query.where(PROCESSES.c.result_id.in_(some))):
            kinds[result_id].add((STATUSES[status], CLOCKS[clock]))
    return kinds


def load_processes_by_result(tx: Session, result_ids: Collection[int]) -> dict[int, list[Process]]:
    """Load all processes of some results, failed ones included."""
    processes: dict[int, list[Process]] = {}
    for some in in_chunks(result_ids):
        processes |= load_processes_where(tx, ResultRow.id.in_(some))
    return processes


def load_results_containing_processes(tx: Session, process_ids: Sequence[int]) -> Iterator[ResultProcesses]:
    """Load the results that these processes belong to, with all their processes."""
    return _load_result_processes(
        tx, RESULTS.c.id.in_(sa.select(PROCESSES.c.result_id).where(PROCESSES.c.id.in_(process_ids)))
    )


def load_processes_of_ok_results(tx: Session, result_ids: Collection[int]) -> Iterator[ResultProcesses]:
    """Load results by id with all their processes."""
    for some in in_chunks(result_ids):
        yield from _load_result_processes(tx, RESULTS.c.id.in_(some))


def _load_result_processes(tx: Session, *conditions: sa.ColumnElement[bool]) -> Iterator[ResultProcesses]:
    """Yield processes as they are read: an import may hold millions of samples."""
    query = (
        sa.select(*PROCESSES.c)
        .join(RESULTS, PROCESSES.c.result_id == RESULTS.c.id)
        .where(RESULTS.c.status == Status.OK.value, *conditions)
        .order_by(PROCESSES.c.result_id, PROCESSES.c.id)
        .execution_options(yield_per=MAX_ROWS_IN_MEMORY)
    )
    for result_id, rows in groupby(tx.connection().execute(query), key=lambda row: row.result_id):
        yield result_id, [build_process(row) for row in rows]


def save_result_summaries(tx: Session, summaries: Mapping[int, ResultSummary]) -> None:
    """Save the computed summaries of results, at least one."""
    columns: dict[str, Any] = {name: sa.bindparam(f"new_{name}") for name in ("level", "clock", "spread")}
    statement = sa.update(RESULTS).where(RESULTS.c.id == sa.bindparam("result")).values(columns)
    parameters = [
        {
            "result": result_id,
            "new_level": summary.level,
            "new_clock": summary.clock.value if summary.clock else "",
            "new_spread": summary.spread,
        }
        for result_id, summary in sorted(summaries.items())
    ]
    tx.connection().execute(statement, parameters)


CommitLevel = tuple[str, ResultLevel]


@dataclass(frozen=True, slots=True)
class VisitRecord:
    """A session that measured a commit on a machine, and when it first did."""

    sha: str
    machine: Machine
    session: str
    kind: str
    rounds: int
    started_at: datetime


def load_session_commit_visits(tx: Session, project: str) -> list[VisitRecord]:
    """Load which sessions measured which commits of the main line on which machines, earliest first."""
    columns = (CommitRow.sha, RunRow.machine_id, SessionRow.uid, SessionRow.kind, SessionRow.rounds)
    started = sa.func.min(RunRow.started_at, type_=RunRow.started_at.type)
    query = (
        sa.select(*columns, started.label("started_at"))
        .select_from(RunRow)
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .join(CommitRow, RunRow.commit_id == CommitRow.id)
        .where(
            project_id_condition(CommitRow.project_id, project),
            SessionRow.kind.in_(HISTORY_KINDS),
            CommitRow.dirty.is_(False),
            RunRow.invalid.is_(False),
        )
        .group_by(*columns)
        .order_by(started, SessionRow.uid, CommitRow.sha)
    )
    machines = load_machines_by_id(tx)
    return [
        VisitRecord(row.sha, machines[row.machine_id], row.uid, row.kind, row.rounds, row.started_at)
        for row in tx.execute(query)
    ]


def load_levels_at_commits(
    tx: Session, project: str, shas: Collection[str], series: Collection[int]
) -> Iterator[CommitLevel]:
    """Load the levels of some series at some clean commits, with the sha of each."""
    clean = (project_id_condition(COMMITS.c.project_id, project), COMMITS.c.dirty.is_(False))
    rows = tx.execute(sa.select(COMMITS.c.id, COMMITS.c.sha).where(*clean))
    sha_of = {row_id: sha for row_id, sha in rows if sha in shas}
    series_ids = series if len(series) <= MAX_SERIES_BY_ID else None
    for commit_ids in in_chunks(sha_of):
        levels = load_result_levels(tx, series_ids, commit_ids)
        yield from ((sha_of[row.commit_id], row) for row in levels if row.series_id in series)
