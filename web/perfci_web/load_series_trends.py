"""Load the trends of series: their levels, with the verdicts and change points on them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session as Transaction

from perfci.history.incident_inputs import group_by_series
from perfci.history.series_histories import JudgedHistories
from perfci.model import ChangePoint, Point, Series, Verdict
from perfci.report.series_trend import (
    Dot,
    Trend,
    build_dot_without_interval,
    build_dots,
    build_trend_from_dots,
)
from perfci.store.column_conversions import STATUSES
from perfci.store.queries.measured_samples import load_histories_by_series_id
from perfci.store.queries.project_status import load_change_points_of_series, load_current_verdicts
from perfci.store.queries.series_commits_machines import load_series_by_ids


@dataclass(frozen=True, slots=True)
class VerdictsAndChangePoints:
    """The current verdicts and change points of some series."""

    verdicts: Sequence[Verdict]
    changes: Sequence[ChangePoint]

    @classmethod
    def load(cls, tx: Transaction, series_ids: Collection[int]) -> VerdictsAndChangePoints:
        return cls(load_current_verdicts(tx, series_ids), load_change_points_of_series(tx, series_ids))

    def build_trends(self, points: Mapping[Series, Sequence[Point]]) -> dict[Series, Trend]:
        """Join the points of series with the decisions on them."""
        return self.build_trends_from_dots(
            {series: build_dots(series_points) for series, series_points in points.items()}
        )

    def build_trends_from_dots(self, dots: Mapping[Series, tuple[Dot, ...]]) -> dict[Series, Trend]:
        verdicts, changes = group_by_series(self.verdicts), group_by_series(self.changes)
        return {
            series: build_trend_from_dots(series, series_dots, changes[series], verdicts[series])
            for series, series_dots in dots.items()
        }


def load_trends_from_levels(
    tx: Transaction, histories_read: JudgedHistories, decisions: VerdictsAndChangePoints
) -> dict[Series, Trend]:
    """Load trends without spread, from levels alone."""
    # Judged levels leave flagged processes out: where a commit has no others, its dot needs the processes.
    full_histories = load_histories_by_series_id(
        tx,
        [
            row_id
            for row_id in histories_read.points
            if histories_read.has_commit_without_unflagged_process(row_id)
        ],
    )
    series = load_series_by_ids(tx, histories_read.points)
    commits = histories_read.commits
    dots: dict[Series, tuple[Dot, ...]] = {}
    for row_id, each in series.items():
        if row_id in full_histories:
            dots[each] = build_dots(full_histories[row_id])
            continue
        dots[each] = tuple(
            build_dot_without_interval(index, commits[point.commit_id], STATUSES[point.status], point.level)
            for index, point in enumerate(histories_read.points[row_id])
        )
    return decisions.build_trends_from_dots(dots)
