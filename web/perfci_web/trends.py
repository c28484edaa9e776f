"""The trends of many series by their levels alone: as much as a small picture of each shows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session as Transaction

from perfci.history.project_snapshot import group_by_series
from perfci.history.series_points import JudgedHistories
from perfci.model import ChangePoint, Point, Series, Verdict
from perfci.report.charts.series_trend import Dot, Trend, build_dots, build_level_dot, build_trend_from_dots
from perfci.store.conversions import STATUSES
from perfci.store.queries.loaders import load_series_by_ids
from perfci.store.queries.measurements import load_histories
from perfci.store.queries.project_status import load_change_points_of_series, load_current_verdicts


@dataclass(frozen=True, slots=True)
class SeriesVerdicts:
    """What was decided about some series and stands."""

    verdicts: Sequence[Verdict]
    changes: Sequence[ChangePoint]

    @classmethod
    def load(cls, tx: Transaction, series_ids: Collection[int]) -> SeriesVerdicts:
        return cls(load_current_verdicts(tx, series_ids), load_change_points_of_series(tx, series_ids))

    def build_trends(self, points: Mapping[Series, Sequence[Point]]) -> dict[Series, Trend]:
        """The points of these series joined with what was decided about them."""
        return self.build_trends_from_dots({series: build_dots(line) for series, line in points.items()})

    def build_trends_from_dots(self, dots: Mapping[Series, tuple[Dot, ...]]) -> dict[Series, Trend]:
        verdicts, changes = group_by_series(self.verdicts), group_by_series(self.changes)
        return {
            one: build_trend_from_dots(one, line, changes[one], verdicts[one]) for one, line in dots.items()
        }


def load_level_trends(
    tx: Transaction, histories_read: JudgedHistories, decisions: SeriesVerdicts
) -> dict[Series, Trend]:
    """Dots without spread; a history with a commit whose processes are all flagged is read whole, for it is shown."""
    whole = load_histories(
        tx, [row_id for row_id in histories_read.points if histories_read.has_flagged_commit(row_id)]
    )
    series = load_series_by_ids(tx, histories_read.points)
    dots = {
        row_id: build_dots(whole[row_id]) if row_id in whole else _build_dots(histories_read, row_id)
        for row_id in series
    }
    return decisions.build_trends_from_dots({one: dots[row_id] for row_id, one in series.items()})


def _build_dots(histories_read: JudgedHistories, series_id: int) -> tuple[Dot, ...]:
    commits = histories_read.commits
    return tuple(
        build_level_dot(index, commits[one.commit_id], STATUSES[one.status], one.level)
        for index, one in enumerate(histories_read.points[series_id])
    )
