"""Read the parts of a project that incidents are derived from, and no more points than they need."""

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
"""How many times further to search around a release: a series may be measured at every third commit only."""


@dataclass(frozen=True, slots=True)
class ProjectSnapshot:
    """The judged series, verdicts and change points of a project, within the transaction that reads more."""

    tx: Transaction
    project: str
    policy: Policy
    visit_index: VisitIndex
    series: Mapping[Series, int]
    verdicts: Sequence[Verdict]
    changes: Sequence[ChangePoint]

    @classmethod
    def load(cls, tx: Transaction, project: str, policy: Policy) -> ProjectSnapshot:
        """Read everything but the points."""
        visit_index = VisitIndex(load_commits_newest_first(tx, project), load_visits(tx, project))
        series_ids = {
            series: row_id
            for series, row_id in load_judged_series(tx, project).items()
            if policy.is_judged(series)
        }
        verdicts = [record.verdict for record in load_verdict_records(tx, project)]
        changes = add_confirmed_steps(load_change_points(tx, project), verdicts, visit_index.positions)
        return cls(tx, project, policy, visit_index, series_ids, verdicts, changes)

    def build_move_context(self, canaries: Sequence[str]) -> HistoryContext:
        """The context that changes are attributed in.

        The points around each, visits, confirmations and rules.
        """
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
        """The newest points of every judged series, oldest first."""
        ends = {
            machine: self.visit_index.find_newest(machine, MAX_SIDE_POINTS + NEWEST_POINTS)
            for machine in self._machines()
        }
        shas = {series: ends[series.machine] for series in self.series}
        points = self._load_points(shas)
        measured = {
            series: points.measured.get(row_id, {}).values() for series, row_id in self.series.items()
        }
        judged = select_judged_series(measured, lambda unsure: self._load_samples(unsure, shas))
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
        near_any = {
            machine: frozenset[str]().union(*(near[release, machine] for release in releases))
            for machine in self._machines()
        }
        points = self._load_seen_points({series: near_any[series.machine] for series in newest})
        return [
            CreepHistory(
                series,
                {
                    release: [point for point in points[series] if point.sha in near[release, series.machine]]
                    for release in releases
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
        """The judged points of each series at its own commits, oldest first."""
        points = self._load_points(shas_by_series)
        return {
            series: points.merge_points(self.series[series], self.visit_index.positions)
            for series in shas_by_series
            if series in self.series
        }

    def _load_points(self, shas_by_series: Mapping[Series, Collection[str]]) -> _LoadedPoints:
        ids = {series: self.series[series] for series in shas_by_series if series in self.series}
        # By row id, since a Series is slow to hash and this is looked up for every row.
        shas_by_id = {row_id: frozenset(shas_by_series[series]) for series, row_id in ids.items()}
        shas = frozenset[str]().union(*shas_by_id.values())
        rows = load_levels_at(self.tx, self.project, shas, shas_by_id)
        return _LoadedPoints.load(
            self.tx, [(sha, row) for sha, row in rows if sha in shas_by_id[row.series_id]]
        )

    def _load_samples(
        self, selected: Collection[Series], shas_by_series: Mapping[Series, Collection[str]]
    ) -> dict[Series, list[Process]]:
        histories = load_histories(self.tx, [self.series[series] for series in selected])
        return {
            series: [
                process
                for point in histories[self.series[series]]
                if point.commit.sha in shas_by_series[series]
                for process in point.processes
            ]
            for series in selected
        }


@dataclass(frozen=True, slots=True)
class _LoadedPoints:
    """Points by series id and sha.

    The measured ones, and those that foreign tools reported as a summary only.
    """

    measured: Mapping[int, Mapping[str, JudgedPoint]]
    summary_only: Mapping[int, Mapping[str, ResultLevel]]
    environments: Mapping[int, Environment]

    @classmethod
    def load(cls, tx: Transaction, rows: Sequence[CommitLevel]) -> _LoadedPoints:
        shas = {row.commit_id: sha for sha, row in rows}
        judged = build_judged_points(tx, [row for _, row in rows if not row.is_summary_only]).points
        summary_only: dict[int, dict[str, ResultLevel]] = defaultdict(dict)
        # Oldest first, so that the newest summary of a commit is kept.
        for sha, row in sorted(rows, key=lambda item: item[1].started_at):
            if row.is_summary_only:
                summary_only[row.series_id][sha] = row
        return cls(
            {row_id: {shas[point.commit_id]: point for point in points} for row_id, points in judged.items()},
            summary_only,
            load_environments(tx, {row.environment_id for _, row in rows}),
        )

    def merge_points(self, series_id: int, positions: Mapping[str, int]) -> list[LevelPoint]:
        """The points of a series that have a level, in the order of the line.

        Measured points replace summaries.
        """
        points = {
            sha: LevelPoint(sha, row.value, self.environments[row.environment_id])
            for sha, row in self.summary_only.get(series_id, {}).items()
            if row.value is not None
        }
        for sha, point in self.measured.get(series_id, {}).items():
            if point.level is not None:
                exact = point.summary is not None and point.summary.exact
                points[sha] = LevelPoint(sha, point.level, self.environments[point.environment_id], exact)
        return [points[sha] for sha in sorted(points.keys() & positions.keys(), key=positions.__getitem__)]


T = TypeVar("T", ChangePoint, Verdict)


def group_by_series(items: Iterable[T]) -> dict[Series, list[T]]:
    """Group change points or verdicts by their series, in their order."""
    groups: dict[Series, list[T]] = defaultdict(list)
    for item in items:
        groups[item.series].append(item)
    return groups


def _build_matcher(expressions: Sequence[str]) -> Callable[[Series], bool]:
    patterns = [re.compile(expression) for expression in expressions]
    return lambda series: any(pattern.search(series.label) for pattern in patterns)
