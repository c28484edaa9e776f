"""The parts of a project's histories that incidents are derived from, read as few points at a time as it takes."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy.orm import Session as Transaction

from perfci.model import ChangePoint, Clock, Machine, Point, Process, Series, Verdict
from perfci.service.timetable import Timetable
from perfci.store.reads import change_points, commits, series_of_project, verdict_records
from perfci.store.records import SeriesRecord
from perfci.store.timeline import points_at, values_at, visits
from perfci.verdicts.boundaries import REACH, Seen
from perfci.verdicts.creep import AROUND, Line, Release
from perfci.verdicts.gating import gated
from perfci.verdicts.levels import judged_level, usable
from perfci.verdicts.moves import Known, convictions, with_convictions
from perfci.verdicts.policy import Policy
from perfci.verdicts.retests import NEWEST

GAPS = 3
"""A series that is measured at every third commit of its machine still has its points found around a release."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What was read of a project, and the way to read more of it."""

    tx: Transaction
    project: str
    policy: Policy
    timetable: Timetable
    series: Mapping[Series, SeriesRecord]
    verdicts: Sequence[Verdict]
    changes: Sequence[ChangePoint]

    @classmethod
    def of(
        cls, tx: Transaction, project: str, policy: Policy, records: Sequence[SeriesRecord] | None = None
    ) -> Surroundings:
        """What the caller has read already is not read again."""
        timetable = Timetable(commits(tx, project), visits(tx, project))
        records = series_of_project(tx, project) if records is None else records
        series = {row.series: row for row in records if row.points and not row.witness and policy.judges(row.series)}
        verdicts = [record.verdict for record in verdict_records(tx, project)]
        changes = with_convictions(change_points(tx, project), verdicts, timetable.place)
        return cls(tx, project, policy, timetable, series, verdicts, changes)

    def known(self, canaries: Sequence[str]) -> Known:
        around: dict[Series, set[str]] = defaultdict(set)
        for change in self.changes:
            around[change.series].update(self.timetable.near(change.commit, change.series.machine, REACH))
        return Known(
            self.project,
            self.timetable.line,
            seen=self._seen(around),
            convictions=convictions(self.verdicts),
            visits=self.timetable.visits,
            peers=Counter((series.machine, series.metric.unit) for series in self.series),
            rules=self.policy.rule_for,
            canary=_matching(canaries),
        )

    def newest(self) -> dict[Series, list[Seen]]:
        """The newest points of every judged series."""
        ends = {machine: self.timetable.newest(machine, REACH + NEWEST) for machine in self._machines()}
        processes: dict[Series, list[Process]] = {series: [] for series in self.series}
        seen = self._seen({series: ends[series.machine] for series in self.series}, processes)
        return {series: seen[series] for series in gated(processes)}

    def lines(self, releases: Sequence[Release], newest: Mapping[Series, Sequence[Seen]]) -> list[Line]:
        """Every judged series with its points around each release."""
        if not releases:
            return []
        near = {
            (release, machine): frozenset(self.timetable.near(release.sha, machine, GAPS * AROUND))
            for release in releases
            for machine in self._machines()
        }
        steps, verdicts = _by_series(self.changes), _by_series(self.verdicts)
        of_machine = {
            machine: frozenset[str]().union(*(near[one, machine] for one in releases)) for machine in self._machines()
        }
        seen = self._seen({series: of_machine[series.machine] for series in newest})
        return [
            Line(
                series,
                {one: [point for point in seen[series] if point.sha in near[one, series.machine]] for one in releases},
                newest[series],
                steps.get(series, ()),
                verdicts.get(series, ()),
            )
            for series in newest
        ]

    def _machines(self) -> set[Machine]:
        return {series.machine for series in self.series}

    def _seen(
        self, wanted: Mapping[Series, Collection[str]], processes: dict[Series, list[Process]] | None = None
    ) -> dict[Series, list[Seen]]:
        """The judged points of some series at the commits wanted of each, oldest first."""
        by_id = {self.series[series].id: series for series in wanted if series in self.series}
        shas_of = {row_id: wanted[series] for row_id, series in by_id.items()}  # a series takes long to hash
        shas = frozenset[str]().union(*wanted.values())
        found: dict[int, dict[str, Seen]] = {row_id: {} for row_id in by_id}
        for one in values_at(self.tx, self.project, shas, by_id):
            if one.sha in shas_of[one.series_id]:
                found[one.series_id][one.sha] = Seen(one.sha, one.value, one.environment)
        for series_id, point in points_at(self.tx, self.project, shas, by_id):
            level = judged_level(point)
            if processes is not None:
                processes[by_id[series_id]] += point.processes
            if level is not None and point.commit.sha in shas_of[series_id]:
                found[series_id][point.commit.sha] = Seen(point.commit.sha, level, point.environment, _exact(point))
        place = self.timetable.place
        return {
            by_id[row_id]: [of[sha] for sha in sorted(of.keys() & place.keys(), key=place.__getitem__)]
            for row_id, of in found.items()
        }


T = TypeVar("T", ChangePoint, Verdict)


def _by_series(things: Iterable[T]) -> dict[Series, list[T]]:
    found: dict[Series, list[T]] = defaultdict(list)
    for thing in things:
        found[thing.series].append(thing)
    return found


def _exact(point: Point) -> bool:
    processes = usable(point.processes)
    return bool(processes) and all(process.clock is Clock.EXACT for process in processes)


def _matching(expressions: Sequence[str]) -> Callable[[Series], bool]:
    compiled = [re.compile(one) for one in expressions]
    return lambda series: any(one.search(series.label) for one in compiled)
