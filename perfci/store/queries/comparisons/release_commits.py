"""Find the commits that changes are counted from: releases, and the last value of a series before a date."""

from __future__ import annotations

from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Commit, Status
from perfci.store.queries.history_conditions import HISTORY_KINDS, restrict_to_history
from perfci.store.queries.series_commits_machines import load_commits_by_id
from perfci.store.tables.measurements import CommitRow, ResultRow, RunRow, SessionRow

MAX_TAGGED = 500
"""The newest commits with a tag, among which a release is sought."""


def find_tagged_commit(tx: Session, project_id: int, pattern: str) -> tuple[str, Commit] | None:
    """Find the newest commit with a tag of a pattern, and that tag; of several the first by name."""
    newest = (
        sa.select(CommitRow.id)
        .where(
            CommitRow.project_id == project_id,
            CommitRow.dirty.is_(False),
            sa.type_coerce(CommitRow.tags, sa.Text) != "[]",
        )
        .order_by(CommitRow.position.desc().nulls_last(), CommitRow.committed_at.desc().nulls_last())
        .limit(MAX_TAGGED)
    )
    ids = list(tx.scalars(newest))
    commits = load_commits_by_id(tx, ids=ids)
    for row_id in ids:
        matching = sorted(tag for tag in commits[row_id].tags if fnmatchcase(tag, pattern))
        if matching:
            return matching[0], commits[row_id]
    return None


def find_last_measured_commit_id(tx: Session, series_id: int, until: Commit | datetime) -> int | None:
    """Find the last commit up to another one, or up to a date, that a series has a value of."""
    query = restrict_to_history(sa.select(CommitRow.id)).where(
        ResultRow.series_id == series_id, ResultRow.status == Status.OK.value
    )
    if isinstance(until, Commit) and until.position is not None:
        query = query.where(CommitRow.position <= until.position).order_by(CommitRow.position.desc())
    else:
        end = until.committed_at if isinstance(until, Commit) else until
        query = query.where(CommitRow.committed_at <= end).order_by(CommitRow.committed_at.desc())
    commit_id: int | None = tx.scalar(query.limit(1))
    return commit_id


def find_commit_before(tx: Session, project_id: int, age: timedelta) -> Commit | None:
    """Find the newest measured commit that is at least so much older than the newest measured one."""
    dated = (
        restrict_to_history(sa.select(CommitRow.id, CommitRow.committed_at))
        .where(CommitRow.project_id == project_id, CommitRow.committed_at.is_not(None))
        .order_by(CommitRow.committed_at.desc())
        .limit(1)
    )
    newest = tx.execute(dated).first()
    if newest is None:
        return None
    older = tx.execute(dated.where(CommitRow.committed_at <= newest.committed_at - age)).first()
    return load_commits_by_id(tx, ids=[older.id])[older.id] if older else None


class NearRun(NamedTuple):
    """A run of the history near a commit: the newest of its place and suite have rank 1."""

    id: int
    machine_id: int
    variant_id: int
    suite: str
    rank: int


def load_last_runs(
    tx: Session, project_id: int, base: Commit, count: int, *, after: bool = False
) -> list[NearRun]:
    """Load the last runs of each place and suite up to a commit, or the last ones ``after`` it."""
    by_place = base.position is not None
    order = CommitRow.__table__.c["position" if by_place else "committed_at"]
    end = base.position if by_place else base.committed_at
    if end is None:
        return []
    run = RunRow.__table__.c
    rank = sa.func.row_number().over(
        partition_by=(run.machine_id, run.variant_id, run.suite), order_by=(order.desc(), run.id.desc())
    )
    ranked = (
        sa.select(run.id, run.machine_id, run.variant_id, run.suite, rank.label("rank"))
        .join(SessionRow, run.session_id == SessionRow.id)
        .join(CommitRow, run.commit_id == CommitRow.id)
        .where(
            CommitRow.project_id == project_id,
            CommitRow.branch == base.branch,
            CommitRow.dirty.is_(False),
            order > end if after else order <= end,
            SessionRow.kind.in_(HISTORY_KINDS),
            run.invalid.is_(False),
        )
        .subquery()
    )
    query = sa.select(ranked).where(ranked.c.rank <= count)
    return [NearRun(*row) for row in tx.connection().execute(query)]
