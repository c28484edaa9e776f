"""Load which commits have results of cells already."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Status
from perfci.store.queries.history_conditions import restrict_to_history
from perfci.store.queries.series_commits_machines import load_all_project_series
from perfci.store.tables.measurements import CommitRow, ResultRow, SessionRow
from perfci.store.transactions import in_chunks

FINISHED = "finished"


def load_commits_with_results(tx: Session, project: str, is_wanted: Callable[[str], bool]) -> set[str]:
    """Load the commits whose histories have a value of any wanted cell, from a session that has ended."""
    series = load_all_project_series(tx, project)
    wanted = [row_id for row_id, of_cell in series.items() if is_wanted(of_cell.cell)]
    measured: set[str] = set()
    for some in in_chunks(wanted):
        query = restrict_to_history(sa.select(CommitRow.sha).distinct()).where(
            ResultRow.series_id.in_(some),
            ResultRow.status == Status.OK.value,
            SessionRow.state == FINISHED,
        )
        measured.update(tx.scalars(query))
    return measured
