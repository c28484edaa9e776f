"""What is stored of histories, looked at again by another policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session as Transaction

from perfci.history.derive_change_points import SeriesHistories
from perfci.model import ChangePoint, Series
from perfci.store.queries.loaders import load_project_series
from perfci.store.queries.measurements import load_change_points
from perfci.verdicts.policy import Policy
from perfci.verdicts.process_levels import key_without_metric


@dataclass(frozen=True, slots=True)
class ReplayedHistory:
    """The change points of one series as they are stored, and as they would be now."""

    series: Series
    stored: Sequence[ChangePoint]
    replayed: Sequence[ChangePoint]

    @property
    def removed(self) -> list[ChangePoint]:
        return _subtract_commits(self.stored, self.replayed)

    @property
    def added(self) -> list[ChangePoint]:
        return _subtract_commits(self.replayed, self.stored)

    @property
    def is_different(self) -> bool:
        return bool(self.removed or self.added)


def replay_histories(tx: Transaction, project: str, policy: Policy) -> Iterator[ReplayedHistory]:
    """Every series of a project; those that are not judged have no change points now."""
    stored: dict[Series, list[ChangePoint]] = {}
    for change in load_change_points(tx, project):
        stored.setdefault(change.series, []).append(change)
    now = SeriesHistories.load(tx, load_project_series(tx, project)).find_change_points(policy)
    for series in sorted(now, key=lambda series: (repr(key_without_metric(series)), series.label)):
        yield ReplayedHistory(series, stored.get(series, []), now[series])


def _subtract_commits(changes: Sequence[ChangePoint], excluded: Sequence[ChangePoint]) -> list[ChangePoint]:
    commits = {change.commit for change in excluded}
    return [change for change in changes if change.commit not in commits]
