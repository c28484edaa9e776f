"""Compute the summaries of stored results, as the worker does before it judges them."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.history.series_histories import compute_result_summaries
from perfci.store.queries.judging_inputs import load_processes_of_ok_results, save_result_summaries
from perfci.store.tables.measurements import ResultRow


def compute_stored_summaries(tx: Session) -> None:
    results = load_processes_of_ok_results(tx, list(tx.scalars(sa.select(ResultRow.id))))
    if summaries := compute_result_summaries(results):
        save_result_summaries(tx, summaries)
