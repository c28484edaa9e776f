"""Load the levels of all series at two commits."""

from __future__ import annotations

from statistics import median
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.store.queries.history_conditions import HISTORY_KINDS
from perfci.store.tables.measurements import CommitRow, ResultRow, RunRow, SeriesRow, SessionRow

RESULTS, RUNS, COMMITS, SESSIONS, SERIES = (
    row.__table__ for row in (ResultRow, RunRow, CommitRow, SessionRow, SeriesRow)
)
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
        .where(RUNS.c.invalid.is_(False), RESULTS.c.invalid.is_(False))
    )
    levels: dict[tuple[int, str], list[float]] = {}
    for series_id, identity, level in tx.connection().execute(query):
        levels.setdefault((series_id, identity), []).append(level)
    return levels
