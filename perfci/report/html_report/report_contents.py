"""What a static report tells: values that the renderer writes and a service fills from the store."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from perfci.model import ChangePoint, Commit, Series
from perfci.report.page_summaries import PageSummary
from perfci.report.series_trend import Trend


@dataclass(frozen=True, slots=True)
class ReportedIncident:
    """An open incident; ``number`` is 0 where it was never stored."""

    number: int
    kind: str
    headline: str
    explanation: str
    state: str
    assignee: str = ""


@dataclass(frozen=True, slots=True)
class ReportedChange:
    """The change of one series; ``incident`` is 0 where it belongs to none."""

    change: ChangePoint
    commit: Commit | None
    confirmed: bool
    incident: int = 0

    @property
    def is_worse(self) -> bool:
        return self.change.log_cost_change > 0


@dataclass(frozen=True, slots=True)
class MetricScore:
    """What the changes of a report did to the series of one metric.

    ``mean_ratio`` is the geometric mean of after/before in cost (above 1 is worse) over all ``series``, one
    that did not change counting as 1; absent where a change has no ratio.
    """

    metric: str
    series: int
    worse: int
    better: int
    mean_ratio: float | None


@dataclass(frozen=True, slots=True)
class StaticReport:
    """A whole report; ``window`` says of what time, ``changed_series`` counts those with a change in it."""

    project: str
    written_at: datetime
    window: str
    summary: PageSummary
    incidents: tuple[ReportedIncident, ...]
    incident_count: int
    changes: tuple[ReportedChange, ...]
    change_count: int
    worse_count: int
    scores: tuple[MetricScore, ...]
    trends: tuple[Trend, ...]
    changed_series: int
    last_measured_at: datetime | None = None


def score_metrics(changes: Iterable[ChangePoint], series: Iterable[Series]) -> tuple[MetricScore, ...]:
    """Sum changes up by metric, those that moved most series first; a metric without a change is left out."""
    changes_by_metric: Mapping[str, list[ChangePoint]] = defaultdict(list)
    for change in changes:
        changes_by_metric[change.series.metric.name].append(change)
    series_by_metric: Mapping[str, set[Series]] = defaultdict(set)
    for item in [*series, *(change.series for some in changes_by_metric.values() for change in some)]:
        series_by_metric[item.metric.name].add(item)
    scores = [
        _score_metric(metric, changed, len(series_by_metric[metric]))
        for metric, changed in changes_by_metric.items()
    ]
    return tuple(sorted(scores, key=lambda score: (-score.worse, -score.better, score.metric)))


def _score_metric(metric: str, changes: list[ChangePoint], series: int) -> MetricScore:
    shifts = [change.log_cost_change for change in changes]
    mean_shift = sum(shifts) / series
    mean_ratio = math.exp(mean_shift) if math.isfinite(mean_shift) else None
    worse = sum(shift > 0 for shift in shifts)
    return MetricScore(metric, series, worse, len(shifts) - worse, mean_ratio)
