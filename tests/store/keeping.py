"""Work out what stored results came to, as the judge does before it judges them."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.history.result_summaries import compute_summaries
from perfci.store.queries.result_summaries import save_result_summaries
from perfci.store.tables.measurements import ResultRow


def keep_levels(tx: Session) -> None:
    save_result_summaries(tx, compute_summaries(tx, list(tx.scalars(sa.select(ResultRow.id)))))
