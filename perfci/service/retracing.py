"""What is stored of histories, looked at again by another policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from sqlalchemy.orm import Session as Transaction

from perfci.model import ChangePoint, Series
from perfci.service.recording import imported_changes
from perfci.store.reads import change_points, histories, series_of_project
from perfci.verdicts.gating import gated
from perfci.verdicts.history import change_points as moves_of
from perfci.verdicts.levels import place_of
from perfci.verdicts.policy import Policy


@dataclass(frozen=True, slots=True)
class ReplayedHistory:
    """The change points of one series as they are stored, and as they would be now."""

    series: Series
    stored: Sequence[ChangePoint]
    now: Sequence[ChangePoint]

    @property
    def gone(self) -> list[ChangePoint]:
        return _others(self.stored, self.now)

    @property
    def new(self) -> list[ChangePoint]:
        return _others(self.now, self.stored)

    @property
    def differs(self) -> bool:
        return bool(self.gone or self.new)


def replayed_histories(tx: Transaction, project: str, policy: Policy) -> Iterator[ReplayedHistory]:
    """Every series that is judged, or was; witnesses have no change points."""
    stored: dict[Series, list[ChangePoint]] = {}
    for change in change_points(tx, project):
        stored.setdefault(change.series, []).append(change)
    imported = imported_changes(tx, project, policy)
    records = sorted(series_of_project(tx, project), key=lambda row: repr(place_of(row.series)))
    for _, group in groupby(records, key=lambda row: place_of(row.series)):
        rows = list(group)
        points = histories(tx, [row.id for row in rows])
        processes = {row.series: [p for point in points[row.id] for p in point.processes] for row in rows}
        judged = set(gated(processes))
        for row in rows:
            now = imported.get(row.series, [])
            if row.series not in imported and row.series in judged and policy.judges(row.series):
                now = moves_of(row.series, points[row.id], rule=policy.rule_for(row.series))
            yield ReplayedHistory(row.series, stored.get(row.series, []), now)


def _others(some: Sequence[ChangePoint], known: Sequence[ChangePoint]) -> list[ChangePoint]:
    commits = {change.commit for change in known}
    return [change for change in some if change.commit not in commits]
