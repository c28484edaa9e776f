"""The rows of separate runs: all of a comparison as columns, and those that are shown."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfci.history.comparisons.run_level_columns import RunLevels
from perfci.history.comparisons.series_columns import Column, SeriesColumns
from perfci.history.point_columns import STATUS_CODES, STATUS_OF_CODE
from perfci.model import ChangePoint, Series, Status
from perfci.report.comparisons.comparison_rows import NOT_MEASURED, ComparisonRow, SideLevel
from perfci.report.comparisons.row_table import (
    RowTable,
    SeparateLevels,
    read_separate_levels,
)

ABSENT, SKIPPED = 255, STATUS_CODES[Status.SKIPPED]
"""Codes of the status of a side: one that did not measure a series has none."""


class SidesOfSeries:
    """What the series of a project came to at two sides, by place."""

    def __init__(self, series: SeriesColumns, base: RunLevels, head: RunLevels) -> None:
        self.series = series
        self._others = (base.others, head.others)
        self.levels = np.full((2, len(series.ids)), np.nan)
        self.statuses = np.full((2, len(series.ids)), ABSENT, np.uint8)
        for side, runs in enumerate((base, head)):
            self.levels[side, runs.places] = runs.rows["level"]
            self.statuses[side, runs.places] = runs.rows["status"]

    @property
    def measured(self) -> Column:
        """The places of the series that a side measured."""
        return np.flatnonzero((self.statuses != ABSENT).any(axis=0))

    def find_levels(self, series: Series) -> tuple[SideLevel, SideLevel]:
        """What a series came to at both sides."""
        place = self.series.places.get(series)
        if place is None:
            return NOT_MEASURED, NOT_MEASURED
        return self.build_level(0, place), self.build_level(1, place)

    def build_level(self, side: int, place: int) -> SideLevel:
        """What the series at a place came to at one side."""
        if self.statuses[side, place] == ABSENT:
            return NOT_MEASURED
        level, other = float(self.levels[side, place]), self._others[side].get(place)
        status = STATUS_OF_CODE[int(self.statuses[side, place])]
        return SideLevel(None if math.isnan(level) else level, status, other.reason if other else "")


@dataclass(frozen=True, slots=True, eq=False)
class SeparateRows:
    """The rows of separate runs, by the places of the series at base and at head; -1 where a side has none.

    ``changes`` are the change points between exactly the two commits, ``noise`` is that of each row.
    """

    sides: SidesOfSeries
    base: Column
    head: Column
    noise: Column
    is_context: Column
    changes: Mapping[Series, ChangePoint]

    @classmethod
    def join(
        cls,
        sides: SidesOfSeries,
        keys: Column,
        *,
        judged: Column,
        decided: Collection[Series],
        changes: Mapping[Series, ChangePoint],
        noise: Column,
    ) -> SeparateRows:
        """Join the series of two sides by their ``keys``; those that are decided are left out."""
        at_base, at_head = (np.flatnonzero(statuses != ABSENT) for statuses in sides.statuses)
        place_at_base = dict(zip(keys[at_base].tolist(), at_base.tolist(), strict=True))
        matches = [place_at_base.get(key, -1) for key in keys[at_head].tolist()]
        only_base = at_base[~np.isin(keys[at_base], keys[at_head])]
        base = np.concatenate([np.array(matches, np.int64), only_base])
        head = np.concatenate([at_head, np.full(len(only_base), -1)])
        shown = np.where(head >= 0, head, base)
        left = np.isin(shown, [sides.series.places.get(series, -1) for series in decided], invert=True)
        base, head, shown = base[left], head[left], shown[left]
        both = noise[np.where(base >= 0, base, shown)], noise[shown]
        return cls(sides, base, head, np.sqrt((both[0] ** 2 + both[1] ** 2) / 2), ~judged[shown], changes)

    @property
    def shown(self) -> Column:
        """The place of the series that each row is named by."""
        return np.where(self.head >= 0, self.head, self.base)

    @property
    def columns(self) -> Column:
        """The columns of a table of these rows."""
        series, shown = self.sides.series, self.shown
        ratios = np.full(len(series.ids), np.nan)
        for item, change in self.changes.items():
            ratios[series.places[item]] = 1 + change.relative_change
        levels, statuses = zip(*(self._read_side(side) for side in (0, 1)), strict=True)
        is_gone = [np.isin(status, (ABSENT, SKIPPED)) for status in statuses]
        return read_separate_levels(
            SeparateLevels(
                labels=series.labels[shown],
                places=series.machines[shown] * len(series.ids) + series.variants[shown],
                cost_signs=series.cost_signs[shown],
                base=levels[0],
                head=levels[1],
                noise=self.noise,
                change_ratios=ratios[shown],
                is_context=self.is_context,
                is_unavailable=is_gone[0] & is_gone[1],
            )
        )

    def _read_side(self, side: int) -> tuple[Column, Column]:
        """Level and status of each row at one side."""
        places = (self.base, self.head)[side]
        is_there = places >= 0
        levels = np.where(is_there, self.sides.levels[side, places], np.nan)
        return levels, np.where(is_there, self.sides.statuses[side, places], ABSENT)

    def build(self, number: int) -> ComparisonRow:
        """The row of a number."""
        shown, base, head = int(self.shown[number]), int(self.base[number]), int(self.head[number])
        all_series, noise = self.sides.series.series, float(self.noise[number])
        series = all_series[shown]
        return ComparisonRow(
            series,
            all_series[base] if base >= 0 else series,
            self.sides.build_level(0, base) if base >= 0 else NOT_MEASURED,
            self.sides.build_level(1, head) if head >= 0 else NOT_MEASURED,
            change=self.changes.get(series),
            noise=None if math.isnan(noise) else noise,
            is_context=bool(self.is_context[number]),
        )


def join_rows(series: SeriesColumns, decided: Sequence[ComparisonRow], separate: SeparateRows) -> RowTable:
    """The table of the rows of verdicts and of separate runs."""
    table = RowTable.from_rows(decided)
    places = np.array([series.places[row.series] for row in decided], np.int64)
    table.columns["label"] = series.labels[places]
    table.columns["place"] = series.machines[places] * len(series.ids) + series.variants[places]

    def build(numbers: Sequence[int]) -> list[ComparisonRow]:
        first = len(decided)
        return [decided[each] if each < first else separate.build(each - first) for each in numbers]

    all_series = series.series
    return RowTable(
        np.concatenate([table.columns, separate.columns]),
        [*table.series, *(all_series[place] for place in separate.shown.tolist())],
        build,
    )
