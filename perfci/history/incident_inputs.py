"""Read the parts of a project that incidents are derived from, and no more points than they need."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import NamedTuple, TypeVar

from sqlalchemy.orm import Session as Transaction

from perfci.history.series_histories import (
    JudgedPoint,
    join_results_into_points,
    select_judged_series_by_points,
)
from perfci.model import ChangePoint, Commit, Machine, Series, Stage, Verdict
from perfci.store.queries.judging_inputs import (
    VisitRecord,
    load_judged_series_ids,
    load_levels_at_commits,
    load_session_commit_visits,
)
from perfci.store.queries.series_commits_machines import (
    load_commits_newest_first,
    load_environments_by_id,
    load_series_by_ids,
)
from perfci.store.series_archive import load_archived_by_hand_ids
from perfci.store.verdicts_and_change_points import load_change_points, load_verdict_records
from perfci.verdicts.history.change_points_and_jumps import NEWEST_POINTS
from perfci.verdicts.history.release_creep import RELEASE_SIDE_POINTS, CreepHistory, Release
from perfci.verdicts.history.step_evidence import MAX_SIDE_POINTS, LevelPoint
from perfci.verdicts.incidents.step_causes import (
    HistoryContext,
    SessionVisit,
    add_confirmed_steps,
)
from perfci.verdicts.judging_policy import Policy

RELEASE_REACH_FACTOR = 3
"""How many times further to search around a release: a series may be measured at every third commit only."""


@dataclass(frozen=True, slots=True)
class IncidentInputs:
    """The judged series, verdicts and change points of a project, within the transaction that reads more."""

    tx: Transaction
    project: str
    policy: Policy
    visit_index: VisitIndex
    series: Mapping[Series, int]
    verdicts: Sequence[Verdict]
    confirmations: Mapping[Series, Sequence[Verdict]]
    changes: Sequence[ChangePoint]

    @classmethod
    def load(cls, tx: Transaction, project: str, policy: Policy) -> IncidentInputs:
        """Read everything but the points; series that somebody archived are left out."""
        visit_index = VisitIndex(
            load_commits_newest_first(tx, project), load_session_commit_visits(tx, project)
        )
        archived = load_archived_by_hand_ids(tx, project)
        series_ids = {
            series: row_id
            for series, row_id in load_judged_series_ids(tx, project).items()
            if row_id not in archived and policy.is_judged(series) and policy.is_gating(series)
        }
        left_out = set(load_series_by_ids(tx, archived).values())
        verdicts = [
            record.verdict
            for record in load_verdict_records(tx, project)
            if record.verdict.series not in left_out
        ]
        changes = [change for change in load_change_points(tx, project) if change.series not in left_out]
        confirmations: Mapping[Series, Sequence[Verdict]] = {}
        if verdicts:
            confirmations = group_confirmations_by_series(verdicts)
            changes = add_confirmed_steps(changes, confirmations, visit_index.positions)
        return cls(tx, project, policy, visit_index, series_ids, verdicts, confirmations, changes)

    def load_attribution_context(self, canaries: Sequence[str]) -> HistoryContext:
        """The context that changes are attributed in.

        The points around each, visits, confirmations and rules.
        """
        around: dict[Series, set[str]] = defaultdict(set)
        for change in self.changes:
            around[change.series].update(
                self.visit_index.find_commits_measured_around(
                    change.commit, change.series.machine, MAX_SIDE_POINTS
                )
            )
        patterns = [re.compile(expression) for expression in canaries]
        return HistoryContext(
            self.project,
            self.visit_index.commits,
            points=self._load_points(around).points,
            confirmations=self.confirmations,
            visits=self.visit_index.visits,
            count_series=self.count_measured_series,
            rules=self.policy.rule_for,
            is_canary=lambda series: any(pattern.search(series.label) for pattern in patterns),
        )

    def count_measured_series(self, machine: Machine, unit: str, shas: Collection[str]) -> int:
        """How many judged series of a unit a machine measured at any of these commits."""
        ids = {
            row_id
            for series, row_id in self.series.items()
            if series.machine == machine and series.metric.unit == unit
        }
        rows = load_levels_at_commits(self.tx, self.project, shas, ids)
        return len({row.series_id for _, row in rows if row.is_ok})

    def load_newest_points(self) -> dict[Series, list[LevelPoint]]:
        """The newest points of every judged series, oldest first."""
        ends = {
            machine: self.visit_index.measured_shas.get(machine, [])[-(MAX_SIDE_POINTS + NEWEST_POINTS) :]
            for machine in {series.machine for series in self.series}
        }
        shas = {series: ends[series.machine] for series in self.series}
        points, measured = self._load_points(shas)
        by_id = {row_id: measured.get(row_id, ()) for row_id in self.series.values()}
        judged = select_judged_series_by_points(self.tx, self.series, by_id, shas)
        return {series: points[series] for series in judged}

    def load_creep_histories(
        self, releases: Sequence[Release], newest: Mapping[Series, Sequence[LevelPoint]]
    ) -> list[CreepHistory]:
        """Every judged series with its points around each release."""
        machines = {series.machine for series in self.series}
        # a commit of some age is a measured one, and is compared at every evaluation of every project
        reach_by_release = {
            release: RELEASE_SIDE_POINTS * (1 if release.is_by_age else RELEASE_REACH_FACTOR)
            for release in releases
        }
        near = {
            (release, machine): frozenset(
                self.visit_index.find_commits_measured_around(release.sha, machine, reach_by_release[release])
            )
            for release in releases
            for machine in machines
        }
        steps, verdicts = group_by_series(self.changes), group_by_series(self.verdicts)
        near_any = {
            machine: frozenset[str]().union(*(near[release, machine] for release in releases))
            for machine in machines
        }
        points = self._load_points({series: near_any[series.machine] for series in newest}).points
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

    def load_points_since_release(
        self, releases: Sequence[Release], series: Collection[Series]
    ) -> dict[Series, list[LevelPoint]]:
        """All points of some series from the first of the releases on, oldest first."""
        first = min(self.visit_index.positions[release.sha] for release in releases)
        shas = {
            machine: self.visit_index.find_commits_measured_since(first, machine)
            for machine in {item.machine for item in series}
        }
        return self._load_points({item: shas[item.machine] for item in series}).points

    def _load_points(self, shas_by_series: Mapping[Series, Collection[str]]) -> _LoadedPoints:
        """Load the points of each series at some commits, those that have a level.

        Points whose processes were measured here replace those that foreign tools reported as a summary only.
        """
        # By row id, since a Series is slow to hash and this is looked up for every row.
        ids = {self.series[series]: series for series in shas_by_series if series in self.series}
        shas_by_id = {row_id: frozenset(shas_by_series[series]) for row_id, series in ids.items()}
        any_sha = frozenset[str]().union(*shas_by_id.values())
        rows = [
            (sha, row)
            for sha, row in load_levels_at_commits(self.tx, self.project, any_sha, shas_by_id)
            if sha in shas_by_id[row.series_id]
        ]
        environments = load_environments_by_id(self.tx, {row.environment_id for _, row in rows})
        judged = join_results_into_points(
            self.tx, [row for _, row in rows if not row.is_value_without_processes]
        ).points
        points: dict[int, dict[str, LevelPoint]] = defaultdict(dict)
        # Oldest first, so that the newest summary of a commit is kept.
        for sha, row in sorted(rows, key=lambda item: item[1].started_at):
            if row.is_value_without_processes and row.value is not None:
                points[row.series_id][sha] = LevelPoint(sha, row.value, environments[row.environment_id])
        shas = {row.commit_id: sha for sha, row in rows}
        for row_id, measured in judged.items():
            for point in measured:
                if point.level is not None:
                    sha = shas[point.commit_id]
                    points[row_id][sha] = LevelPoint(sha, point.level, environments[point.environment_id])
        positions = self.visit_index.positions
        in_order = {}
        for row_id, series in ids.items():
            on_the_line = sorted(points[row_id].keys() & positions.keys(), key=positions.__getitem__)
            in_order[series] = [points[row_id][sha] for sha in on_the_line]
        return _LoadedPoints(in_order, judged)


class _LoadedPoints(NamedTuple):
    """The points of each series in the order of the line, and the measured ones by series id, unordered."""

    points: dict[Series, list[LevelPoint]]
    measured: Mapping[int, Sequence[JudgedPoint]]


T = TypeVar("T", ChangePoint, Verdict)


def group_by_series(items: Iterable[T]) -> dict[Series, list[T]]:
    """Group change points or verdicts by their series, in their order."""
    groups: dict[Series, list[T]] = defaultdict(list)
    for item in items:
        groups[item.series].append(item)
    return groups


class VisitIndex:
    """The line of commits, oldest first, and the sessions that visited them, by machine.

    The line holds the commits measured for the history and their first-parent ancestors. The heads of pull
    requests are stored as well, but are not on the line.
    """

    def __init__(self, newest_first: Sequence[Commit], records: Iterable[VisitRecord]) -> None:
        records = list(records)
        clean = {commit.sha: commit for commit in newest_first if not commit.dirty}
        on_the_line: set[str] = set()
        for sha in {record.sha for record in records}:
            while sha in clean and sha not in on_the_line:
                on_the_line.add(sha)
                sha = next(iter(clean[sha].parents), "")
        self.by_sha = {commit.sha: commit for commit in newest_first}
        self.commits = [
            commit for commit in reversed(newest_first) if not commit.dirty and commit.sha in on_the_line
        ]
        self.positions = {commit.sha: at for at, commit in enumerate(self.commits)}
        self.visits, self.weekly_numbers = _index_visits(records)
        self.measured_shas: dict[Machine, list[str]] = defaultdict(list)
        for sha, machine in self.visits:
            if sha in self.positions:
                self.measured_shas[machine].append(sha)
        for shas in self.measured_shas.values():
            shas.sort(key=self.positions.__getitem__)

    def find_commits_measured_around(self, sha: str, machine: Machine, reach: int) -> list[str]:
        """The shas measured on a machine around a commit, ``reach`` on either side of it."""
        shas = self.measured_shas.get(machine, [])
        middle = bisect_left(shas, self.positions.get(sha, -1), key=self.positions.__getitem__)
        return shas[max(0, middle - reach) : middle + reach + 1]

    def find_commits_measured_since(self, position: int, machine: Machine) -> list[str]:
        """The shas measured on a machine from a position on, oldest first."""
        shas = self.measured_shas.get(machine, [])
        return shas[bisect_left(shas, position, key=self.positions.__getitem__) :]

    def find_month_start_release(self, days: int) -> Release | None:
        """The first measured commit of the month in which the commits some days older than the newest
        are; None before the line is that long.

        It stays the same for a month, so pairs that were measured against it count that long.
        """
        measured = {sha for sha, _ in self.visits}
        dated = [
            (commit.committed_at, commit.sha)
            for commit in self.commits
            if commit.committed_at is not None and commit.sha in measured
        ]
        if not dated:
            return None
        until = dated[-1][0] - timedelta(days=days)
        for at, sha in dated:
            if at <= until and (at.year, at.month) == (until.year, until.month):
                return Release(f"{sha[:10]} of {at:%Y-%m-%d}", sha, is_by_age=True)
        return None

    def find_releases(self, pattern: str, tags: Mapping[str, Collection[str]] | None = None) -> list[Release]:
        """The commits of the line with a tag that matches, oldest first.

        Of several tags the first by name counts.
        """
        releases = []
        for commit in self.commits:
            commit_tags = commit.tags if tags is None else tags.get(commit.sha, ())
            matching = sorted(tag for tag in commit_tags if fnmatchcase(tag, pattern))
            if matching:
                releases.append(Release(matching[0], commit.sha))
        return releases


def _index_visits(
    records: Iterable[VisitRecord],
) -> tuple[dict[tuple[str, Machine], list[SessionVisit]], dict[str, int]]:
    """Visits by commit and machine, and each commit's number, from one, of those first measured in its week.

    An imported history is one session whose commits are visits of their own.
    """
    in_order = sorted(records, key=lambda record: (record.started_at, record.sha))
    commit_counts = Counter(record.session for record in in_order)
    visits: dict[tuple[str, Machine], list[SessionVisit]] = defaultdict(list)
    week_counts: Counter[tuple[int, int]] = Counter()
    weekly_numbers: dict[str, int] = {}
    for record in in_order:
        name = record.session
        if record.kind == "import" and commit_counts[name] > 1:
            name = f"{name} at {record.sha[:10]}"
        visit = SessionVisit(name, record.started_at, interleaved=record.rounds > 1)
        visits[record.sha, record.machine].append(visit)
        if record.sha not in weekly_numbers:
            week = record.started_at.isocalendar()[:2]
            week_counts[week] += 1
            weekly_numbers[record.sha] = week_counts[week]
    return visits, weekly_numbers


def group_confirmations_by_series(verdicts: Iterable[Verdict]) -> dict[Series, list[Verdict]]:
    """Verdicts on fresh pairs by series, without A/A runs."""
    by_series: dict[Series, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        if verdict.stage is Stage.CONFIRMATION and verdict.base != verdict.head:
            by_series[verdict.series].append(verdict)
    return by_series
