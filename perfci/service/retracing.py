"""What is stored of histories, looked at again by another policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from sqlalchemy.orm import Session as Transaction

from perfci.model import ChangePoint, Series
from perfci.service.recording import imported_changes
from perfci.store.loading import series_by_project
from perfci.store.reads import change_points, histories
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
    known = sorted(series_by_project(tx, project).items(), key=lambda item: (repr(place_of(item[1])), item[1].label))
    for _, group in groupby(known, key=lambda item: place_of(item[1])):
        rows = {series: row_id for row_id, series in group}
        points = histories(tx, list(rows.values()))
        processes = {
            series: [p for point in points[row_id] for p in point.processes] for series, row_id in rows.items()
        }
        judged = set(gated(processes))
        for series, row_id in rows.items():
            now = imported.get(series, [])
            if series not in imported and series in judged and policy.judges(series):
                now = moves_of(series, points[row_id], rule=policy.rule_for(series))
            yield ReplayedHistory(series, stored.get(series, []), now)


def _others(some: Sequence[ChangePoint], known: Sequence[ChangePoint]) -> list[ChangePoint]:
    commits = {change.commit for change in known}
    return [change for change in some if change.commit not in commits]
