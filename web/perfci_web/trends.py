"""The trends of many series by their levels alone: as much as a small picture of each shows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session as Transaction

from perfci.history.project_snapshot import by_series
from perfci.history.series_points import JudgedLines
from perfci.model import ChangePoint, Point, Series, Verdict
from perfci.report.charts.series_trend import Dot, Trend, dots_of, plain_dot, trend_of_dots
from perfci.store.conversions import STATUSES
from perfci.store.queries.loaders import series_by_ids
from perfci.store.queries.measurements import histories
from perfci.store.queries.project_status import changes_of, verdicts_of


@dataclass(frozen=True, slots=True)
class Decided:
    """What was decided about some series and stands."""

    verdicts: Sequence[Verdict]
    changes: Sequence[ChangePoint]

    @classmethod
    def of(cls, tx: Transaction, series_ids: Collection[int]) -> Decided:
        return cls(verdicts_of(tx, series_ids), changes_of(tx, series_ids))

    def trends(self, points: Mapping[Series, Sequence[Point]]) -> dict[Series, Trend]:
        """The points of these series joined with what was decided about them."""
        return self.of_dots({series: dots_of(line) for series, line in points.items()})

    def of_dots(self, dots: Mapping[Series, tuple[Dot, ...]]) -> dict[Series, Trend]:
        verdicts, changes = by_series(self.verdicts), by_series(self.changes)
        return {one: trend_of_dots(one, line, changes[one], verdicts[one]) for one, line in dots.items()}


def small_trends(tx: Transaction, lines: JudgedLines, decided: Decided) -> dict[Series, Trend]:
    """Dots without spread; a history with a commit whose processes are all flagged is read whole, for it is shown."""
    whole = histories(tx, [row_id for row_id in lines.points if lines.hides(row_id)])
    series = series_by_ids(tx, lines.points)
    dots = {row_id: dots_of(whole[row_id]) if row_id in whole else _dots(lines, row_id) for row_id in series}
    return decided.of_dots({one: dots[row_id] for row_id, one in series.items()})


def _dots(lines: JudgedLines, series_id: int) -> tuple[Dot, ...]:
    commits = lines.commits
    return tuple(
        plain_dot(index, commits[one.commit_id], STATUSES[one.status], one.level)
        for index, one in enumerate(lines.points[series_id])
    )
