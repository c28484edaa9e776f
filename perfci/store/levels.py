"""The level of every series at a commit, without reading a sample: what two commits are compared by at a glance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from statistics import median
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Boundaries, Process, Status
from perfci.store import values
from perfci.store.coordinates import table
from perfci.store.loading import HISTORY_KINDS
from perfci.store.tables import CommitRow, ProcessRow, ResultRow, RunRow, SeriesRow, SessionRow

RESULTS, RUNS, COMMITS, SESSIONS, SERIES = (table(row) for row in (ResultRow, RunRow, CommitRow, SessionRow, SeriesRow))

LEVEL = sa.func.coalesce(RESULTS.c.level, RESULTS.c.value)


class LevelPair(NamedTuple):
    """What one series came to at two commits; nothing where it was not measured, or to no avail."""

    identity: str
    base: float | None
    head: float | None


def levels_between(tx: Session, project_id: int, base: str, head: str) -> list[LevelPair]:
    """Every series that has a level at one of two commits, with both, in the order they were first seen."""
    before, after = (_levels_at(tx, project_id, sha) for sha in (base, head))
    identity_of = {series_id: identity for found in (before, after) for series_id, identity in found}
    levels = [{series_id: median(several) for (series_id, _), several in found.items()} for found in (before, after)]
    return [
        LevelPair(identity, levels[0].get(series_id), levels[1].get(series_id))
        for series_id, identity in sorted(identity_of.items())
    ]


def _levels_at(tx: Session, project_id: int, sha: str) -> dict[tuple[int, str], list[float]]:
    """The levels of one commit's history, several where it was measured several times."""
    query = (
        sa.select(RESULTS.c.series_id, SERIES.c.identity, LEVEL)
        .join(SERIES, RESULTS.c.series_id == SERIES.c.id)
        .join(RUNS, RESULTS.c.run_id == RUNS.c.id)
        .join(COMMITS, RUNS.c.commit_id == COMMITS.c.id)
        .join(SESSIONS, RUNS.c.session_id == SESSIONS.c.id)
        .where(COMMITS.c.project_id == project_id, COMMITS.c.sha == sha, COMMITS.c.dirty.is_(False))
        .where(SESSIONS.c.kind.in_(HISTORY_KINDS), LEVEL.is_not(None))
    )
    found: dict[tuple[int, str], list[float]] = {}
    for series_id, identity, level in tx.connection().execute(query):
        found.setdefault((series_id, identity), []).append(level)
    return found


def without_level(tx: Session, run_keys: Sequence[str]) -> Iterator[tuple[int, list[Process]]]:
    """The results of some runs that have samples and no level yet, with their processes."""
    query = (
        sa.select(*table(ProcessRow).c)
        .join(RESULTS, ProcessRow.result_id == RESULTS.c.id)
        .join(RUNS, RESULTS.c.run_id == RUNS.c.id)
        .where(RUNS.c.key.in_(run_keys), RESULTS.c.level.is_(None))
        .where(RESULTS.c.status == Status.OK.value, RESULTS.c.boundaries == Boundaries.PROCESS.value)
        .order_by(ProcessRow.result_id, ProcessRow.id)
    )
    for result_id, rows in groupby(tx.connection().execute(query).all(), key=lambda row: row.result_id):
        yield result_id, [values.process_of(row) for row in rows]


def set_levels(tx: Session, levels: Mapping[int, float]) -> None:
    """Keep what the processes of results came to."""
    statement = sa.update(RESULTS).where(RESULTS.c.id == sa.bindparam("result")).values(level=sa.bindparam("came_to"))
    if levels:
        tx.connection().execute(statement, [{"result": key, "came_to": level} for key, level in sorted(levels.items())])
