"""Load the list of all series as cells of a CSV, with little work for each: a project has ten thousand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy.orm import Session

from perfci.history.load_series_points import load_project_points_records
from perfci.model import Series
from perfci.store.derived_values import load_or_derive
from perfci.store.queries.measured_series import load_series_with_newest_commits
from perfci.store.queries.query_records import StoredSeries
from perfci.store.queries.series_commits_machines import load_shas_by_commit_id
from perfci.store.queries.series_points import SeriesPointsRecord
from perfci.store.queries.series_search import load_listed_series
from perfci.store.transactions import CHUNK
from perfci.store.verdicts_and_change_points import load_change_points, load_verdict_records
from perfci_web.benchmarks.view_model import build_series_list_row, serialize_series_list_row
from perfci_web.load_series_trends import VerdictsAndChangePoints, load_series_trends
from perfci_web.view_parts.csv_response import SERIES_COLUMNS, build_series_cells, format_cell

HISTORY_COLUMNS = (
    "judged",
    "commits",
    "last_commit",
    "last_status",
    "last_reason",
    "level",
    "last_change_commit",
    "last_change_ratio",
    "last_change_state",
)


def load_csv_rows(tx: Session, project: str, stored: Sequence[StoredSeries]) -> list[list[str]]:
    """Load the rows of many series; points are read only where the stored record does not have the level.

    It has not where the level has changed, or where the series is not judged.
    """
    points = load_project_points_records(tx, project)
    decisions = _load_decisions(tx, project, stored)
    changed = {verdict.series for verdict in decisions.verdicts}
    changed |= {change.series for change in decisions.changes}
    changed_names = {series.benchmark.name for series in changed}
    plain = {
        item.id
        for item in stored
        if item.id in points
        and points[item.id].judged
        and not (item.series.benchmark.name in changed_names and item.series in changed)
    }
    shas = load_shas_by_commit_id(tx, {points[series_id].last_commit_id for series_id in plain})
    rest = load_series_with_newest_commits(tx, project, [item for item in stored if item.id not in plain])
    trends = load_series_trends(tx, project, [record.id for record in rest], decisions)
    histories = {}
    for record in rest:
        fields = serialize_series_list_row(build_series_list_row(record, trends.get(record.id)))
        histories[record.id] = [format_cell(fields[column]) for column in HISTORY_COLUMNS]
    names = load_or_derive(
        tx, project, "cells of series", lambda: _format_names(load_listed_series(tx, project))
    )
    return [
        [*names[item.id], *(histories.get(item.id) or _format_plain_history(item, points[item.id], shas))]
        for item in stored
    ]


def _load_decisions(tx: Session, project: str, stored: Sequence[StoredSeries]) -> VerdictsAndChangePoints:
    """Load the decisions on some series; on most of a project, all at once."""
    if len(stored) <= CHUNK:
        return VerdictsAndChangePoints.load(tx, [item.id for item in stored])
    verdicts = [record.verdict for record in load_verdict_records(tx, project)]
    return VerdictsAndChangePoints(verdicts, load_change_points(tx, project))


def _format_names(stored: Sequence[StoredSeries]) -> dict[int, list[str]]:
    """Format what identifies each series, by id."""
    return {item.id: _format_series(item.series) for item in stored}


def _format_series(series: Series) -> list[str]:
    fields = build_series_cells(series)
    return [format_cell(fields[column]) for column in SERIES_COLUMNS]


def _format_plain_history(
    stored: StoredSeries, points: SeriesPointsRecord, shas: Mapping[int, str]
) -> list[str]:
    """Format the history of a judged series without a change: its level is the median of all values."""
    return [
        "False" if stored.is_informational else "True",
        repr(points.commits),
        shas[points.last_commit_id],
        points.last_status.value,
        format_cell(points.last_reason),
        format_cell(points.level),
        "",
        "",
        "",
    ]
