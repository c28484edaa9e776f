"""The parts of a project's histories that incidents are derived from, read as few points at a time as it takes."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy.orm import Session as Transaction

from perfci.history.series_points import JudgedPoint, build_judged_points, select_judged_series
from perfci.history.visit_index import VisitIndex
from perfci.model import ChangePoint, Environment, Machine, Process, Series, Verdict
from perfci.store.queries.commit_visits import CommitLevel, load_levels_at, load_visits
from perfci.store.queries.latest_results import load_judged_series
from perfci.store.queries.loaders import load_environments
from perfci.store.queries.measurements import (
    load_change_points,
    load_commits_newest_first,
    load_histories,
    load_verdict_records,
)
from perfci.store.queries.result_summaries import ResultLevel
from perfci.verdicts.history.recent_jumps import NEWEST_POINTS
from perfci.verdicts.history.release_creep import RELEASE_SIDE_POINTS, CreepHistory, Release
from perfci.verdicts.history.step_estimate import MAX_SIDE_POINTS, LevelPoint
from perfci.verdicts.incidents.step_causes import HistoryContext, add_confirmed_steps, group_confirmations
from perfci.verdicts.policy import Policy

RELEASE_REACH_FACTOR = 3
"""A series that is measured at every third commit of its machine still has its points found around a release."""


@dataclass(frozen=True, slots=True)
class ProjectSnapshot:
    """What was read of a project, and the way to read more of it."""

    tx: Transaction
    project: str
    policy: Policy
    visit_index: VisitIndex
    series: Mapping[Series, int]
    verdicts: Sequence[Verdict]
    changes: Sequence[ChangePoint]

    @classmethod
    def load(cls, tx: Transaction, project: str, policy: Policy) -> ProjectSnapshot:
        timetable = VisitIndex(load_commits_newest_first(tx, project), load_visits(tx, project))
        series = {
            one: row_id for one, row_id in load_judged_series(tx, project).items() if policy.is_judged(one)
        }
        verdicts = [record.verdict for record in load_verdict_records(tx, project)]
        changes = add_confirmed_steps(load_change_points(tx, project), verdicts, timetable.positions)
        return cls(tx, project, policy, timetable, series, verdicts, changes)

    def build_move_context(self, canaries: Sequence[str]) -> HistoryContext:
        around: dict[Series, set[str]] = defaultdict(set)
        for change in self.changes:
            around[change.series].update(
                self.visit_index.find_nearby(change.commit, change.series.machine, MAX_SIDE_POINTS)
            )
        return HistoryContext(
            self.project,
            self.visit_index.commits,
            points=self._load_seen_points(around),
            confirmations=group_confirmations(self.verdicts),
            visits=self.visit_index.visits,
            series_counts=Counter((series.machine, series.metric.unit) for series in self.series),
            rules=self.policy.rule_for,
            is_canary=_build_matcher(canaries),
        )

    def load_newest_points(self) -> dict[Series, list[LevelPoint]]:
        """The newest points of every judged series."""
        ends = {
            machine: self.visit_index.find_newest(machine, MAX_SIDE_POINTS + NEWEST_POINTS)
            for machine in self._machines()
        }
        wanted = {series: ends[series.machine] for series in self.series}
        points = self._load_points(wanted)
        measured = {
            series: points.measured.get(row_id, {}).values() for series, row_id in self.series.items()
        }
        judged = select_judged_series(measured, lambda some: self._load_samples(some, wanted))
        return {
            series: points.merge_points(self.series[series], self.visit_index.positions) for series in judged
        }

    def load_release_lines(
        self, releases: Sequence[Release], newest: Mapping[Series, Sequence[LevelPoint]]
    ) -> list[CreepHistory]:
        """Every judged series with its points around each release."""
        if not releases:
            return []
        near = {
            (release, machine): frozenset(
                self.visit_index.find_nearby(release.sha, machine, RELEASE_REACH_FACTOR * RELEASE_SIDE_POINTS)
            )
            for release in releases
            for machine in self._machines()
        }
        steps, verdicts = group_by_series(self.changes), group_by_series(self.verdicts)
        of_machine = {
            machine: frozenset[str]().union(*(near[one, machine] for one in releases))
            for machine in self._machines()
        }
        seen = self._load_seen_points({series: of_machine[series.machine] for series in newest})
        return [
            CreepHistory(
                series,
                {
                    one: [point for point in seen[series] if point.sha in near[one, series.machine]]
                    for one in releases
                },
                newest[series],
                steps.get(series, ()),
                verdicts.get(series, ()),
            )
            for series in newest
        ]

    def _machines(self) -> set[Machine]:
        return {series.machine for series in self.series}

    def _load_seen_points(
        self, shas_by_series: Mapping[Series, Collection[str]]
    ) -> dict[Series, list[LevelPoint]]:
        """The judged points of some series at the commits wanted of each, oldest first."""
        points = self._load_points(shas_by_series)
        known = (series for series in shas_by_series if series in self.series)
        return {
            series: points.merge_points(self.series[series], self.visit_index.positions) for series in known
        }

    def _load_points(self, shas_by_series: Mapping[Series, Collection[str]]) -> _LoadedPoints:
        ids = {series: self.series[series] for series in shas_by_series if series in self.series}
        shas_of = {
            row_id: frozenset(shas_by_series[series]) for series, row_id in ids.items()
        }  # a series takes long to hash
        shas = frozenset[str]().union(*shas_of.values())
        found = load_levels_at(self.tx, self.project, shas, shas_of)
        return _LoadedPoints.load(
            self.tx, [(sha, row) for sha, row in found if sha in shas_of[row.series_id]]
        )

    def _load_samples(
        self, selected: Collection[Series], shas_by_series: Mapping[Series, Collection[str]]
    ) -> dict[Series, list[Process]]:
        read = load_histories(self.tx, [self.series[one] for one in selected])
        return {
            one: [
                process
                for point in read[self.series[one]]
                if point.commit.sha in shas_by_series[one]
                for process in point.processes
            ]
            for one in selected
        }


@dataclass(frozen=True, slots=True)
class _LoadedPoints:
    """Some points by series and sha: what was measured, and what foreign tools left."""

    measured: Mapping[int, Mapping[str, JudgedPoint]]
    summary_only: Mapping[int, Mapping[str, ResultLevel]]
    environments: Mapping[int, Environment]

    @classmethod
    def load(cls, tx: Transaction, rows: Sequence[CommitLevel]) -> _LoadedPoints:
        shas = {row.commit_id: sha for sha, row in rows}
        judged = build_judged_points(tx, [row for _, row in rows if not row.is_summary_only]).points
        summarised: dict[int, dict[str, ResultLevel]] = defaultdict(dict)
        for sha, row in sorted(rows, key=lambda one: one[1].started_at):
            if row.is_summary_only:
                summarised[row.series_id][sha] = row
        return cls(
            {row_id: {shas[point.commit_id]: point for point in points} for row_id, points in judged.items()},
            summarised,
            load_environments(tx, {row.environment_id for _, row in rows}),
        )

    def merge_points(self, series_id: int, positions: Mapping[str, int]) -> list[LevelPoint]:
        """Those that have a level, in their places on the line; what was measured goes before what was left."""
        found = {
            sha: LevelPoint(sha, row.value, self.environments[row.environment_id])
            for sha, row in self.summary_only.get(series_id, {}).items()
            if row.value is not None
        }
        for sha, point in self.measured.get(series_id, {}).items():
            if point.level is not None:
                exact = point.summary is not None and point.summary.exact
                found[sha] = LevelPoint(sha, point.level, self.environments[point.environment_id], exact)
        return [found[sha] for sha in sorted(found.keys() & positions.keys(), key=positions.__getitem__)]


T = TypeVar("T", ChangePoint, Verdict)


def group_by_series(items: Iterable[T]) -> dict[Series, list[T]]:
    found: dict[Series, list[T]] = defaultdict(list)
    for thing in items:
        found[thing.series].append(thing)
    return found


def _build_matcher(expressions: Sequence[str]) -> Callable[[Series], bool]:
    compiled = [re.compile(one) for one in expressions]
    return lambda series: any(one.search(series.label) for one in compiled)
