"""Derive the change points of a project again by another policy; nothing is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session as Transaction

from perfci.history.series_histories import SeriesHistories
from perfci.model import ChangePoint, Series
from perfci.store.queries.loaders import load_project_series
from perfci.store.queries.measurements import load_change_points
from perfci.verdicts.policy import Policy
from perfci.verdicts.process_levels import key_without_metric


@dataclass(frozen=True, slots=True)
class ReplayedHistory:
    """The stored change points of one series, and those of the replay."""

    series: Series
    stored: Sequence[ChangePoint]
    replayed: Sequence[ChangePoint]

    @property
    def removed(self) -> list[ChangePoint]:
        """The change points that the replay does not have."""
        return _subtract_commits(self.stored, self.replayed)

    @property
    def added(self) -> list[ChangePoint]:
        """The change points that only the replay has."""
        return _subtract_commits(self.replayed, self.stored)

    @property
    def is_different(self) -> bool:
        """Whether change points are removed or added."""
        return bool(self.removed or self.added)


def replay_histories(tx: Transaction, project: str, policy: Policy) -> Iterator[ReplayedHistory]:
    """Replay every series of a project; one that is not judged has no change points."""
    stored: dict[Series, list[ChangePoint]] = {}
    for change in load_change_points(tx, project):
        stored.setdefault(change.series, []).append(change)
    replayed = SeriesHistories.load(tx, load_project_series(tx, project)).find_change_points(policy)
    for series in sorted(replayed, key=lambda series: (repr(key_without_metric(series)), series.label)):
        yield ReplayedHistory(series, stored.get(series, []), replayed[series])


def _subtract_commits(changes: Sequence[ChangePoint], excluded: Sequence[ChangePoint]) -> list[ChangePoint]:
    commits = {change.commit for change in excluded}
    return [change for change in changes if change.commit not in commits]
