"""Derive the change points of series from their stored levels; repeated whenever points arrive."""

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
"""Segmentations this process has computed before: they only save time in the next evaluation."""


@dataclass(frozen=True, slots=True)
class SeriesHistories:
    """Series with all their levels: everything that is read before change points are computed.

    ``judged`` are the series that verdicts are given on, ``repeating`` those of which every point repeats
    exactly, and ``summary_only`` those without stored processes. ``summaries`` are the result summaries
    computed while loading, by result id; the caller may save them.
    """

    levels_by_series: Mapping[Series, LevelHistory]
    judged: Sequence[Series]
    repeating: Collection[Series]
    summary_only: Collection[Series]
    summaries: Mapping[int, ResultSummary]

    @classmethod
    def load(cls, tx: Transaction, series_ids: Collection[int]) -> SeriesHistories:
        """Read the whole histories of these series."""
        histories = JudgedHistories.load(tx, series_ids)
        ids = {series: row_id for row_id, series in load_series_by_ids(tx, series_ids).items()}
        return cls(
            {series: histories.get_levels(row_id) for series, row_id in ids.items()},
            histories.select_judged(tx, ids),
            {series for series, row_id in ids.items() if histories.is_repeating(row_id)},
            {series for series, row_id in ids.items() if not collect_readings(histories.points[row_id])},
            histories.summaries,
        )

    def find_change_points(
        self, policy: Policy, cache: SegmentationCache | None = None
    ) -> dict[Series, list[ChangePoint]]:
        """The change points by series; informational metrics and series outside the policy have none."""
        judged = {series: self.levels_by_series[series] for series in self.judged if policy.is_judged(series)}
        measured = {series: levels for series, levels in judged.items() if series not in self.summary_only}
        summarised = {series: levels for series, levels in judged.items() if series in self.summary_only}
        return (
            {series: [] for series in sorted(self.levels_by_series, key=lambda series: series.label)}
            | find_change_points_of_levels(
                measured, self.repeating.__contains__, rules=policy.rule_for, cache=cache
            )
            | segment_histories(summarised, rules=policy.rule_for, cache=cache)
        )


def update_change_points(
    tx: Transaction,
    project: str,
    series_ids: Collection[int],
    policy: Policy,
    cache: SegmentationCache = SEGMENTATION_CACHE,
) -> dict[Series, list[ChangePoint]]:
    """Derive and store the change points of these series, with the summaries computed on the way."""
    histories = SeriesHistories.load(tx, series_ids)
    changes = histories.find_change_points(policy, cache)
    save_result_summaries(tx, histories.summaries)
    save_change_points(tx, project, changes)
    return changes
