"""Load one series with all that its page and its chart show."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from sqlalchemy.orm import Session

from perfci.model import Commit
from perfci.report.charts.drawn_trend import ChartContext
from perfci.report.charts.joined_trend import EarlierHistory
from perfci.report.environment_changes import describe_environment_changes
from perfci.report.page_summaries import PageSummary, trend_summary
from perfci.report.series_places import SeriesPlaces
from perfci.report.series_trend import Trend
from perfci.store.chart_notes import ChartNote, list_chart_notes
from perfci.store.incidents.incident_store import load_incident_numbers_of_series
from perfci.store.projects import Project
from perfci.store.queries.branch_commits import load_branch_commits
from perfci.store.queries.measured_places import load_changing_machines
from perfci.store.queries.measured_samples import load_environments_of_history
from perfci.store.queries.query_records import SeriesRecord
from perfci.verdicts.history.trend_sensitivity import TrendSensitivity, estimate_trend_sensitivity
from perfci_web.application_context import web_context
from perfci_web.load_series_trends import SeriesTrend, draw_charts, load_series_trends
from perfci_web.series.earlier_history import load_earlier_history


@dataclass(frozen=True, slots=True)
class LoadedSeries:
    """One series with its trend; ``judged`` says whether verdicts are given on it, ``twin`` is the trend of
    the same processes by the other clock, ``earlier`` what another harness measured before."""

    project: Project
    record: SeriesRecord
    trend: Trend
    judged: bool
    twin: Trend | SeriesTrend | None = None
    commits: tuple[Commit, ...] = ()
    sensitivity: TrendSensitivity | None = None
    incident_numbers: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    environment_changes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    earlier: EarlierHistory | None = None
    notes: tuple[ChartNote, ...] = ()

    @property
    def charted(self) -> Trend:
        """What the chart shows: the trend, after what another harness measured before."""
        return self.earlier.joined if self.earlier else self.trend

    @property
    def note_texts(self) -> Mapping[str, str]:
        """What was noted, by the sha of the commit; several notes at one as one text."""
        texts: dict[str, str] = {}
        for note in self.notes:
            texts[note.sha] = f"{texts[note.sha]}; {note.text}" if note.sha in texts else note.text
        return texts

    @property
    def summary(self) -> PageSummary:
        """What a reader of the series wants to know first."""
        return trend_summary(self.trend, self.sensitivity, self.incident_numbers)

    @property
    def place(self) -> str:
        """Machine and variant."""
        return SeriesPlaces([self.record.series]).common

    def chart_context(self, pinned_sha: str = "") -> ChartContext:
        """What a chart shows beside the trend."""
        return ChartContext(
            commits=self.commits,
            smallest_step=self.sensitivity.smallest_step if self.sensitivity else None,
            environment_changes=self.environment_changes,
            breaks=self.earlier.breaks if self.earlier else {},
            incident_numbers=self.incident_numbers,
            notes=self.note_texts,
            pinned_sha=pinned_sha,
            place=self.place,
        )


def load_series(
    tx: Session,
    project: Project,
    record: SeriesRecord,
    twin: SeriesRecord | None = None,
    records: Sequence[SeriesRecord] = (),
    trends: Mapping[int, SeriesTrend] | None = None,
) -> LoadedSeries:
    """Load a series, the trend of its clock twin, and what another harness measured before, found among the
    ``records`` of its benchmark; ``trends`` has at least its own and that of the twin, if they are loaded."""
    if trends is None:
        trends = load_series_trends(tx, project.slug, [each.id for each in (record, twin) if each])
    own = trends.get(record.id)
    numbers = load_incident_numbers_of_series(tx, [record.id])
    trend = Trend(record.series, (), (), ())
    if own is not None:
        trend = draw_charts(tx, project.slug, {record.id: own}, sys.maxsize)[record.id]
    policy = web_context().load_policies(project).policy
    is_judged = own.record.judged if own else policy.is_judged(record.series)
    is_judged = is_judged and not record.is_informational
    return LoadedSeries(
        project,
        record,
        trend,
        is_judged,
        trends.get(twin.id) if twin else None,
        load_branch_commits(tx, project.slug).commits,
        estimate_sensitivity(project, trend) if is_judged else None,
        {commit: number for (_, commit), number in numbers.items()},
        _load_environment_changes(tx, project, record, trend),
        load_earlier_history(tx, record, records),
        tuple(list_chart_notes(tx, project.id, series_id=record.id)),
    )


def _load_environment_changes(
    tx: Session, project: Project, record: SeriesRecord, trend: Trend
) -> dict[str, str]:
    """What changed in the environment, by the first commit that was measured in the new one."""
    if record.series.machine not in load_changing_machines(tx, project.slug):
        return {}
    environments = load_environments_of_history(tx, record.id)
    shas = [commit.sha for commit in trend.columns.commits if commit.sha in environments]
    return describe_environment_changes([(sha, environments[sha]) for sha in shas])


def estimate_sensitivity(project: Project, trend: Trend) -> TrendSensitivity | None:
    """What the noise of a trend hides, by the threshold that the project has for such series."""
    bar = web_context().load_policies(project).policy.rule_for(trend.series).bar
    segments = [trend.columns.levels[level.first : level.last + 1] for level in trend.levels]
    values = [segment[~np.isnan(segment)].tolist() for segment in segments]
    return estimate_trend_sensitivity([segment for segment in values if segment], bar)
