"""The verdicts that stand between two commits, worst first: counted, and read a page at a time."""

from __future__ import annotations

from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import VerdictKind
from perfci.store import conversions
from perfci.store.queries.loaders import series_by_ids
from perfci.store.queries.records import VerdictRecord
from perfci.store.tables.measurements import SessionRow, VerdictRow
from perfci.store.writes.row_ids import table

VERDICTS, SESSIONS = table(VerdictRow), table(SessionRow)

WORST_FIRST = (
    VerdictKind.REGRESSION,
    VerdictKind.FAILED,
    VerdictKind.MISSING,
    VerdictKind.INCONCLUSIVE,
    VerdictKind.NOT_COMPARABLE,
    VerdictKind.IMPROVEMENT,
    VerdictKind.UNCHANGED,
)

BEFORE = 10**16
"""A place is the rank of the verdict's kind and its id in one number, the rank first: no store has so many verdicts."""

RANK = sa.case({kind.value: rank for rank, kind in enumerate(WORST_FIRST)}, value=VERDICTS.c.kind)
PLACE = sa.cast(RANK, sa.BigInteger) * BEFORE + VERDICTS.c.id


class Between(NamedTuple):
    """Two commits of a project, by its id."""

    project_id: int
    base: str
    head: str


class Standing(NamedTuple):
    """A verdict, and its place in the order of all."""

    place: int
    record: VerdictRecord


def standing_counts(tx: Session, between: Between) -> dict[str, int]:
    """How many of each kind stand, worst first."""
    query = sa.select(VERDICTS.c.kind, sa.func.count().label("verdicts")).where(*_of(between)).group_by(VERDICTS.c.kind)
    counted = {row.kind: row.verdicts for row in tx.execute(query)}
    return {kind.value: counted[kind.value] for kind in WORST_FIRST if kind.value in counted}


def standing(tx: Session, between: Between, *, after: int = 0, limit: int) -> list[Standing]:
    """The verdicts after a place, worst first."""
    query = (
        sa.select(*VERDICTS.c, SESSIONS.c.uid.label("session_uid"), PLACE.label("place"))
        .join(SESSIONS, VERDICTS.c.session_id == SESSIONS.c.id)
        .where(*_of(between), after < PLACE)
        .order_by(PLACE)
        .limit(limit)
    )
    rows = tx.execute(query).all()
    series = series_by_ids(tx, {row.series_id for row in rows})
    return [
        Standing(
            row.place,
            VerdictRecord(
                id=row.id,
                verdict=conversions.verdict_of(row, series[row.series_id]),
                session_uid=row.session_uid,
                created_at=row.created_at,
                superseded_by=row.superseded_by,
            ),
        )
        for row in rows
    ]


def _of(between: Between) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        VERDICTS.c.project_id == between.project_id,
        VERDICTS.c.base == between.base,
        VERDICTS.c.head == between.head,
        VERDICTS.c.superseded_by.is_(None),
    )
