"""The level of every series at a commit, without reading a sample: what two commits are compared by at a glance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from statistics import median
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Process, Status
from perfci.store import values
from perfci.store.coordinates import table
from perfci.store.loading import HISTORY_KINDS
from perfci.store.tables import CommitRow, ProcessRow, ResultRow, RunRow, SeriesRow, SessionRow

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


def without_level(tx: Session, *, runs: Sequence[str] = (), since: int | None = None) -> Iterator[Measured]:
    """Results of some runs, or all that are newer than one, that have samples and no level yet."""
    chosen = RUNS.c.key.in_(runs) if since is None else RESULTS.c.id > since
    return _measured(tx, RESULTS.c.level.is_(None), chosen)


def results_with(tx: Session, process_ids: Sequence[int]) -> Iterator[Measured]:
    """The results that these processes belong to, with all processes they have by now."""
    return _measured(tx, RESULTS.c.id.in_(sa.select(PROCESSES.c.result_id).where(PROCESSES.c.id.in_(process_ids))))


def _measured(tx: Session, *chosen: sa.ColumnElement[bool]) -> Iterator[Measured]:
    """Read as they are asked for: an import may hold millions of samples."""
    query = (
        sa.select(*PROCESSES.c)
        .join(RESULTS, PROCESSES.c.result_id == RESULTS.c.id)
        .join(RUNS, RESULTS.c.run_id == RUNS.c.id)
        .where(RESULTS.c.status == Status.OK.value, *chosen)
        .order_by(PROCESSES.c.result_id, PROCESSES.c.id)
        .execution_options(yield_per=MOST_AT_ONCE)
    )
    for result_id, rows in groupby(tx.connection().execute(query), key=lambda row: row.result_id):
        yield result_id, [values.process_of(row) for row in rows]


def set_levels(tx: Session, levels: Mapping[int, float]) -> None:
    """Keep what the processes of results came to."""
    statement = sa.update(RESULTS).where(RESULTS.c.id == sa.bindparam("result")).values(level=sa.bindparam("came_to"))
    if levels:
        tx.connection().execute(statement, [{"result": key, "came_to": level} for key, level in sorted(levels.items())])
