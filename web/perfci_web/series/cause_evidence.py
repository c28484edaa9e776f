"""Load what tells whether the code or the runner made a change of some series, or the noise of one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy.orm import Session

from perfci.model import ChangePoint, Machine, MetricClass, Series, Variant
from perfci.report.environment_changes import format_environment_changes
from perfci.report.incidents.cause_evidence import (
    AaRuns,
    CauseEvidence,
    CauseInputs,
    MovedOf,
    PlaceMoves,
    build_cause_evidence,
    build_noise_evidence,
)
from perfci.report.series_places import SeriesPlaces
from perfci.report.series_trend import ChangeMark
from perfci.store.incidents.measured_around_change import (
    PlaceAroundChange,
    count_measured_cells,
    find_commit_window,
    load_measured_series,
    load_places_around_change,
    load_series_moved_in_window,
)
from perfci.store.projects import Project
from perfci.store.queries.false_alarm_inputs import count_aa_verdicts_between
from perfci.store.queries.query_records import SeriesRecord
from perfci.verdicts.environment_changes import diff_environments
from perfci.verdicts.history.trend_sensitivity import TrendSensitivity, estimate_trend_sensitivity
from perfci_web.application_context import web_context
from perfci_web.load_series_trends import SeriesTrend
from perfci_web.series.load_series import LoadedSeries

MAX_PLACES = 12
"""Places that a page shows."""

MAX_BENCHMARKS = 50
"""The largest changes of an incident whose benchmarks are looked up in other places."""

AA_MARGIN = timedelta(days=7)
"""How long before and after a change an A/A run still tells of the machine."""


@dataclass(frozen=True, slots=True)
class RerunCounts:
    """What A/B reruns said of some changes; ``pairs`` are those of the first confirmed one."""

    examined: int
    confirmed: int
    refuted: int
    pairs: int = 0


def select_places(namesakes: Sequence[SeriesRecord]) -> set[int]:
    """The ids of the same series in several places; none where there is one place only."""
    return {record.id for record in namesakes[:MAX_PLACES]} if len(namesakes) > 1 else set()


def load_series_cause_evidence(
    tx: Session, loaded: LoadedSeries, elsewhere: Iterable[SeriesTrend]
) -> CauseEvidence | None:
    """Load what moved together with the last change of a series, or whether its noise is that of its place;
    None for a series without either."""
    marks = [mark for mark in loaded.trend.marks if mark.state != "refuted"]
    if marks:
        return load_cause_evidence(tx, loaded.project, [marks[-1].change], count_reruns(marks[-1:]))
    bar = web_context().load_policies(loaded.project).policy.rule_for(loaded.record.series).bar
    if loaded.sensitivity is None or loaded.sensitivity.noise <= bar:
        return None
    others = [trend for trend in elsewhere if trend.series != loaded.record.series]
    places = SeriesPlaces([loaded.record.series, *(trend.series for trend in others)])
    noises = {
        places.label(trend.series) or trend.series.machine.label: sensitivity.noise
        for trend in others
        if (sensitivity := _estimate_sensitivity(trend, bar)) is not None
    }
    return build_noise_evidence(loaded.sensitivity.noise, noises)


def load_cause_evidence(
    tx: Session, project: Project, changes: Sequence[ChangePoint], reruns: RerunCounts
) -> CauseEvidence:
    """Load what moved together with some changes of one range of commits, the largest of them first."""
    return build_cause_evidence(load_cause_inputs(tx, project, changes, reruns))


def load_cause_inputs(
    tx: Session, project: Project, changes: Sequence[ChangePoint], reruns: RerunCounts
) -> CauseInputs:
    """Count what moved together with some changes of one range of commits, the largest of them first."""
    policies = web_context().load_policies(project)
    exact_counts = [
        change
        for change in changes
        if change.is_exact and policies.policy.metric_class_of(change.series) is MetricClass.COUNT
    ]
    places = _Places.load(tx, project, changes)
    return CauseInputs(
        places=places.list_moves(),
        others=places.count_others(tx),
        canaries=places.count_canaries(tx, policies.history.canaries),
        exact_counts=len(exact_counts),
        aa_runs=places.count_aa_runs(tx, project),
        examined=reruns.examined,
        confirmed=reruns.confirmed,
        refuted=reruns.refuted,
        pairs=reruns.pairs,
    )


def count_reruns(marks: Sequence[ChangeMark | None]) -> RerunCounts:
    """Count what A/B reruns said of the changes that were examined; None for one without a mark."""
    confirmed = [mark for mark in marks if mark and mark.state == "confirmed"]
    refuted = [mark for mark in marks if mark and mark.state == "refuted"]
    pairs = [mark.verdict.pairs for mark in confirmed if mark.verdict and mark.verdict.pairs]
    return RerunCounts(len(marks), len(confirmed), len(refuted), *pairs[:1])


@dataclass(frozen=True, slots=True)
class _Places:
    """The places measured on both sides of some changes: ``own`` is that of the largest, ``measured`` are
    the series of the changed benchmarks there, ``moved`` all series that moved at these commits."""

    largest: Series
    around: Sequence[PlaceAroundChange]
    measured: Collection[Series]
    moved: Collection[Series]

    @classmethod
    def load(cls, tx: Session, project: Project, changes: Sequence[ChangePoint]) -> _Places:
        largest = changes[0]
        window = find_commit_window(tx, project.id, largest.last_good, largest.commit)
        if window is None:
            return cls(largest.series, (), (), ())
        around = load_places_around_change(tx, project.id, window)
        moved = set(load_series_moved_in_window(tx, project.id, window).values())
        moved |= {change.series for change in changes}
        changed = [change.series for change in changes[:MAX_BENCHMARKS]]
        cells = {_cell_and_metric(series) for series in changed}
        run_ids = [run_id for place in around for run_id in place.run_ids]
        measured = load_measured_series(tx, run_ids, {series.benchmark.name for series in changed})
        return cls(
            largest.series,
            around,
            [series for series in measured if _cell_and_metric(series) in cells],
            moved,
        )

    @property
    def own(self) -> PlaceAroundChange | None:
        series = self.largest
        return next((place for place in self.around if _key(place) == _key(series)), None)

    def list_moves(self) -> list[PlaceMoves]:
        """How many of the changed benchmarks moved in each place."""
        measured = Counter(_key(series) for series in self.measured)
        moved = Counter(_key(series) for series in self.measured if series in self.moved)
        places = SeriesPlaces([self.largest, *self.measured])
        labels = {_key(series): places.label(series) or series.machine.label for series in self.measured}
        return [
            PlaceMoves(
                labels[key],
                place.machine.label,
                moved[key],
                measured[key],
                format_environment_changes(diff_environments(place.before, place.after)),
            )
            for place in self.around
            if (key := _key(place)) in labels
        ][:MAX_PLACES]

    def count_others(self, tx: Session) -> MovedOf:
        """Count the cells of other benchmarks in the place of the largest change."""
        if self.own is None:
            return MovedOf()
        own, name = _key(self.own), self.largest.benchmark.name
        moved = {
            (series.benchmark, series.parameters)
            for series in self.moved
            if _key(series) == own and series.benchmark.name != name
        }
        return MovedOf(len(moved), max(len(moved), count_measured_cells(tx, self.own.run_ids, name)))

    def count_canaries(self, tx: Session, patterns: Sequence[str]) -> MovedOf:
        """Count the series that no commit can move in the place of the largest change."""
        if self.own is None or not patterns:
            return MovedOf()
        canaries = [
            series
            for series in load_measured_series(tx, self.own.run_ids)
            if any(re.search(pattern, series.label) for pattern in patterns)
        ]
        return MovedOf(sum(series in self.moved for series in canaries), len(canaries))

    def count_aa_runs(self, tx: Session, project: Project) -> AaRuns | None:
        """Count the A/A runs of the time on the machines that it moved on."""
        if self.own is None:
            return None
        since, until = self.own.first_run_at - AA_MARGIN, self.own.last_run_at + AA_MARGIN
        return AaRuns(*count_aa_verdicts_between(tx, project.slug, [self.own.machine_id], since, until))


def _cell_and_metric(series: Series) -> tuple[object, ...]:
    return (series.benchmark.name, series.parameters, series.metric.name)


def _key(place: Series | PlaceAroundChange) -> tuple[Machine, Variant]:
    return (place.machine, place.variant)


def _estimate_sensitivity(trend: SeriesTrend, bar: float) -> TrendSensitivity | None:
    """What the noise of a trend hides."""
    values = trend.columns["level"].tolist()
    segments = [
        [value for value in values[level.first : level.last + 1] if value == value] for level in trend.levels
    ]
    return estimate_trend_sensitivity([segment for segment in segments if segment], bar)
