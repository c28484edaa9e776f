"""The change points of some series: derived from what is stored, and derived again whenever points arrive."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session as Transaction

from perfci.model import ChangePoint, Point, Series
from perfci.store.loading import series_by_ids
from perfci.store.reads import histories
from perfci.store.writes import replace_change_points
from perfci.verdicts.gating import gated
from perfci.verdicts.history import Memory, changes_of_histories, moves_of_histories
from perfci.verdicts.levels import judged_level
from perfci.verdicts.policy import Policy


@dataclass(frozen=True, slots=True)
class Histories:
    """Some series with all their points: as much as has to be read before one can compute."""

    lines: Mapping[Series, Sequence[Point]]

    @classmethod
    def of(cls, tx: Transaction, series_ids: Collection[int]) -> Histories:
        points, series = histories(tx, sorted(series_ids)), series_by_ids(tx, series_ids)
        return cls({series[row_id]: points[row_id] for row_id in points})

    def changes(self, policy: Policy, memory: Memory | None = None) -> dict[Series, list[ChangePoint]]:
        """The change points of every one of them; a witness and what the policy leaves out have none."""
        processes = {series: [one for point in line for one in point.processes] for series, line in self.lines.items()}
        judged = [series for series in gated(processes) if policy.judges(series)]
        measured = {series: self.lines[series] for series in judged if processes[series]}
        summaries = {series: _levels(self.lines[series]) for series in judged if not processes[series]}
        return (
            {series: [] for series in self.lines}
            | changes_of_histories(measured, rules=policy.rule_for, memory=memory)
            | moves_of_histories(summaries, rules=policy.rule_for, memory=memory)
        )


def write(tx: Transaction, project: str, changes: Mapping[Series, Sequence[ChangePoint]]) -> None:
    for series, points in changes.items():
        replace_change_points(tx, project, series, points)


def _levels(points: Sequence[Point]) -> list[tuple[str, float]]:
    return [(point.commit.sha, level) for point in points if (level := judged_level(point)) is not None]
