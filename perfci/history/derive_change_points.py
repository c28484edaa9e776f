"""The change points of some series: derived from what is stored, and derived again whenever points arrive."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session as Transaction

from perfci.history.series_points import JudgedHistories, collect_readings
from perfci.model import ChangePoint, ResultSummary, Series
from perfci.store.queries.loaders import load_series_by_ids
from perfci.store.queries.result_summaries import save_result_summaries
from perfci.store.writes.verdict_writes import save_change_points
from perfci.verdicts.history.change_point_detection import (
    LevelHistory,
    SegmentationCache,
    find_change_points_of_levels,
    segment_histories,
)
from perfci.verdicts.policy import Policy

SEGMENTATION_CACHE = SegmentationCache()
"""Segmentations this process has computed before; nothing depends on it but the time another evaluation takes."""


@dataclass(frozen=True, slots=True)
class SeriesHistories:
    """Some series with all their levels: as much as has to be read before one can compute.

    ``judged`` are those a verdict is given on, ``repeating`` those of which every point repeats exactly; of
    ``summarised`` ones no process is known. ``digests`` had to be worked out on the way, and can be kept.
    """

    levels_by_series: Mapping[Series, LevelHistory]
    judged: Sequence[Series]
    repeating: Collection[Series]
    summary_only: Collection[Series]
    summaries: Mapping[int, ResultSummary]

    @classmethod
    def load(cls, tx: Transaction, series_ids: Collection[int]) -> SeriesHistories:
        found = JudgedHistories.load(tx, series_ids)
        ids = {series: row_id for row_id, series in load_series_by_ids(tx, series_ids).items()}
        return cls(
            {series: found.get_levels(row_id) for series, row_id in ids.items()},
            found.select_judged(tx, ids),
            {series for series, row_id in ids.items() if found.is_repeating(row_id)},
            {series for series, row_id in ids.items() if not collect_readings(found.points[row_id])},
            found.summaries,
        )

    def find_change_points(
        self, policy: Policy, memory: SegmentationCache | None = None
    ) -> dict[Series, list[ChangePoint]]:
        """The change points of every one of them; a witness and what the policy leaves out have none."""
        judged = {series: self.levels_by_series[series] for series in self.judged if policy.is_judged(series)}
        measured = {series: line for series, line in judged.items() if series not in self.summary_only}
        summarised = {series: line for series, line in judged.items() if series in self.summary_only}
        return (
            {series: [] for series in sorted(self.levels_by_series, key=lambda series: series.label)}
            | find_change_points_of_levels(
                measured, self.repeating.__contains__, rules=policy.rule_for, cache=memory
            )
            | segment_histories(summarised, rules=policy.rule_for, cache=memory)
        )


def update_change_points(
    tx: Transaction,
    project: str,
    series_ids: Collection[int],
    policy: Policy,
    memory: SegmentationCache = SEGMENTATION_CACHE,
) -> dict[Series, list[ChangePoint]]:
    """Derive the change points of these series anew and store them, with the levels that had to be computed."""
    histories = SeriesHistories.load(tx, series_ids)
    changes = histories.find_change_points(policy, memory)
    save_result_summaries(tx, histories.summaries)
    save_change_points(tx, project, changes)
    return changes
