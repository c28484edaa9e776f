"""The parts of a project's histories that incidents are derived from, read as few points at a time as it takes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy.orm import Session as Transaction

from perfci.model import ChangePoint, Clock, Machine, Point, Series, Verdict
from perfci.service.timetable import Timetable
from perfci.store.reads import change_points, commits, series_of_project, verdict_records
from perfci.store.timeline import points_at, visits
from perfci.verdicts.boundaries import REACH, Seen
from perfci.verdicts.creep import Line, Release
from perfci.verdicts.gating import gated
from perfci.verdicts.levels import judged_level, usable
from perfci.verdicts.moves import Known, convictions, with_convictions
from perfci.verdicts.policy import Policy
from perfci.verdicts.retests import NEWEST


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What was read of a project, and the way to read more of it."""

    tx: Transaction
    project: str
    policy: Policy
    timetable: Timetable
    series: Mapping[Series, int]
    verdicts: Sequence[Verdict]
    changes: Sequence[ChangePoint]

    @classmethod
    def of(cls, tx: Transaction, project: str, policy: Policy) -> Surroundings:
        timetable = Timetable(commits(tx, project), visits(tx, project))
        series = {row.series: row.id for row in series_of_project(tx, project) if policy.judges(row.series)}
        verdicts = [record.verdict for record in verdict_records(tx, project)]
        changes = with_convictions(change_points(tx, project), verdicts, timetable.place)
        return cls(tx, project, policy, timetable, series, verdicts, changes)

    def known(self, newest: Mapping[Series, Sequence[Seen]], canaries: Sequence[str]) -> Known:
        around: dict[Series, set[str]] = {}
        for change in self.changes:
            near = self.timetable.near(change.commit, change.series.machine, REACH)
            around.setdefault(change.series, set()).update(near)
        return Known(
            self.project,
            self.timetable.line,
            seen=self._seen(around),
            convictions=convictions(self.verdicts),
            visits=self.timetable.visits,
            peers=Counter((series.machine, series.metric.unit) for series in newest),
            rules=self.policy.rule_for,
            canary=_matching(canaries),
        )

    def newest(self) -> dict[Series, list[Seen]]:
        """The newest points of every judged series."""
        ends = {machine: self.timetable.newest(machine, REACH + NEWEST) for machine in self._machines()}
        points = self._points({series: ends[series.machine] for series in self.series})
        processes = {series: [p for point in found for p in point.processes] for series, found in points.items()}
        return {series: _levels(points[series]) for series in gated(processes)}

    def lines(self, releases: Sequence[Release], newest: Mapping[Series, Sequence[Seen]]) -> list[Line]:
        """Every judged series with its points around each release."""
        if not releases:
            return []
        near = {
            (release, machine): self.timetable.near(release.sha, machine, REACH)
            for release in releases
            for machine in self._machines()
        }
        steps, verdicts = _by_series(self.changes), _by_series(self.verdicts)
        wanted = {series: {sha for one in releases for sha in near[one, series.machine]} for series in newest}
        seen = self._seen(wanted)
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

    def _seen(self, wanted: Mapping[Series, Collection[str]]) -> dict[Series, list[Seen]]:
        return {series: _levels(points) for series, points in self._points(wanted).items()}

    def _points(self, wanted: Mapping[Series, Collection[str]]) -> dict[Series, list[Point]]:
        by_id = {self.series[series]: series for series in wanted if series in self.series}
        found = points_at(self.tx, self.project, {row_id: wanted[series] for row_id, series in by_id.items()})
        return {series: found[row_id] for row_id, series in by_id.items()}


T = TypeVar("T", ChangePoint, Verdict)


def _by_series(things: Sequence[T]) -> dict[Series, list[T]]:
    found: dict[Series, list[T]] = {}
    for thing in things:
        found.setdefault(thing.series, []).append(thing)
    return found


def _levels(points: Sequence[Point]) -> list[Seen]:
    """The judged points; what gave no level is stepped over."""
    return [
        Seen(point.commit.sha, level, point.environment, _exact(point))
        for point in points
        if (level := judged_level(point)) is not None
    ]


def _exact(point: Point) -> bool:
    processes = usable(point.processes)
    return bool(processes) and all(process.clock is Clock.EXACT for process in processes)


def _matching(expressions: Sequence[str]) -> Callable[[Series], bool]:
    compiled = [re.compile(one) for one in expressions]
    return lambda series: any(one.search(series.label) for one in compiled)
