"""What results came to, without reading a sample: what histories are judged and two commits are compared by."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from statistics import median
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Boundaries, Clock, Digest, Process, Status
from perfci.store import conversions
from perfci.store.dialects import in_chunks
from perfci.store.queries.loaders import HISTORY_KINDS, Condition, in_history, load_processes
from perfci.store.tables.measurements import CommitRow, ProcessRow, ResultRow, RunRow, SeriesRow, SessionRow
from perfci.store.writes.row_ids import table

RESULTS, RUNS, COMMITS, SESSIONS, SERIES = (table(row) for row in (ResultRow, RunRow, CommitRow, SessionRow, SeriesRow))
PROCESSES = table(ProcessRow)

MOST_AT_ONCE = 1000
"""Processes in memory while levels are worked out."""

Measured = tuple[int, list[Process]]
"""The id of a result, and its processes."""

LEVEL = sa.func.coalesce(RESULTS.c.level, RESULTS.c.value)


class LevelPair(NamedTuple):
    """What one series came to at two commits; nothing where it was not measured, or to no avail."""

    series_id: int
    identity: str
    base: float | None
    head: float | None


def levels_between(tx: Session, project_id: int, base: str, head: str, *, after: int = 0) -> list[LevelPair]:
    """Every series that has a level at one of two commits, with both, in the order they were first seen.

    ``after`` leaves out the series up to this one.
    """
    sides = [_levels_at(tx, project_id, sha, after) for sha in (base, head)]
    identity_of = {series_id: identity for found in sides for series_id, identity in found}
    levels = [{series_id: median(several) for (series_id, _), several in found.items()} for found in sides]
    return [
        LevelPair(series_id, identity, levels[0].get(series_id), levels[1].get(series_id))
        for series_id, identity in sorted(identity_of.items())
    ]


def _levels_at(tx: Session, project_id: int, sha: str, after: int) -> dict[tuple[int, str], list[float]]:
    """The levels of one commit's history, several where it was measured several times."""
    query = (
        sa.select(RESULTS.c.series_id, SERIES.c.identity, LEVEL)
        .join(SERIES, RESULTS.c.series_id == SERIES.c.id)
        .join(RUNS, RESULTS.c.run_id == RUNS.c.id)
        .join(COMMITS, RUNS.c.commit_id == COMMITS.c.id)
        .join(SESSIONS, RUNS.c.session_id == SESSIONS.c.id)
        .where(COMMITS.c.project_id == project_id, COMMITS.c.sha == sha, COMMITS.c.dirty.is_(False))
        .where(SESSIONS.c.kind.in_(HISTORY_KINDS), LEVEL.is_not(None), RESULTS.c.series_id > after)
    )
    found: dict[tuple[int, str], list[float]] = {}
    for series_id, identity, level in tx.connection().execute(query):
        found.setdefault((series_id, identity), []).append(level)
    return found


class ResultLevel(NamedTuple):
    """One result of a history with what it came to; ``clock`` is absent until that is worked out.

    ``value`` is what a foreign tool left of it, ``started_at`` in milliseconds.
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
    def digest(self) -> Digest | None:
        """What its processes came to, where that can be told without their samples."""
        return Digest(self.level, conversions.CLOCKS[self.clock], self.spread) if self.clock else None

    @property
    def ok(self) -> bool:
        return self.status == Status.OK.value

    @property
    def summarised(self) -> bool:
        """Whether a foreign tool left a number of it, and no processes that are known apart."""
        return self.value is not None and self.boundaries != Boundaries.PROCESS.value


def levels_of_series(tx: Session, series_ids: Collection[int]) -> list[ResultLevel]:
    """All results of the histories of some series."""
    return [row for some in in_chunks(series_ids) for row in levels_of_histories(tx, RESULTS.c.series_id.in_(some))]


def levels_of_histories(tx: Session, chosen: Condition) -> list[ResultLevel]:
    """The chosen results of histories, in no order."""
    columns = (
        RESULTS.c.id, RESULTS.c.series_id, RUNS.c.commit_id, RUNS.c.environment_id,
        sa.type_coerce(RUNS.c.started_at, sa.BigInteger), RESULTS.c.status, RESULTS.c.boundaries, RESULTS.c.value,
        RESULTS.c.level, RESULTS.c.clock, RESULTS.c.spread,
    )  # fmt: skip
    return [ResultLevel(*row) for row in tx.connection().execute(in_history(sa.select(*columns)).where(chosen)).all()]


def readings_of_results(tx: Session, result_ids: Collection[int]) -> dict[int, set[tuple[Status, Clock]]]:
    """How the processes of some results ended, and what each was to be read from; nothing of one without processes."""
    query = sa.select(PROCESSES.c.result_id, PROCESSES.c.status, PROCESSES.c.clock).distinct()
    found: dict[int, set[tuple[Status, Clock]]] = defaultdict(set)
    for some in in_chunks(result_ids):
        for result_id, status, clock in tx.connection().execute(query.where(PROCESSES.c.result_id.in_(some))):
            found[result_id].add((conversions.STATUSES[status], conversions.CLOCKS[clock]))
    return found


def processes_of_results(tx: Session, result_ids: Collection[int]) -> dict[int, list[Process]]:
    """All processes of some results, whatever became of them."""
    found: dict[int, list[Process]] = {}
    for some in in_chunks(result_ids):
        found |= load_processes(tx, ResultRow.id.in_(some))
    return found


def results_with(tx: Session, process_ids: Sequence[int]) -> Iterator[Measured]:
    """The results that these processes belong to, with all processes they have by now."""
    return _measured(tx, RESULTS.c.id.in_(sa.select(PROCESSES.c.result_id).where(PROCESSES.c.id.in_(process_ids))))


def results_by_ids(tx: Session, result_ids: Collection[int]) -> Iterator[Measured]:
    """Some results with all their processes."""
    for some in in_chunks(result_ids):
        yield from _measured(tx, RESULTS.c.id.in_(some))


def _measured(tx: Session, *chosen: sa.ColumnElement[bool]) -> Iterator[Measured]:
    """Read as they are asked for: an import may hold millions of samples."""
    query = (
        sa.select(*PROCESSES.c)
        .join(RESULTS, PROCESSES.c.result_id == RESULTS.c.id)
        .where(RESULTS.c.status == Status.OK.value, *chosen)
        .order_by(PROCESSES.c.result_id, PROCESSES.c.id)
        .execution_options(yield_per=MOST_AT_ONCE)
    )
    for result_id, rows in groupby(tx.connection().execute(query), key=lambda row: row.result_id):
        yield result_id, [conversions.process_of(row) for row in rows]


def set_levels(tx: Session, digests: Mapping[int, Digest]) -> None:
    """Keep what the processes of results came to."""
    came_to: dict[str, Any] = {name: sa.bindparam(f"new_{name}") for name in ("level", "clock", "spread")}
    statement = sa.update(RESULTS).where(RESULTS.c.id == sa.bindparam("result")).values(came_to)
    if digests:
        tx.connection().execute(statement, [_columns(key, digests[key]) for key in sorted(digests)])


def _columns(result_id: int, digest: Digest) -> dict[str, object]:
    clock = digest.clock.value if digest.clock else ""
    return {"result": result_id, "new_level": digest.level, "new_clock": clock, "new_spread": digest.spread}
