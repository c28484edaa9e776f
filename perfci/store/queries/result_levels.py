"""Load and save the levels of results, by series or by visit, used instead of samples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from statistics import median
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Clock, Machine, Process, ProcessBoundaries, ResultSummary, Status
from perfci.store.columns import CLOCKS, STATUSES, build_process
from perfci.store.queries.measured_samples import load_processes_where
from perfci.store.queries.series_and_commits import (
    HISTORY_KINDS,
    load_machines,
    project_id_matches,
    restrict_to_history,
)
from perfci.store.tables.measurements import CommitRow, ProcessRow, ResultRow, RunRow, SeriesRow, SessionRow
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

LEVEL = sa.func.coalesce(RESULTS.c.level, RESULTS.c.value)


class LevelPair(NamedTuple):
    """The levels of one series at two commits; None where it has no value."""

    series_id: int
    identity: str
    base: float | None
    head: float | None


def load_levels_of_two_commits(
    tx: Session, project_id: int, base: str, head: str, *, after: int = 0
) -> list[LevelPair]:
    """Load the levels of all series at two commits by series id, from after the id ``after``.

    The level of a commit measured several times is the median.
    """
    sides = [_load_commit_levels(tx, project_id, sha, after) for sha in (base, head)]
    identity_of = {series_id: identity for side in sides for series_id, identity in side}
    levels = [{series_id: median(several) for (series_id, _), several in side.items()} for side in sides]
    return [
        LevelPair(series_id, identity, levels[0].get(series_id), levels[1].get(series_id))
        for series_id, identity in sorted(identity_of.items())
    ]


def _load_commit_levels(
    tx: Session, project_id: int, sha: str, after: int
) -> dict[tuple[int, str], list[float]]:
    """Load the levels of one commit in histories, several if it was measured several times."""
    query = (
        sa.select(RESULTS.c.series_id, SERIES.c.identity, LEVEL)
        .join(SERIES, RESULTS.c.series_id == SERIES.c.id)
        .join(RUNS, RESULTS.c.run_id == RUNS.c.id)
        .join(COMMITS, RUNS.c.commit_id == COMMITS.c.id)
        .join(SESSIONS, RUNS.c.session_id == SESSIONS.c.id)
        .where(COMMITS.c.project_id == project_id, COMMITS.c.sha == sha, COMMITS.c.dirty.is_(False))
        .where(SESSIONS.c.kind.in_(HISTORY_KINDS), LEVEL.is_not(None), RESULTS.c.series_id > after)
    )
    levels: dict[tuple[int, str], list[float]] = {}
    for series_id, identity, level in tx.connection().execute(query):
        levels.setdefault((series_id, identity), []).append(level)
    return levels


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
    def is_summary_only(self) -> bool:
        """Whether another tool gave only a value, without separate processes."""
        return self.value is not None and self.boundaries != ProcessBoundaries.PROCESS.value


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


def load_process_statuses(tx: Session, result_ids: Collection[int]) -> dict[int, set[tuple[Status, Clock]]]:
    """Load the status and clock of each process of some results; results without processes are left out."""
    query = sa.select(PROCESSES.c.result_id, PROCESSES.c.status, PROCESSES.c.clock).distinct()
    kinds: dict[int, set[tuple[Status, Clock]]] = defaultdict(set)
    for some in in_chunks(result_ids):
        for result_id, status, clock in tx.connection().execute(query.where(PROCESSES.c.result_id.in_(some))):
            kinds[result_id].add((STATUSES[status], CLOCKS[clock]))
    return kinds


def load_processes_of_results(tx: Session, result_ids: Collection[int]) -> dict[int, list[Process]]:
    """Load all processes of some results, failed ones included."""
    processes: dict[int, list[Process]] = {}
    for some in in_chunks(result_ids):
        processes |= load_processes_where(tx, ResultRow.id.in_(some))
    return processes


def load_results_of_processes(tx: Session, process_ids: Sequence[int]) -> Iterator[ResultProcesses]:
    """Load the results that these processes belong to, with all their processes."""
    return _load_result_processes(
        tx, RESULTS.c.id.in_(sa.select(PROCESSES.c.result_id).where(PROCESSES.c.id.in_(process_ids)))
    )


def load_ok_results_with_processes(tx: Session, result_ids: Collection[int]) -> Iterator[ResultProcesses]:
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
    """Save the computed summaries of results."""
    if not summaries:
        return
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


def load_commit_visits(tx: Session, project: str) -> list[VisitRecord]:
    """Load which sessions measured which commits of the main line on which machines, earliest first."""
    columns = (CommitRow.sha, RunRow.machine_id, SessionRow.uid, SessionRow.kind, SessionRow.rounds)
    started = sa.func.min(RunRow.started_at, type_=RunRow.started_at.type)
    query = (
        sa.select(*columns, started.label("started_at"))
        .select_from(RunRow)
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .join(CommitRow, RunRow.commit_id == CommitRow.id)
        .where(
            project_id_matches(CommitRow.project_id, project),
            SessionRow.kind.in_(HISTORY_KINDS),
            CommitRow.dirty.is_(False),
        )
        .group_by(*columns)
        .order_by(started, SessionRow.uid, CommitRow.sha)
    )
    machines = load_machines(tx)
    return [
        VisitRecord(row.sha, machines[row.machine_id], row.uid, row.kind, row.rounds, row.started_at)
        for row in tx.execute(query)
    ]


def load_levels_at_commits(
    tx: Session, project: str, shas: Collection[str], series: Collection[int]
) -> Iterator[CommitLevel]:
    """Load the levels of some series at some clean commits, with the sha of each."""
    clean = (project_id_matches(COMMITS.c.project_id, project), COMMITS.c.dirty.is_(False))
    rows = tx.execute(sa.select(COMMITS.c.id, COMMITS.c.sha).where(*clean))
    sha_of = {row_id: sha for row_id, sha in rows if sha in shas}
    series_ids = series if len(series) <= MAX_SERIES_BY_ID else None
    for commit_ids in in_chunks(sha_of):
        levels = load_result_levels(tx, series_ids, commit_ids)
        yield from ((sha_of[row.commit_id], row) for row in levels if row.series_id in series)
