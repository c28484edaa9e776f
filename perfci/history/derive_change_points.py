"""The change points of some series: derived from what is stored, and derived again whenever points arrive."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session as Transaction

from perfci.history.series_points import JudgedLines, readings_of_points
from perfci.model import ChangePoint, Digest, Series
from perfci.store.queries.loaders import series_by_ids
from perfci.store.queries.result_summaries import set_levels
from perfci.store.writes.ingest import keep_change_points
from perfci.verdicts.history.change_point_detection import Levels, Memory, changes_of_levels, moves_of_histories
from perfci.verdicts.policy import Policy

MEMORY = Memory()
"""Segmentations this process has computed before; nothing depends on it but the time another evaluation takes."""


@dataclass(frozen=True, slots=True)
class Histories:
    """Some series with all their levels: as much as has to be read before one can compute.

    ``judged`` are those a verdict is given on, ``repeating`` those of which every point repeats exactly; of
    ``summarised`` ones no process is known. ``digests`` had to be worked out on the way, and can be kept.
    """

    lines: Mapping[Series, Levels]
    judged: Sequence[Series]
    repeating: Collection[Series]
    summarised: Collection[Series]
    digests: Mapping[int, Digest]

    @classmethod
    def of(cls, tx: Transaction, series_ids: Collection[int]) -> Histories:
        found = JudgedLines.of(tx, series_ids)
        ids = {series: row_id for row_id, series in series_by_ids(tx, series_ids).items()}
        return cls(
            {series: found.levels(row_id) for series, row_id in ids.items()},
            found.judged(tx, ids),
            {series for series, row_id in ids.items() if found.repeats(row_id)},
            {series for series, row_id in ids.items() if not readings_of_points(found.points[row_id])},
            found.digests,
        )

    def changes(self, policy: Policy, memory: Memory | None = None) -> dict[Series, list[ChangePoint]]:
        """The change points of every one of them; a witness and what the policy leaves out have none."""
        judged = {series: self.lines[series] for series in self.judged if policy.judges(series)}
        measured = {series: line for series, line in judged.items() if series not in self.summarised}
        summarised = {series: line for series, line in judged.items() if series in self.summarised}
        return (
            {series: [] for series in sorted(self.lines, key=lambda series: series.label)}
            | changes_of_levels(measured, self.repeating.__contains__, rules=policy.rule_for, memory=memory)
            | moves_of_histories(summarised, rules=policy.rule_for, memory=memory)
        )


def update_change_points(
    tx: Transaction, project: str, series_ids: Collection[int], policy: Policy, memory: Memory = MEMORY
) -> dict[Series, list[ChangePoint]]:
    """Derive the change points of these series anew and store them, with the levels that had to be computed."""
    histories = Histories.of(tx, series_ids)
    changes = histories.changes(policy, memory)
    set_levels(tx, histories.digests)
    keep_change_points(tx, project, changes)
    return changes
