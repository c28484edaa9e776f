"""Build the points that histories are judged by, from result summaries or else from samples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy.orm import Session as Transaction

from perfci.history.result_summaries import compute_summaries
from perfci.model import Clock, Commit, Process, ResultSummary, Series, Status
from perfci.store.queries.commit_order import sort_commits
from perfci.store.queries.loaders import load_commits_by_ids
from perfci.store.queries.measurements import load_histories
from perfci.store.queries.result_summaries import (
    ResultLevel,
    load_levels_of_series,
    load_process_statuses,
    load_processes_of_results,
)
from perfci.verdicts.judged_series import StatusAndClock, find_cpu_twins, select_judged_by_status
from perfci.verdicts.process_levels import is_clearly_cpu_bound, is_cpu_bound, summarize_result

ReadingSet = frozenset[StatusAndClock]

"""The statuses and clocks of a set of processes."""

OK_READINGS: Mapping[Clock | None, ReadingSet] = {clock: frozenset({(Status.OK, clock)}) for clock in Clock}
"""The readings of a result whose processes all succeeded, by their clock."""


class JudgedPoint(NamedTuple):
    """All results of a series at one commit together; ``summary`` is None where no process succeeded."""

    commit_id: int
    environment_id: int
    status: str
    level: float | None
    summary: ResultSummary | None
    readings: ReadingSet


@dataclass(frozen=True, slots=True)
class JudgedPoints:
    """Points by series id, unordered, and the summaries that were computed for them, by result id."""

    points: Mapping[int, Sequence[JudgedPoint]]
    summaries: Mapping[int, ResultSummary]


@dataclass(frozen=True, slots=True)
class JudgedHistories:
    """The whole histories of series by id, oldest commit first, with the commits by id."""

    points: Mapping[int, Sequence[JudgedPoint]]
    commits: Mapping[int, Commit]
    summaries: Mapping[int, ResultSummary]

    @classmethod
    def load(cls, tx: Transaction, series_ids: Collection[int]) -> JudgedHistories:
        """Read the histories of these series."""
        judged = build_judged_points(tx, load_levels_of_series(tx, series_ids))
        commits = load_commits_by_ids(
            tx, {point.commit_id for points in judged.points.values() for point in points}
        )
        order = _CommitOrder(commits)
        points = {series_id: order.sort_points(judged.points.get(series_id, ())) for series_id in series_ids}
        return cls(points, commits, judged.summaries)

    def get_commit_levels(self, series_id: int) -> list[tuple[Commit, float | None]]:
        """Every commit with its level; one that failed has none."""
        return [(self.commits[point.commit_id], point.level) for point in self.points[series_id]]

    def get_levels(self, series_id: int) -> list[tuple[str, float]]:
        """Sha and level of every commit that has one."""
        return [
            (commit.sha, level) for commit, level in self.get_commit_levels(series_id) if level is not None
        ]

    def select_judged(self, tx: Transaction, series: Mapping[Series, int]) -> list[Series]:
        """The series that verdicts are given on, by all their points."""

        def load_samples(unsure: Collection[Series]) -> dict[Series, list[Process]]:
            histories = load_histories(tx, [series[item] for item in unsure])
            return {
                item: [process for point in histories[series[item]] for process in point.processes]
                for item in unsure
            }

        points = {item: self.points[row_id] for item, row_id in series.items()}
        return select_judged_series(points, load_samples)

    def has_flagged_commit(self, series_id: int) -> bool:
        """Whether at some commit every successful process is flagged, so that it has no level."""
        return any(
            point.summary is not None and point.summary.level is None for point in self.points[series_id]
        )

    def is_repeating(self, series_id: int) -> bool:
        """Whether the usable processes of each commit all gave one exact value."""
        return all(point.summary is None or point.summary.repeats for point in self.points[series_id])


def build_judged_points(tx: Transaction, rows: Sequence[ResultLevel]) -> JudgedPoints:
    """Join the results of each series and commit."""
    # A result that was stored before summaries were has no clock: its summary is computed from its samples.
    computed = compute_summaries(tx, [row.id for row in rows if row.clock is None and row.is_ok])
    summaries: dict[int, ResultSummary] = {}
    groups: dict[tuple[int, int], list[ResultLevel]] = defaultdict(list)
    for row in rows:
        groups[row.series_id, row.commit_id].append(row)
        summary = row.result_summary or computed.get(row.id)
        if summary and summary.clock:
            summaries[row.id] = summary
    summarized_series = {row.series_id for row in rows if row.id in summaries}
    # Most commits have one result with a summary, which is a point by itself; only the others read processes.
    single_ids = {
        group[0].id
        for group in groups.values()
        if len(group) == 1 and _is_single_result(group[0], summaries, summarized_series)
    }
    to_join = [group for group in groups.values() if group[0].id not in single_ids]
    joiner = _PointJoiner.load(tx, to_join, summaries, summarized_series)
    points: dict[int, list[JudgedPoint]] = defaultdict(list)
    for (series_id, _), group in groups.items():
        first = group[0]
        if first.id in single_ids:
            point = _build_single_point(first, summaries.get(first.id))
        else:
            point = joiner.join(group)
        points[series_id].append(point)
    return JudgedPoints(points, computed)


LoadSamples = Callable[[Collection[Series]], Mapping[Series, Sequence[Process]]]
"""Reads all processes of some series."""


def select_judged_series(
    points: Mapping[Series, Iterable[JudgedPoint]], load_samples: LoadSamples
) -> list[Series]:
    """The series that verdicts are given on.

    Samples are loaded only for CPU times that may be mostly waiting.
    """
    readings = {series: collect_readings(series_points) for series, series_points in points.items()}
    wall_by_cpu = find_cpu_twins(readings)
    unsure = [
        cpu
        for cpu, wall in wall_by_cpu.items()
        if not is_clearly_cpu_bound(_get_levels_by_commit(points[cpu]), _get_levels_by_commit(points[wall]))
    ]
    samples = load_samples({*unsure, *(wall_by_cpu[cpu] for cpu in unsure)}) if unsure else {}
    waiting = {cpu for cpu in unsure if not is_cpu_bound(samples[cpu], samples[wall_by_cpu[cpu]])}
    return select_judged_by_status(readings, lambda cpu, wall: cpu not in waiting)


def collect_readings(points: Iterable[JudgedPoint]) -> ReadingSet:
    """How the processes of some points ended; empty where foreign tools reported summaries only."""
    return ReadingSet().union(*{point.readings for point in points})


def _get_levels_by_commit(points: Iterable[JudgedPoint]) -> dict[int, float]:
    """The level of the processes by commit id."""
    return {
        point.commit_id: point.summary.level
        for point in points
        if point.summary and point.summary.level is not None
    }


def _is_single_result(
    row: ResultLevel, summaries: Mapping[int, ResultSummary], summarized_series: Collection[int]
) -> bool:
    """Whether the only result at a commit needs no process.

    It has a summary, or failed in a series that has any.
    """
    return row.id in summaries or (not row.is_ok and row.series_id in summarized_series)


def _build_single_point(row: ResultLevel, summary: ResultSummary | None) -> JudgedPoint:
    if summary is None:
        return JudgedPoint(row.commit_id, row.environment_id, row.status, row.value, None, ReadingSet())
    level = row.value if summary.level is None else summary.level
    return JudgedPoint(
        row.commit_id, row.environment_id, row.status, level, summary, OK_READINGS[summary.clock]
    )


@dataclass(frozen=True, slots=True)
class _PointJoiner:
    """Joins the results of one commit into a point: with several results all processes count alike."""

    summaries: Mapping[int, ResultSummary]
    readings: Mapping[int, ReadingSet]
    processes: Mapping[int, Sequence[Process]]

    @classmethod
    def load(
        cls,
        tx: Transaction,
        groups: Sequence[Sequence[ResultLevel]],
        summaries: Mapping[int, ResultSummary],
        summarized_series: Collection[int],
    ) -> _PointJoiner:
        """Read the processes of the groups; failures of a series with summaries are not read."""
        rows = [row for group in groups for row in group]
        unread = [
            row.id
            for row in rows
            if row.id not in summaries and (row.is_ok or row.series_id not in summarized_series)
        ]
        readings = {row.id: OK_READINGS[summaries[row.id].clock] for row in rows if row.id in summaries}
        for row_id, statuses in load_process_statuses(tx, unread).items():
            readings[row_id] = frozenset(statuses)
        unsummarized: list[int] = []
        for group in groups:
            usable = _select_usable(group, readings)
            if _get_single_summary(usable, summaries) is None:
                unsummarized += [row.id for row in usable]
        return cls(summaries, readings, load_processes_of_results(tx, unsummarized))

    def join(self, group: Sequence[ResultLevel]) -> JudgedPoint:
        """The point of all results of a series at one commit; the newest successful result gives the rest."""
        newest = max(group, key=lambda row: (row.is_ok, row.started_at, row.id))
        usable = _select_usable(group, self.readings)
        summary = _get_single_summary(usable, self.summaries) or summarize_result(
            [process for row in usable for process in self.processes[row.id]]
        )
        level = newest.value if summary is None or summary.level is None else summary.level
        readings = ReadingSet().union(*(self.readings.get(row.id, ()) for row in group))
        return JudgedPoint(newest.commit_id, newest.environment_id, newest.status, level, summary, readings)


def _select_usable(group: Sequence[ResultLevel], readings: Mapping[int, ReadingSet]) -> list[ResultLevel]:
    """The results with a successful process."""
    return [row for row in group if any(status is Status.OK for status, _ in readings.get(row.id, ()))]


def _get_single_summary(
    usable: Sequence[ResultLevel], summaries: Mapping[int, ResultSummary]
) -> ResultSummary | None:
    """The summary of the only usable result; None where there are several, whose processes are joined."""
    return summaries.get(usable[0].id) if len(usable) == 1 else None


class _CommitOrder:
    """Sorts points by their commits.

    The order is computed once for all series measured at the same commits.
    """

    def __init__(self, commits: Mapping[int, Commit]) -> None:
        self._commits = commits
        self._ids = {commit: row_id for row_id, commit in commits.items()}
        self._orders: dict[frozenset[int], list[int]] = {}

    def sort_points(self, points: Iterable[JudgedPoint]) -> list[JudgedPoint]:
        by_commit = {point.commit_id: point for point in points}
        commit_ids = frozenset(by_commit)
        if commit_ids not in self._orders:
            commits = sort_commits(self._commits[commit_id] for commit_id in commit_ids)
            self._orders[commit_ids] = [self._ids[commit] for commit in commits]
        return [by_commit[commit_id] for commit_id in self._orders[commit_ids]]
