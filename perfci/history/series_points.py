"""Histories as they are judged: by what is kept with each result, and by samples only where that says too little."""

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

OK_READINGS: Mapping[Clock | None, ReadingSet] = {clock: frozenset({(Status.OK, clock)}) for clock in Clock}


class JudgedPoint(NamedTuple):
    """What all results of a series at one commit come to together; ``digest`` is absent where no process ended well."""

    commit_id: int
    environment_id: int
    status: str
    level: float | None
    summary: ResultSummary | None
    readings: ReadingSet


@dataclass(frozen=True, slots=True)
class JudgedPoints:
    """Points by series, in no order; ``digests`` are those that had to be worked out, by result, for whoever may keep
    them.
    """

    points: Mapping[int, Sequence[JudgedPoint]]
    summaries: Mapping[int, ResultSummary]


@dataclass(frozen=True, slots=True)
class JudgedHistories:
    """The whole histories of some series, oldest commit first."""

    points: Mapping[int, Sequence[JudgedPoint]]
    commits: Mapping[int, Commit]
    summaries: Mapping[int, ResultSummary]

    @classmethod
    def load(cls, tx: Transaction, series_ids: Collection[int]) -> JudgedHistories:
        found = build_judged_points(tx, load_levels_of_series(tx, series_ids))
        commits = load_commits_by_ids(
            tx, {point.commit_id for points in found.points.values() for point in points}
        )
        line = _LineOrder(commits)
        return cls(
            {one: line.sort_points(found.points.get(one, ())) for one in series_ids}, commits, found.summaries
        )

    def get_commit_levels(self, series_id: int) -> list[tuple[Commit, float | None]]:
        """Every commit with its level; one that failed has none."""
        return [(self.commits[point.commit_id], point.level) for point in self.points[series_id]]

    def get_levels(self, series_id: int) -> list[tuple[str, float]]:
        """Sha and level of every commit that has one."""
        return [
            (commit.sha, level) for commit, level in self.get_commit_levels(series_id) if level is not None
        ]

    def select_judged(self, tx: Transaction, series: Mapping[Series, int]) -> list[Series]:
        """The series that verdicts are given on, by all that was measured of them."""

        def samples(some: Collection[Series]) -> dict[Series, list[Process]]:
            read = load_histories(tx, [series[one] for one in some])
            return {
                one: [process for point in read[series[one]] for process in point.processes] for one in some
            }

        return select_judged_series({one: self.points[row_id] for one, row_id in series.items()}, samples)

    def has_flagged_commit(self, series_id: int) -> bool:
        """Whether processes ended well at some commit, and something is known against each of them."""
        return any(
            point.summary is not None and point.summary.level is None for point in self.points[series_id]
        )

    def is_repeating(self, series_id: int) -> bool:
        """Whether nothing usable was read at any commit but one exact value."""
        return all(point.summary is None or point.summary.repeats for point in self.points[series_id])


def build_judged_points(tx: Transaction, rows: Sequence[ResultLevel]) -> JudgedPoints:
    """Join the results of each series and commit."""
    new = compute_summaries(tx, [row.id for row in rows if row.clock is None and row.is_ok])
    known = {
        row.id: found for row in rows if (found := row.result_summary or new.get(row.id)) and found.clock
    }
    together: dict[tuple[int, int], list[ResultLevel]] = defaultdict(list)
    for row in rows:
        together[row.series_id, row.commit_id].append(row)
    told = {row.series_id for row in rows if row.id in known}
    plain = {
        group[0].id
        for group in together.values()
        if len(group) == 1 and _is_single_result(group[0], known, told)
    }
    joining = _PointJoiner.load(
        tx, [group for group in together.values() if group[0].id not in plain], known, told
    )
    points: dict[int, list[JudgedPoint]] = defaultdict(list)
    for (series_id, _), group in together.items():
        one = group[0]
        points[series_id].append(
            _build_single_point(one, known.get(one.id)) if one.id in plain else joining.join(group)
        )
    return JudgedPoints(points, new)


LoadSamples = Callable[[Collection[Series]], Mapping[Series, Sequence[Process]]]
"""Reads all processes of some series."""


