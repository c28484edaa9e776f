"""The parts of a project's histories that incidents are derived from, read as few points at a time as it takes."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy.orm import Session as Transaction

from perfci.history.series_points import JudgedPoint, gated_points, judged_points
from perfci.history.visit_index import Timetable
from perfci.model import ChangePoint, Environment, Machine, Process, Series, Verdict
from perfci.store.queries.commit_visits import LevelAt, levels_at, visits
from perfci.store.queries.latest_results import series_on_trial
from perfci.store.queries.loaders import load_environments
from perfci.store.queries.measurements import change_points, commits, histories, verdict_records
from perfci.store.queries.result_summaries import ResultLevel
from perfci.verdicts.history.recent_jumps import NEWEST
from perfci.verdicts.history.release_creep import AROUND, Line, Release
from perfci.verdicts.history.step_estimate import REACH, Seen
from perfci.verdicts.incidents.step_causes import Known, convictions, with_convictions
from perfci.verdicts.policy import Policy

GAPS = 3
"""A series that is measured at every third commit of its machine still has its points found around a release."""


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
        series = {one: row_id for one, row_id in series_on_trial(tx, project).items() if policy.judges(one)}
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
        wanted = {series: ends[series.machine] for series in self.series}
        points = self._points(wanted)
        measured = {series: points.measured.get(row_id, {}).values() for series, row_id in self.series.items()}
        judged = gated_points(measured, lambda some: self._samples(some, wanted))
        return {series: points.seen(self.series[series], self.timetable.place) for series in judged}

    def lines(self, releases: Sequence[Release], newest: Mapping[Series, Sequence[Seen]]) -> list[Line]:
        """Every judged series with its points around each release."""
        if not releases:
            return []
        near = {
            (release, machine): frozenset(self.timetable.near(release.sha, machine, GAPS * AROUND))
            for release in releases
            for machine in self._machines()
        }
        steps, verdicts = by_series(self.changes), by_series(self.verdicts)
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

    def _seen(self, wanted: Mapping[Series, Collection[str]]) -> dict[Series, list[Seen]]:
        """The judged points of some series at the commits wanted of each, oldest first."""
        points = self._points(wanted)
        known = (series for series in wanted if series in self.series)
        return {series: points.seen(self.series[series], self.timetable.place) for series in known}

    def _points(self, wanted: Mapping[Series, Collection[str]]) -> _Points:
        ids = {series: self.series[series] for series in wanted if series in self.series}
        shas_of = {row_id: frozenset(wanted[series]) for series, row_id in ids.items()}  # a series takes long to hash
        shas = frozenset[str]().union(*shas_of.values())
        found = levels_at(self.tx, self.project, shas, shas_of)
        return _Points.of(self.tx, [(sha, row) for sha, row in found if sha in shas_of[row.series_id]])

    def _samples(
        self, some: Collection[Series], wanted: Mapping[Series, Collection[str]]
    ) -> dict[Series, list[Process]]:
        read = histories(self.tx, [self.series[one] for one in some])
        return {
            one: [
                process
                for point in read[self.series[one]]
                if point.commit.sha in wanted[one]
                for process in point.processes
            ]
            for one in some
        }


@dataclass(frozen=True, slots=True)
class _Points:
    """Some points by series and sha: what was measured, and what foreign tools left."""

    measured: Mapping[int, Mapping[str, JudgedPoint]]
    summarised: Mapping[int, Mapping[str, ResultLevel]]
    environments: Mapping[int, Environment]

    @classmethod
    def of(cls, tx: Transaction, rows: Sequence[LevelAt]) -> _Points:
        shas = {row.commit_id: sha for sha, row in rows}
        judged = judged_points(tx, [row for _, row in rows if not row.summarised]).points
        summarised: dict[int, dict[str, ResultLevel]] = defaultdict(dict)
        for sha, row in sorted(rows, key=lambda one: one[1].started_at):
            if row.summarised:
                summarised[row.series_id][sha] = row
        return cls(
            {row_id: {shas[point.commit_id]: point for point in points} for row_id, points in judged.items()},
            summarised,
            load_environments(tx, {row.environment_id for _, row in rows}),
        )

    def seen(self, series_id: int, place: Mapping[str, int]) -> list[Seen]:
        """Those that have a level, in their places on the line; what was measured goes before what was left."""
        found = {
            sha: Seen(sha, row.value, self.environments[row.environment_id])
            for sha, row in self.summarised.get(series_id, {}).items()
            if row.value is not None
        }
        for sha, point in self.measured.get(series_id, {}).items():
            if point.level is not None:
                exact = point.digest is not None and point.digest.exact
                found[sha] = Seen(sha, point.level, self.environments[point.environment_id], exact)
        return [found[sha] for sha in sorted(found.keys() & place.keys(), key=place.__getitem__)]


T = TypeVar("T", ChangePoint, Verdict)


def by_series(things: Iterable[T]) -> dict[Series, list[T]]:
    found: dict[Series, list[T]] = defaultdict(list)
    for thing in things:
        found[thing.series].append(thing)
    return found


def _matching(expressions: Sequence[str]) -> Callable[[Series], bool]:
    compiled = [re.compile(one) for one in expressions]
    return lambda series: any(one.search(series.label) for one in compiled)
