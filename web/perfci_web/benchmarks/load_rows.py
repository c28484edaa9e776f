"""Load the rows of a list of series: of one page with their pictures, or of all without."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlalchemy.orm import Session

from perfci.history.load_series_points import load_project_points_records
from perfci.report.series_trend import Trend
from perfci.store.queries.measured_series import load_series_with_newest_commits
from perfci.store.queries.query_records import SeriesRecord, StoredSeries
from perfci.store.queries.series_commits_machines import load_shas_by_commit_id
from perfci.store.queries.series_points import SeriesPointsRecord
from perfci_web.benchmarks.view_model import SeriesListRow, build_series_list_row
from perfci_web.load_series_trends import VerdictsAndChangePoints, load_series_trends, show_last_commits


def load_rows(tx: Session, project: str, records: Sequence[SeriesRecord]) -> dict[int, SeriesListRow]:
    """Load the rows of some series by series id."""
    trends = load_series_trends(tx, project, [record.id for record in records])
    ends = show_last_commits(tx, trends)
    return {
        record.id: build_series_list_row(record, trends.get(record.id), ends.get(record.id))
        for record in records
    }


def load_rows_without_pictures(
    tx: Session, project: str, stored: Sequence[StoredSeries]
) -> Iterator[SeriesListRow]:
    """Load the rows of many series; points are read only where the stored record does not have the level.

    It has not where the level has changed, or where the series is not judged.
    """
    points = load_project_points_records(tx, project)
    decisions = VerdictsAndChangePoints.load(tx, [item.id for item in stored])
    changed = {verdict.series for verdict in decisions.verdicts}
    changed |= {change.series for change in decisions.changes}
    plain = {
        item.id
        for item in stored
        if item.id in points and points[item.id].judged and item.series not in changed
    }
    shas = load_shas_by_commit_id(tx, {points[series_id].last_commit_id for series_id in plain})
    rest = load_series_with_newest_commits(tx, project, [item for item in stored if item.id not in plain])
    trends = load_series_trends(tx, project, [record.id for record in rest], decisions)
    rows = {record.id: build_series_list_row(record, trends.get(record.id)) for record in rest}
    return (
        rows[item.id] if item.id in rows else _build_plain_row(item, points[item.id], shas) for item in stored
    )


def _build_plain_row(
    stored: StoredSeries, points: SeriesPointsRecord, shas: Mapping[int, str]
) -> SeriesListRow:
    """Build the row of a judged series without a change: its level is the median of all values."""
    end = (points.commits, shas[points.last_commit_id], points.last_status, points.last_reason)
    record = SeriesRecord(stored.id, stored.series, stored.never_measured, stored.clock, *end)
    trend = Trend(stored.series, (), (), ())
    return SeriesListRow(record, trend, points.level, None, judged=not record.is_informational)
