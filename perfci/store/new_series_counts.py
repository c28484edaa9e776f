"""Count the new series of a project by day and by pull request. The caller owns the transaction ``tx``."""

from __future__ import annotations

from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.store.tables.measurements import SeriesCountRow
from perfci.store.transactions import build_insert_or_ignore

COUNTS = SeriesCountRow.__table__

KEPT_DAYS = 90
"""Days for which a count is kept after it last grew."""


def add_to_new_series_count(tx: Session, project_id: int, scope: str, new: int, at: datetime) -> int:
    """Add to the count of a scope; return what it is now."""
    key = {"project_id": project_id, "scope": scope}
    row = tx.scalar(build_insert_or_ignore(tx, SeriesCountRow, "id"), {**key, "count": 0, "counted_at": at})
    if row is not None:  # the first of this day or pull request
        outdated = COUNTS.c.counted_at < at - timedelta(days=KEPT_DAYS)
        tx.execute(sa.delete(COUNTS).where(COUNTS.c.project_id == project_id, outdated))
    same = sa.and_(*(COUNTS.c[name] == value for name, value in key.items()))
    grown = {"count": COUNTS.c.count + new, "counted_at": at}
    update = sa.update(COUNTS).where(same).values(grown).returning(COUNTS.c["count"])
    return int(tx.execute(update).scalar_one())
