"""Store results whose unit or direction is unknown, as they arrived, beside their run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Direction
from perfci.store.tables.measurements import RunRow, SessionRow, UnresolvedResultRow
from perfci.store.transactions import execute_and_count_rows

COLUMNS = UnresolvedResultRow.__table__.c


@dataclass(frozen=True, slots=True)
class UnitAnswer:
    """The unit and direction given for a metric of a benchmark; later results of it use them too."""

    unit: str
    direction: Direction


@dataclass(frozen=True, slots=True)
class UnresolvedResult:
    """A result without unit or direction.

    ``document`` holds the original (``found``), the ``unit`` there and the rest of the ``result``.
    """

    id: int
    run_id: int
    run_key: str
    format: str
    metric: str
    document: dict[str, Any]
    reason: str
    created_at: datetime
    resolved_at: datetime | None

    @property
    def benchmark(self) -> str:
        return str(self.document["result"]["benchmark"])

    @property
    def unit_in_file(self) -> str:
        """The unit in the file, if it gives any."""
        return str(self.document.get("unit", self.document["found"].get("unit") or ""))

    @property
    def meaning_key(self) -> tuple[str, str, str, str]:
        """What has one meaning: a metric of a benchmark in one unit, in files of one format."""
        return self.format, self.benchmark, self.metric, self.unit_in_file


def add_unresolved_results(
    tx: Session, run_key: str, format: str, results: Sequence[tuple[str, dict[str, Any], str]], at: datetime
) -> int:
    """Add (metric, document, reason) to the run of this key, once; return how many were new."""
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
        {**beside, "metric": metric, "document": document, "reason": reason}
        for metric, document, reason in results
    ]
    tx.execute(sa.insert(UnresolvedResultRow.__table__), rows)
    return len(rows)


def list_unresolved_results(
    tx: Session, project_id: int, *, after: int = 0, limit: int = 100
) -> list[UnresolvedResult]:
    """List the unresolved results of a project, oldest first, after the id ``after``."""
    return _load_records(
        tx, COLUMNS.project_id == project_id, COLUMNS.resolved_at.is_(None), COLUMNS.id > after, limit=limit
    )


def find_unresolved_result(tx: Session, project_id: int, row_id: int) -> UnresolvedResult | None:
    """Find an unresolved result of a project by its id."""
    return next(
        iter(_load_records(tx, COLUMNS.project_id == project_id, COLUMNS.id == row_id, limit=1)), None
    )


def load_unresolved_results(tx: Session, project_id: int) -> list[UnresolvedResult]:
    """Load all unresolved results of a project."""
    return _load_records(tx, COLUMNS.project_id == project_id, COLUMNS.resolved_at.is_(None))


def count_unresolved_results(tx: Session, project_id: int) -> int:
    """Count the unresolved results of a project."""
    waiting = sa.and_(COLUMNS.project_id == project_id, COLUMNS.resolved_at.is_(None))
    return tx.scalar(sa.select(sa.func.count()).select_from(COLUMNS.id.table).where(waiting)) or 0


def load_unit_answers(tx: Session, project_id: int) -> dict[tuple[str, str, str, str], UnitAnswer]:
    """Load the newest answer for each thing that has one meaning (``UnresolvedResult.meaning_key``)."""
    records = _load_records(tx, COLUMNS.project_id == project_id, COLUMNS.resolved_at.is_not(None))
    return {item.meaning_key: UnitAnswer(**item.document["answer"]) for item in records}


def mark_result_resolved(tx: Session, record: UnresolvedResult, answer: UnitAnswer, at: datetime) -> bool:
    """Mark a result as resolved; return False if it was resolved meanwhile."""
    statement = (
        sa.update(UnresolvedResultRow.__table__)
        .where(COLUMNS.id == record.id, COLUMNS.resolved_at.is_(None))
        .values(resolved_at=at, document=record.document | {"answer": asdict(answer)})
    )
    return bool(execute_and_count_rows(tx, statement))


def _load_records(
    tx: Session, *conditions: sa.ColumnElement[bool], limit: int | None = None
) -> list[UnresolvedResult]:
    query = (
        sa.select(*COLUMNS, RunRow.key.label("run_key"))
        .join(RunRow, COLUMNS.run_id == RunRow.id)
        .where(*conditions)
    )
    names = UnresolvedResult.__dataclass_fields__
    rows = tx.execute(query.order_by(COLUMNS.id).limit(limit))
    return [UnresolvedResult(**{name: getattr(row, name) for name in names}) for row in rows]