def select_judged_series(
    points: Mapping[Series, Iterable[JudgedPoint]], load_samples: LoadSamples
) -> list[Series]:
    """The series that verdicts are given on; ``samples`` are read only of CPU time that may be mostly waiting."""
    readings = {series: collect_readings(of) for series, of in points.items()}
    twins = find_cpu_twins(readings)
    unsure = [
        cpu
        for cpu, wall in twins.items()
        if not is_clearly_cpu_bound(_get_levels_by_commit(points[cpu]), _get_levels_by_commit(points[wall]))
    ]
    read = load_samples({*unsure, *(twins[cpu] for cpu in unsure)}) if unsure else {}
    waiting = {cpu for cpu in unsure if not is_cpu_bound(read[cpu], read[twins[cpu]])}
    return select_judged_by_status(readings, lambda cpu, wall: cpu not in waiting)


def collect_readings(points: Iterable[JudgedPoint]) -> ReadingSet:
    """How the processes behind some points ended; nothing where foreign tools left summaries only."""
    return ReadingSet().union(*{point.readings for point in points})


def _get_levels_by_commit(points: Iterable[JudgedPoint]) -> dict[int, float]:
    """What processes came to, by commit."""
    return {
        one.commit_id: one.summary.level for one in points if one.summary and one.summary.level is not None
    }


def _is_single_result(
    row: ResultLevel, summaries: Mapping[int, ResultSummary], summarized_series: Collection[int]
) -> bool:
    """Whether nothing more need be asked about the only result at a commit; of series that are ``told`` not of one
    that failed.
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
    """What is known of results that do not speak for themselves: of several at one commit all processes count alike."""

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
        """Of a series that gave values, those ``told``, nothing is asked about its failures."""
        rows = [row for group in groups for row in group]
        asked = load_process_statuses(
            tx,
            [
                row.id
                for row in rows
                if row.id not in summaries and (row.is_ok or row.series_id not in summarized_series)
            ],
        )
        found = {row.id: OK_READINGS[summaries[row.id].clock] for row in rows if row.id in summaries}
        readings = found | {row_id: frozenset(given) for row_id, given in asked.items()}
        untold = [
            said
            for group in groups
            if _get_single_summary(said := _select_usable(group, readings), summaries) is None
        ]
        return cls(
            summaries, readings, load_processes_of_results(tx, [row.id for said in untold for row in said])
        )

    def join(self, group: Sequence[ResultLevel]) -> JudgedPoint:
        newest = max(group, key=lambda row: (row.is_ok, row.started_at, row.id))
        speaking = _select_usable(group, self.readings)
        found = _get_single_summary(speaking, self.summaries) or summarize_result(
            [one for row in speaking for one in self.processes[row.id]]
        )
        level = newest.value if found is None or found.level is None else found.level
        readings = ReadingSet().union(*(self.readings.get(row.id, ()) for row in group))
        return JudgedPoint(newest.commit_id, newest.environment_id, newest.status, level, found, readings)


def _select_usable(group: Sequence[ResultLevel], readings: Mapping[int, ReadingSet]) -> list[ResultLevel]:
    """The results of which a process ended well."""
    return [row for row in group if any(status is Status.OK for status, _ in readings.get(row.id, ()))]


def _get_single_summary(
    usable: Sequence[ResultLevel], summaries: Mapping[int, ResultSummary]
) -> ResultSummary | None:
    """What one result alone came to; of several the processes have to be asked."""
    return summaries.get(usable[0].id) if len(usable) == 1 else None


class _LineOrder:
    """Points in the order of their commits, which is worked out once for all series measured at the same ones."""

    def __init__(self, commits: Mapping[int, Commit]) -> None:
        self._commits = commits
        self._ids = {commit: row_id for row_id, commit in commits.items()}
        self._orders: dict[frozenset[int], list[int]] = {}

    def sort_points(self, points: Iterable[JudgedPoint]) -> list[JudgedPoint]:
        of = {point.commit_id: point for point in points}
        among = frozenset(of)
        if among not in self._orders:
            self._orders[among] = [
                self._ids[one] for one in sort_commits(self._commits[one] for one in among)
            ]
        return [of[commit_id] for commit_id in self._orders[among]]
