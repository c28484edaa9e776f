"""What is stored of histories, looked at again by another policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session as Transaction

from perfci.history.derive_change_points import Histories
from perfci.model import ChangePoint, Series
from perfci.store.queries.loaders import series_by_project
from perfci.store.queries.measurements import change_points
from perfci.verdicts.policy import Policy
from perfci.verdicts.process_levels import place_of


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
    """Every series of a project; those that are not judged have no change points now."""
    stored: dict[Series, list[ChangePoint]] = {}
    for change in change_points(tx, project):
        stored.setdefault(change.series, []).append(change)
    now = Histories.of(tx, series_by_project(tx, project)).changes(policy)
    for series in sorted(now, key=lambda series: (repr(place_of(series)), series.label)):
        yield ReplayedHistory(series, stored.get(series, []), now[series])


def _others(some: Sequence[ChangePoint], known: Sequence[ChangePoint]) -> list[ChangePoint]:
    commits = {change.commit for change in known}
    return [change for change in some if change.commit not in commits]
