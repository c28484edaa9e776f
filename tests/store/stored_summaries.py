"""Compute the summaries of stored results, as the worker does before it judges them."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.history.series_histories import compute_result_summaries
from perfci.store.queries.result_levels import load_ok_results_with_processes, save_result_summaries
from perfci.store.tables.measurements import ResultRow


def compute_stored_summaries(tx: Session) -> None:
    results = load_ok_results_with_processes(tx, list(tx.scalars(sa.select(ResultRow.id))))
    save_result_summaries(tx, compute_result_summaries(results))
