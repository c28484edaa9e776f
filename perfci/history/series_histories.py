"""Histories of series: the points they are judged by, and the change points derived from these."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy.orm import Session as Transaction

from perfci.history.point_columns import PointKey
from perfci.history.result_summaries import is_cpu_bound_by_levels, summarize_processes
from perfci.history.store_series_points import derive_series_points
from perfci.model import ChangePoint, Clock, Commit, Process, ResultSummary, Series, Status
from perfci.store.queries.judging_inputs import (
    ResultLevel,
    ResultProcesses,
    load_process_statuses_and_clocks,
    load_processes_by_result,
    load_processes_of_ok_results,
    load_result_levels,
    load_results_containing_processes,
    save_result_summaries,
)
from perfci.store.queries.measured_samples import load_histories_by_series_id
from perfci.store.queries.series_commits_machines import load_commits_by_id, load_series_by_ids, sort_commits
from perfci.store.verdicts_and_change_points import save_change_points
from perfci.store.writes.series_points import SeriesPointsUpdate, delete_series_points, save_series_points
from perfci.verdicts.cpu_time_share import is_cpu_bound
from perfci.verdicts.history.change_points_and_jumps import (
    LevelHistory,
    SegmentationCache,
    find_change_points_in_levels,
)
from perfci.verdicts.judged_series import StatusAndClock, select_judged_series_by_status
from perfci.verdicts.judging_policy import Policy

ReadingSet = frozenset[StatusAndClock]
"""The statuses and clocks of a set of processes."""

OK_READINGS: Mapping[Clock | None, ReadingSet] = {clock: frozenset({(Status.OK, clock)}) for clock in Clock}
"""The readings of a result whose processes all succeeded, by their clock."""

SEGMENTATION_CACHE = SegmentationCache()
"""Segmentations this process has computed before: they only save time in the next evaluation."""


@dataclass(frozen=True, slots=True)
class SeriesHistories:
    """Series with all their levels: everything that is read before change points are computed.

    ``judged`` are the series that verdicts are given on, ``repeating`` those of which every point repeats
    exactly, and ``summary_only`` those without stored processes. ``points`` are those that the levels are
    of, with the result summaries that were computed while loading; the caller may save these.
    """

    levels_by_series: Mapping[Series, LevelHistory]
    ids: Mapping[Series, int]
    judged: Sequence[Series]
    repeating: Collection[Series]
    summary_only: Collection[Series]
    points: JudgedHistories

    @property
    def summaries(self) -> Mapping[int, ResultSummary]:
        """The result summaries computed while loading, by result id."""
        return self.points.summaries

    @classmethod
    def load(cls, tx: Transaction, series_ids: Collection[int]) -> SeriesHistories:
        """Read the whole histories of these series."""
        histories = JudgedHistories.load(tx, series_ids)
        ids = {series: row_id for row_id, series in load_series_by_ids(tx, series_ids).items()}
        points = {series: histories.points[row_id] for series, row_id in ids.items()}
        summaries = {series: [point.summary for point in points[series] if point.summary] for series in ids}
        repeating = {
            series for series in ids if all(summary.repeats_exactly for summary in summaries[series])
        }
        return cls(
            {series: histories.get_measured_levels(row_id) for series, row_id in ids.items()},
            ids,
            select_judged_series_by_points(tx, ids, histories.points),
            repeating,
            {series for series in ids if not any(point.readings for point in points[series])},
            histories,
        )

    def find_change_points(
        self, policy: Policy, cache: SegmentationCache | None = None
    ) -> dict[Series, list[ChangePoint]]:
        """The change points by series; informational metrics and series outside the policy have none."""
        judged = {series: self.levels_by_series[series] for series in self.judged if policy.is_judged(series)}
        exact_series = {series for series in self.repeating if series not in self.summary_only}
        no_changes: dict[Series, list[ChangePoint]] = {
            series: [] for series in sorted(self.levels_by_series, key=lambda series: series.label)
        }
        return no_changes | find_change_points_in_levels(
            judged, exact_series, rules=policy.rule_for, cache=cache
        )

    def derive_points(self, tx: Transaction) -> list[SeriesPointsUpdate]:
        """What changed of the stored points of these series; their processes are read from ``tx``."""
        judged = {self.ids[series] for series in self.judged}
        return derive_series_points(tx, self.points.list_keys(), self.points.commits, judged)

    def save(
        self,
        tx: Transaction,
        project: str,
        changes: Mapping[Series, Sequence[ChangePoint]],
        points: Sequence[SeriesPointsUpdate],
    ) -> None:
        """Store what was derived of these series, with the summaries computed on the way."""
        if self.summaries:
            save_result_summaries(tx, self.summaries)
        save_change_points(tx, {self.ids[series]: moves for series, moves in changes.items()})
        save_series_points(tx, project, points)
        delete_series_points(tx, [row_id for row_id in self.ids.values() if not self.points.points[row_id]])


def update_change_points(
    tx: Transaction,
    project: str,
    series_ids: Collection[int],
    policy: Policy,
    cache: SegmentationCache = SEGMENTATION_CACHE,
) -> dict[Series, list[ChangePoint]]:
    """Derive and store the change points of these series, with the summaries computed on the way."""
    histories = SeriesHistories.load(tx, series_ids)
    changes = histories.find_change_points(policy, cache)
    histories.save(tx, project, changes, histories.derive_points(tx))
    return changes


PointPlace = tuple[int, int]
"""A series id and a commit id."""


class JudgedPoint(NamedTuple):
    """All results of a series at one commit together; ``summary`` is None where no process succeeded.

    ``result_id`` is the newest of its ``results``.
    """

    commit_id: int
    result_id: int
    results: int
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
        judged = join_results_into_points(tx, load_result_levels(tx, series_ids))
        commits = load_commits_by_id(
            tx, ids={point.commit_id for points in judged.points.values() for point in points}
        )
        row_ids = {commit: row_id for row_id, commit in commits.items()}
        orders: dict[frozenset[int], list[int]] = {}
        histories = {}
        for series_id in series_ids:
            points = {point.commit_id: point for point in judged.points.get(series_id, ())}
            commit_ids = frozenset(points)
            # Most series are measured at the same commits, which are sorted once for all of them.
            if commit_ids not in orders:
                in_order = sort_commits(commits[commit_id] for commit_id in commit_ids)
                orders[commit_ids] = [row_ids[commit] for commit in in_order]
            histories[series_id] = [points[commit_id] for commit_id in orders[commit_ids]]
        return cls(histories, commits, judged.summaries)

    def get_commit_levels(self, series_id: int) -> list[tuple[Commit, float | None]]:
        """Every commit with its level; one that failed has none."""
        return [(self.commits[point.commit_id], point.level) for point in self.points[series_id]]

    def get_measured_levels(self, series_id: int) -> list[tuple[str, float]]:
        """Sha and level of every commit that has one."""
        return [
            (self.commits[point.commit_id].sha, point.level)
            for point in self.points[series_id]
            if point.level is not None
        ]

    def list_keys(self) -> dict[int, list[PointKey]]:
        """The key of every point, by series id."""
        return {
            series_id: [PointKey(point.commit_id, point.result_id, point.results) for point in points]
            for series_id, points in self.points.items()
        }

    def has_commit_without_unflagged_process(self, series_id: int) -> bool:
        """Whether at some commit every successful process is flagged, so that it has no level."""
        return any(
            point.summary is not None and point.summary.level is None for point in self.points[series_id]
        )


def join_results_into_points(tx: Transaction, rows: Sequence[ResultLevel]) -> JudgedPoints:
    """Join the results of each series and commit."""
    # A result that was stored before summaries were has no clock: its summary is computed from its samples.
    old_results = [row.id for row in rows if row.clock is None and row.is_ok]
    computed: dict[int, ResultSummary] = {}
    if old_results:
        computed = compute_result_summaries(load_processes_of_ok_results(tx, old_results))
    summaries: dict[int, ResultSummary] = {}
    groups: dict[PointPlace, list[ResultLevel]] = defaultdict(list)
    for row in rows:
        groups[row.series_id, row.commit_id].append(row)
        summary = row.result_summary or computed.get(row.id)
        if summary and summary.clock:
            summaries[row.id] = summary
    # The processes of a failure tell nothing more where other results of the series have a summary.
    summarized_series = {row.series_id for row in rows if row.id in summaries}
    to_read = {
        row.id
        for row in rows
        if row.id not in summaries and (row.is_ok or row.series_id not in summarized_series)
    }
    # Most commits have one result with a summary, which is a point by itself; only the others read processes.
    to_join = {key: group for key, group in groups.items() if len(group) > 1 or group[0].id in to_read}
    joined = _join_results(tx, to_join, summaries, to_read) if to_join else {}
    points: dict[int, list[JudgedPoint]] = defaultdict(list)
    for key, group in groups.items():
        if key in joined:
            row, point_summary, readings = joined[key]
        else:
            row, point_summary = group[0], summaries.get(group[0].id)
            readings = OK_READINGS[point_summary.clock] if point_summary else ReadingSet()
        level = row.value
        if point_summary is not None and point_summary.level is not None:
            level = point_summary.level
        points[row.series_id].append(
            JudgedPoint(
                row.commit_id,
                max(result.id for result in group),
                len(group),
                row.environment_id,
                row.status,
                level,
                point_summary,
                readings,
            )
        )
    return JudgedPoints(points, computed)


def compute_result_summaries(results: Iterable[ResultProcesses]) -> dict[int, ResultSummary]:
    """The summaries of these results by id; a result without a successful process has none."""
    summaries = {result_id: summarize_processes(processes) for result_id, processes in results}
    return {result_id: summary for result_id, summary in summaries.items() if summary is not None}


def update_result_summaries(tx: Transaction, process_ids: Sequence[int]) -> None:
    """Save the summaries of the results that these processes belong to."""
    summaries = compute_result_summaries(load_results_containing_processes(tx, process_ids))
    if summaries:
        save_result_summaries(tx, summaries)


def _join_results(
    tx: Transaction,
    groups: Mapping[PointPlace, Sequence[ResultLevel]],
    summaries: Mapping[int, ResultSummary],
    to_read: Collection[int],
) -> dict[PointPlace, tuple[ResultLevel, ResultSummary | None, ReadingSet]]:
    """Join the results of a series at one commit: the newest successful one, their summary and readings.

    All their processes weigh the same; the newest result gives what is not computed from them.
    """
    rows = [row for group in groups.values() for row in group]
    readings = {row.id: OK_READINGS[summaries[row.id].clock] for row in rows if row.id in summaries}
    for result_id, statuses in load_process_statuses_and_clocks(tx, to_read).items():
        readings[result_id] = frozenset(statuses)
    successful = {row_id for row_id, ends in readings.items() if any(end is Status.OK for end, _ in ends)}
    usable = {key: [row.id for row in group if row.id in successful] for key, group in groups.items()}
    # The summary of the only usable result is the point's; several have one only after they are joined.
    known_summaries = {
        key: summaries[ids[0]] for key, ids in usable.items() if len(ids) == 1 and ids[0] in summaries
    }
    processes = load_processes_by_result(
        tx, [row_id for key, ids in usable.items() if key not in known_summaries for row_id in ids]
    )
    points = {}
    for key, group in groups.items():
        newest = max(group, key=lambda row: (row.is_ok, row.started_at, row.id))
        summary = known_summaries.get(key) or summarize_processes(
            [process for row_id in usable[key] for process in processes.get(row_id, ())]
        )
        if summary is None and newest.id in summaries:
            summary = summaries[newest.id]  # the processes were dropped with their partition
        every_reading = ReadingSet().union(*(readings.get(row.id, ()) for row in group))
        points[key] = (newest, summary, every_reading)
    return points


def select_judged_series_by_points(
    tx: Transaction,
    ids: Mapping[Series, int],
    points: Mapping[int, Iterable[JudgedPoint]],
    shas_by_series: Mapping[Series, Collection[str]] | None = None,
) -> list[Series]:
    """Those of these series that verdicts are given on, by their points, which are given by series id.

    Samples, of these commits alone if given, are loaded only for CPU times that may be mostly waiting.
    """
    readings = {
        series: ReadingSet().union(*{point.readings for point in points[row_id]})
        for series, row_id in ids.items()
    }

    def select_waiting(wall_by_cpu: Mapping[Series, Series]) -> set[Series]:
        unsure = [
            cpu
            for cpu, wall in wall_by_cpu.items()
            if not is_cpu_bound_by_levels(
                _get_levels_by_commit(points[ids[cpu]]), _get_levels_by_commit(points[ids[wall]])
            )
        ]
        if not unsure:
            return set()
        twins = {*unsure, *(wall_by_cpu[cpu] for cpu in unsure)}
        samples = _load_samples(tx, {series: ids[series] for series in twins}, shas_by_series)
        return {cpu for cpu in unsure if not is_cpu_bound(samples[cpu], samples[wall_by_cpu[cpu]])}

    return select_judged_series_by_status(readings, select_waiting)


def _load_samples(
    tx: Transaction, ids: Mapping[Series, int], shas_by_series: Mapping[Series, Collection[str]] | None
) -> dict[Series, list[Process]]:
    histories = load_histories_by_series_id(tx, list(ids.values()))
    return {
        series: [
            process
            for point in histories[row_id]
            if shas_by_series is None or point.commit.sha in shas_by_series[series]
            for process in point.processes
        ]
        for series, row_id in ids.items()
    }


def _get_levels_by_commit(points: Iterable[JudgedPoint]) -> dict[int, float]:
    """The level of the processes by commit id."""
    return {
        point.commit_id: point.summary.level
        for point in points
        if point.summary and point.summary.level is not None
    }
