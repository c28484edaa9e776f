"""Results whose unit or direction nobody knows yet, kept as they came beside their run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Direction
from perfci.store.tables.jobs import QuarantinedResultRow
from perfci.store.tables.measurements import RunRow, SessionRow
from perfci.store.writes.row_ids import table

COLUMNS = table(QuarantinedResultRow).c


@dataclass(frozen=True, slots=True)
class Answer:
    """What somebody said of a metric; the same is believed of every later result of it from that format."""

    unit: str
    direction: Direction


@dataclass(frozen=True, slots=True)
class QuarantinedRecord:
    """``document`` holds ``found``, as the file had it, and ``result``, complete but for unit and direction."""

    id: int
    run_id: int
    run_key: str
    format: str
    metric: str
    document: dict[str, Any]
    reason: str
    created_at: datetime
    resolved_at: datetime | None


def add(
    tx: Session, run_key: str, format: str, results: Sequence[tuple[str, dict[str, Any], str]], at: datetime
) -> int:
    """Keep (metric, document, reason) beside the run of this key, once; return how many were new."""
    if not results:
        return 0
    run = tx.execute(
        sa.select(RunRow.id, SessionRow.project_id)
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .where(RunRow.key == run_key)
    ).first()
    if run is None or tx.scalar(sa.select(COLUMNS.id).where(COLUMNS.run_id == run.id).limit(1)) is not None:
        return 0
    beside = {"project_id": run.project_id, "run_id": run.id, "format": format, "created_at": at}
    rows = [
        {**beside, "metric": metric, "document": document, "reason": reason} for metric, document, reason in results
    ]
    tx.execute(sa.insert(table(QuarantinedResultRow)), rows)
    return len(rows)


def waiting(tx: Session, project_id: int, *, after: int = 0, limit: int = 100) -> list[QuarantinedRecord]:
    """The results of a project that wait for a unit and a direction, oldest first, from behind the id ``after``."""
    return _records(
        tx, COLUMNS.project_id == project_id, COLUMNS.resolved_at.is_(None), COLUMNS.id > after, limit=limit
    )


def one(tx: Session, project_id: int, row_id: int) -> QuarantinedRecord | None:
    return next(iter(_records(tx, COLUMNS.project_id == project_id, COLUMNS.id == row_id, limit=1)), None)


def same_metric(tx: Session, project_id: int, format: str | None, metric: str) -> list[QuarantinedRecord]:
    """All that wait for the same answer, of one format or of any."""
    alike = [COLUMNS.metric == metric] + ([COLUMNS.format == format] if format else [])
    return _records(tx, COLUMNS.project_id == project_id, COLUMNS.resolved_at.is_(None), *alike)


def answers(tx: Session, project_id: int) -> dict[tuple[str, str], Answer]:
    """What was said of each (format, metric), the newest answer of each."""
    found = _records(tx, COLUMNS.project_id == project_id, COLUMNS.resolved_at.is_not(None))
    return {(one.format, one.metric): Answer(**one.document["answer"]) for one in found}


def resolve(tx: Session, record: QuarantinedRecord, answer: Answer, at: datetime) -> bool:
    """Mark one as answered; False where somebody else was first."""
    done = tx.execute(
        sa.update(table(QuarantinedResultRow))
        .where(COLUMNS.id == record.id, COLUMNS.resolved_at.is_(None))
        .values(resolved_at=at, document=record.document | {"answer": asdict(answer)})
    )
    return bool(done.rowcount)  # type: ignore[attr-defined]


def say_source(tx: Session, sessions: Sequence[str], source: str) -> None:
    """Write down what is only approximately known of sessions measured elsewhere."""
    if sessions:
        tx.execute(sa.update(table(SessionRow)).where(SessionRow.uid.in_(sessions)).values(source=source))


def _records(tx: Session, *chosen: sa.ColumnElement[bool], limit: int | None = None) -> list[QuarantinedRecord]:
    query = sa.select(*COLUMNS, RunRow.key.label("run_key")).join(RunRow, COLUMNS.run_id == RunRow.id).where(*chosen)
    names = QuarantinedRecord.__dataclass_fields__
    rows = tx.execute(query.order_by(COLUMNS.id).limit(limit))
    return [QuarantinedRecord(**{name: getattr(row, name) for name in names}) for row in rows]
