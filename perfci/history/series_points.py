"""Histories as they are judged: by what is kept with each result, and by samples only where that says too little."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy.orm import Session as Transaction

from perfci.history.result_summaries import digests_of
from perfci.model import Clock, Commit, Digest, Process, Series, Status
from perfci.store.queries.commit_order import along_the_line
from perfci.store.queries.loaders import commits_by_ids
from perfci.store.queries.measurements import histories
from perfci.store.queries.result_summaries import (
    ResultLevel,
    levels_of_series,
    processes_of_results,
    readings_of_results,
)
from perfci.verdicts.judged_series import Reading, cpu_twins, gated_readings
from perfci.verdicts.process_levels import cpu_bound, digest, plainly_cpu_bound

Readings = frozenset[Reading]

READ_WELL: Mapping[Clock | None, Readings] = {clock: frozenset({(Status.OK, clock)}) for clock in Clock}


class JudgedPoint(NamedTuple):
    """What all results of a series at one commit come to together; ``digest`` is absent where no process ended well."""

    commit_id: int
    environment_id: int
    status: str
    level: float | None
    digest: Digest | None
    readings: Readings


@dataclass(frozen=True, slots=True)
class Judged:
    """Points by series, in no order; ``digests`` are those that had to be worked out, by result, for whoever may keep
    them.
    """

    points: Mapping[int, Sequence[JudgedPoint]]
    digests: Mapping[int, Digest]


@dataclass(frozen=True, slots=True)
class JudgedLines:
    """The whole histories of some series, oldest commit first."""

    points: Mapping[int, Sequence[JudgedPoint]]
    commits: Mapping[int, Commit]
    digests: Mapping[int, Digest]

    @classmethod
    def of(cls, tx: Transaction, series_ids: Collection[int]) -> JudgedLines:
        found = judged_points(tx, levels_of_series(tx, series_ids))
        commits = commits_by_ids(tx, {point.commit_id for points in found.points.values() for point in points})
        line = _Line(commits)
        return cls({one: line.along(found.points.get(one, ())) for one in series_ids}, commits, found.digests)

    def line(self, series_id: int) -> list[tuple[Commit, float | None]]:
        """Every commit with its level; one that failed has none."""
        return [(self.commits[point.commit_id], point.level) for point in self.points[series_id]]

    def levels(self, series_id: int) -> list[tuple[str, float]]:
        """Sha and level of every commit that has one."""
        return [(commit.sha, level) for commit, level in self.line(series_id) if level is not None]

    def judged(self, tx: Transaction, series: Mapping[Series, int]) -> list[Series]:
        """The series that verdicts are given on, by all that was measured of them."""

        def samples(some: Collection[Series]) -> dict[Series, list[Process]]:
            read = histories(tx, [series[one] for one in some])
            return {one: [process for point in read[series[one]] for process in point.processes] for one in some}

        return gated_points({one: self.points[row_id] for one, row_id in series.items()}, samples)

    def hides(self, series_id: int) -> bool:
        """Whether processes ended well at some commit, and something is known against each of them."""
        return any(point.digest is not None and point.digest.level is None for point in self.points[series_id])

    def repeats(self, series_id: int) -> bool:
        """Whether nothing usable was read at any commit but one exact value."""
        return all(point.digest is None or point.digest.repeats for point in self.points[series_id])


def judged_points(tx: Transaction, rows: Sequence[ResultLevel]) -> Judged:
    """Join the results of each series and commit."""
    new = digests_of(tx, [row.id for row in rows if row.clock is None and row.ok])
    known = {row.id: found for row in rows if (found := row.digest or new.get(row.id)) and found.clock}
    together: dict[tuple[int, int], list[ResultLevel]] = defaultdict(list)
    for row in rows:
        together[row.series_id, row.commit_id].append(row)
    told = {row.series_id for row in rows if row.id in known}
    plain = {group[0].id for group in together.values() if len(group) == 1 and _is_plain(group[0], known, told)}
    joining = _Joining.of(tx, [group for group in together.values() if group[0].id not in plain], known, told)
    points: dict[int, list[JudgedPoint]] = defaultdict(list)
    for (series_id, _), group in together.items():
        one = group[0]
        points[series_id].append(_of_one(one, known.get(one.id)) if one.id in plain else joining.point(group))
    return Judged(points, new)


Samples = Callable[[Collection[Series]], Mapping[Series, Sequence[Process]]]
"""Reads all processes of some series."""


def gated_points(points: Mapping[Series, Iterable[JudgedPoint]], samples: Samples) -> list[Series]:
    """The series that verdicts are given on; ``samples`` are read only of CPU time that may be mostly waiting."""
    readings = {series: readings_of_points(of) for series, of in points.items()}
    twins = cpu_twins(readings)
    unsure = [cpu for cpu, wall in twins.items() if not plainly_cpu_bound(_levels(points[cpu]), _levels(points[wall]))]
    read = samples({*unsure, *(twins[cpu] for cpu in unsure)}) if unsure else {}
    waiting = {cpu for cpu in unsure if not cpu_bound(read[cpu], read[twins[cpu]])}
    return gated_readings(readings, lambda cpu, wall: cpu not in waiting)


def readings_of_points(points: Iterable[JudgedPoint]) -> Readings:
    """How the processes behind some points ended; nothing where foreign tools left summaries only."""
    return Readings().union(*{point.readings for point in points})


def _levels(points: Iterable[JudgedPoint]) -> dict[int, float]:
    """What processes came to, by commit."""
    return {one.commit_id: one.digest.level for one in points if one.digest and one.digest.level is not None}


def _is_plain(row: ResultLevel, known: Mapping[int, Digest], told: Collection[int]) -> bool:
    """Whether nothing more need be asked about the only result at a commit; of series that are ``told`` not of one
    that failed.
    """
    return row.id in known or (not row.ok and row.series_id in told)


def _of_one(row: ResultLevel, found: Digest | None) -> JudgedPoint:
    if found is None:
        return JudgedPoint(row.commit_id, row.environment_id, row.status, row.value, None, Readings())
    level = row.value if found.level is None else found.level
    return JudgedPoint(row.commit_id, row.environment_id, row.status, level, found, READ_WELL[found.clock])


@dataclass(frozen=True, slots=True)
class _Joining:
    """What is known of results that do not speak for themselves: of several at one commit all processes count alike."""

    known: Mapping[int, Digest]
    readings: Mapping[int, Readings]
    processes: Mapping[int, Sequence[Process]]

    @classmethod
    def of(
        cls,
        tx: Transaction,
        groups: Sequence[Sequence[ResultLevel]],
        known: Mapping[int, Digest],
        told: Collection[int],
    ) -> _Joining:
        """Of a series that gave values, those ``told``, nothing is asked about its failures."""
        rows = [row for group in groups for row in group]
        asked = readings_of_results(
            tx, [row.id for row in rows if row.id not in known and (row.ok or row.series_id not in told)]
        )
        found = {row.id: READ_WELL[known[row.id].clock] for row in rows if row.id in known}
        readings = found | {row_id: frozenset(given) for row_id, given in asked.items()}
        untold = [said for group in groups if _told_by(said := _speaking(group, readings), known) is None]
        return cls(known, readings, processes_of_results(tx, [row.id for said in untold for row in said]))

    def point(self, group: Sequence[ResultLevel]) -> JudgedPoint:
        newest = max(group, key=lambda row: (row.ok, row.started_at, row.id))
        speaking = _speaking(group, self.readings)
        found = _told_by(speaking, self.known) or digest([one for row in speaking for one in self.processes[row.id]])
        level = newest.value if found is None or found.level is None else found.level
        readings = Readings().union(*(self.readings.get(row.id, ()) for row in group))
        return JudgedPoint(newest.commit_id, newest.environment_id, newest.status, level, found, readings)


def _speaking(group: Sequence[ResultLevel], readings: Mapping[int, Readings]) -> list[ResultLevel]:
    """The results of which a process ended well."""
    return [row for row in group if any(status is Status.OK for status, _ in readings.get(row.id, ()))]


def _told_by(speaking: Sequence[ResultLevel], known: Mapping[int, Digest]) -> Digest | None:
    """What one result alone came to; of several the processes have to be asked."""
    return known.get(speaking[0].id) if len(speaking) == 1 else None


class _Line:
    """Points in the order of their commits, which is worked out once for all series measured at the same ones."""

    def __init__(self, commits: Mapping[int, Commit]) -> None:
        self._commits = commits
        self._ids = {commit: row_id for row_id, commit in commits.items()}
        self._orders: dict[frozenset[int], list[int]] = {}

    def along(self, points: Iterable[JudgedPoint]) -> list[JudgedPoint]:
        of = {point.commit_id: point for point in points}
        among = frozenset(of)
        if among not in self._orders:
            self._orders[among] = [self._ids[one] for one in along_the_line(self._commits[one] for one in among)]
        return [of[commit_id] for commit_id in self._orders[among]]
