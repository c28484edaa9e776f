"""Count and list the current verdicts between two commits, worst first, and the pairs compared last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Stage, VerdictKind
from perfci.store.queries.history_conditions import current_verdict_condition
from perfci.store.queries.query_records import VerdictRecord, build_verdict_record
from perfci.store.queries.series_commits_machines import load_series_by_ids
from perfci.store.tables.measurements import SessionRow
from perfci.store.tables.verdicts import VerdictRow

VERDICTS, SESSIONS = VerdictRow.__table__, SessionRow.__table__

WORST_FIRST = (
    VerdictKind.REGRESSION,
    VerdictKind.FAILED,
    VerdictKind.MISSING,
    VerdictKind.INCONCLUSIVE,
    VerdictKind.NOT_COMPARABLE,
    VerdictKind.IMPROVEMENT,
    VerdictKind.UNCHANGED,
)

RANK_STEP = 10**16
"""The sort key is the severity of the kind times this, plus the verdict id, which stays below it."""

RANK = sa.case({kind.value: rank for rank, kind in enumerate(WORST_FIRST)}, value=VERDICTS.c.kind)
SORT_KEY = sa.cast(RANK, sa.BigInteger) * RANK_STEP + VERDICTS.c.id


class CommitPair(NamedTuple):
    """Two commits of a project, by its id."""

    project_id: int
    base: str
    head: str


class RankedVerdict(NamedTuple):
    """A verdict and its rank in the order of severity."""

    rank: int
    record: VerdictRecord


def count_ranked_verdicts(tx: Session, commits: CommitPair) -> dict[str, int]:
    """Count the current verdicts of each kind, worst first."""
    query = (
        sa.select(VERDICTS.c.kind, sa.func.count().label("verdicts"))
        .where(*_match_commits(commits))
        .group_by(VERDICTS.c.kind)
    )
    counted = {row.kind: row.verdicts for row in tx.execute(query)}
    return {kind.value: counted[kind.value] for kind in WORST_FIRST if kind.value in counted}


def list_ranked_verdicts(
    tx: Session, commits: CommitPair, *, after: int = 0, limit: int
) -> list[RankedVerdict]:
    """List a page of verdicts after a rank, worst first."""
    query = (
        sa.select(*VERDICTS.c, SESSIONS.c.uid.label("session_uid"), SORT_KEY.label("place"))
        .join(SESSIONS, VERDICTS.c.session_id == SESSIONS.c.id)
        .where(*_match_commits(commits), after < SORT_KEY)
        .order_by(SORT_KEY)
        .limit(limit)
    )
    rows = tx.execute(query).all()
    series = load_series_by_ids(tx, {row.series_id for row in rows})
    return [RankedVerdict(row.place, build_verdict_record(row, series[row.series_id])) for row in rows]


NEWEST_VERDICTS = 5000
"""Verdicts among which the newest comparisons are looked for, so that a list reads no whole history."""


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """Two commits that were compared: when last, and how many verdicts there are of each kind and stage."""

    base: str
    head: str
    decided_at: datetime
    counts: Mapping[tuple[VerdictKind, Stage], int]


def list_compared_pairs(tx: Session, project_id: int, limit: int) -> list[ComparedPair]:
    """List the comparisons that were decided last, newest first, those of pull requests too."""
    newest = (
        sa.select(VERDICTS.c.id, VERDICTS.c.base, VERDICTS.c.head, VERDICTS.c.created_at)
        .where(VERDICTS.c.project_id == project_id, current_verdict_condition())
        .order_by(VERDICTS.c.id.desc())
        .limit(NEWEST_VERDICTS)
        .subquery()
    )
    last = sa.func.max(newest.c.id)
    decided = sa.func.max(newest.c.created_at, type_=VERDICTS.c.created_at.type).label("decided_at")
    query = sa.select(newest.c.base, newest.c.head, decided).group_by(newest.c.base, newest.c.head)
    pairs = tx.execute(query.order_by(last.desc()).limit(limit)).all()
    return [
        ComparedPair(
            pair.base,
            pair.head,
            pair.decided_at,
            count_kinds_and_stages(tx, CommitPair(project_id, pair.base, pair.head)),
        )
        for pair in pairs
    ]


def count_kinds_and_stages(tx: Session, commits: CommitPair) -> dict[tuple[VerdictKind, Stage], int]:
    """Count the current verdicts between two commits by kind and stage."""
    query = (
        sa.select(VERDICTS.c.kind, VERDICTS.c.stage, sa.func.count())
        .where(*_match_commits(commits))
        .group_by(VERDICTS.c.kind, VERDICTS.c.stage)
    )
    return {(VerdictKind(kind), Stage(stage)): count for kind, stage, count in tx.execute(query)}


def _match_commits(commits: CommitPair) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        VERDICTS.c.project_id == commits.project_id,
        VERDICTS.c.base == commits.base,
        VERDICTS.c.head == commits.head,
        current_verdict_condition(),
    )
