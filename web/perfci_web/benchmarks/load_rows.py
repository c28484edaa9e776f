"""Load the rows of a list of series, each with the end of its history as a picture."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.orm import Session

from perfci.store.queries.query_records import SeriesRecord
from perfci_web.benchmarks.view_model import SeriesListRow, build_series_list_row
from perfci_web.load_series_trends import load_series_trends, show_last_commits


def load_rows(tx: Session, project: str, records: Sequence[SeriesRecord]) -> dict[int, SeriesListRow]:
    """Load the rows of some series by series id."""
    trends = load_series_trends(tx, project, [record.id for record in records])
    ends = show_last_commits(tx, project, trends)
    return {
        record.id: build_series_list_row(record, trends.get(record.id), ends.get(record.id))
        for record in records
    }
