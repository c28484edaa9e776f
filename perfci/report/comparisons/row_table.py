"""The rows of a comparison as columns: sorted and counted before the few that are shown are built."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from perfci.model import Series
from perfci.report.comparisons.comparison_rows import (
    LIKELY_SIGMAS,
    NEEDING_ATTENTION,
    SEVERITY,
    ComparisonRow,
    Outcome,
)
from perfci.verdicts.related_metrics import is_felt_by_users

Column = NDArray[Any]

ROW = np.dtype(
    [
        ("label", "<i8"),
        ("place", "<i8"),
        ("cost_sign", "<f8"),
        ("outcome", "u1"),
        ("is_context", "?"),
        ("explains", "?"),
        ("needs_attention", "?"),
        ("is_unavailable", "?"),
        ("has_verdict", "?"),
        ("is_quiet", "?"),
        ("ratio", "<f8"),
        ("log_ratio", "<f8"),
        ("sigmas", "<f8"),
        ("log_width", "<f8"),
    ]
)
"""What rows are sorted, filtered and counted by. ``label`` and ``place`` number names, and machines with
their variants, equal for equal ones; labels sort as names do. ``outcome`` is its place in ``SEVERITY``. What
a row does not have (a ratio, an interval) is NaN; a width is infinite of an interval that reaches zero."""

OUTCOME_CODES: Mapping[Outcome, int] = {outcome: code for code, outcome in enumerate(SEVERITY)}


@dataclass(frozen=True, slots=True, eq=False)
class RowTable:
    """The rows of a comparison; ``build`` gives those of some numbers."""

    columns: Column
    series: Sequence[Series]
    build: Callable[[Sequence[int]], list[ComparisonRow]]

    @classmethod
    def from_rows(cls, rows: Sequence[ComparisonRow]) -> RowTable:
        """The table of rows that exist."""
        labels = {label: rank for rank, label in enumerate(sorted({row.series.label for row in rows}))}
        places: dict[object, int] = {}
        columns = np.array(
            [
                _build_column(
                    row,
                    labels[row.series.label],
                    places.setdefault((row.series.machine, row.series.variant), len(places)),
                )
                for row in rows
            ],
            ROW,
        )
        return cls(
            columns, [row.series for row in rows], lambda numbers: [rows[number] for number in numbers]
        )

    def __len__(self) -> int:
        return len(self.columns)

    def __iter__(self) -> Iterator[ComparisonRow]:
        return iter(self.build(range(len(self))))

    def take(self, numbers: Column) -> RowTable:
        """The table of some rows, in this order."""
        chosen = numbers.tolist()
        return RowTable(
            self.columns[numbers],
            [self.series[number] for number in chosen],
            lambda some: self.build([chosen[number] for number in some]),
        )

    def where(self, condition: Column) -> RowTable:
        """The table of the rows that meet a condition."""
        return self.take(np.flatnonzero(condition))

    def sort(self, order: Order) -> RowTable:
        """The table in another order."""
        return self.take(ORDERS[order](self.columns))

    def list_neighbours(self, labels: Collection[int]) -> list[Series]:
        """The series that tell how to name the places of rows with some labels: one of each place, and all
        with one of these labels."""
        _, first = np.unique(self.columns["place"], return_index=True)
        named = np.flatnonzero(np.isin(self.columns["label"], list(labels)))
        return [self.series[number] for number in sorted({*first.tolist(), *named.tolist()})]


def _build_column(row: ComparisonRow, label: int, place: int) -> tuple[object, ...]:
    return (
        label,
        place,
        row.series.metric.cost_sign,
        OUTCOME_CODES[row.outcome],
        row.is_context,
        row.explains,
        row.needs_attention,
        row.is_unavailable,
        row.verdict is not None,
        row.verdict is not None and not is_felt_by_users(row.series),
        math.nan if row.ratio is None else row.ratio,
        row.log_ratio,
        row.sigmas,
        _log_width(row),
    )


def _log_width(row: ComparisonRow) -> float:
    if row.verdict is None or not row.interval:
        return math.nan
    return math.log(row.interval.hi / row.interval.lo) if row.interval.lo > 0 else math.inf


@dataclass(frozen=True, slots=True, eq=False)
class SeparateLevels:
    """The levels of separate runs, by row; one that is absent is NaN, and so is a noise that is not known.

    ``change_ratios`` are those of the change points between exactly these commits, NaN without one.
    ``is_unavailable`` tells where no side could measure it.
    """

    labels: Column
    places: Column
    cost_signs: Column
    base: Column
    head: Column
    noise: Column
    change_ratios: Column
    is_context: Column
    is_unavailable: Column


def read_separate_levels(levels: SeparateLevels) -> Column:
    """The columns of rows without a verdict, each as ``ComparisonRow`` has it."""
    columns = np.zeros(len(levels.base), ROW)
    has_change = ~np.isnan(levels.change_ratios)
    with np.errstate(all="ignore"):
        ratio = np.where(levels.base != 0, levels.head / levels.base, np.nan)
        ratio = np.where(has_change, levels.change_ratios, ratio)
        is_missing = np.isnan(ratio)
        log_ratio = np.where(is_missing, 0.0, np.where(ratio > 0, np.log(ratio), -np.inf))
        sigmas = np.abs(log_ratio) / (math.sqrt(2) * levels.noise)
    sigmas[np.isnan(levels.noise) | (log_ratio == 0)] = 0.0
    is_worse = log_ratio * levels.cost_signs > 0
    has_moved = has_change | (sigmas > LIKELY_SIGMAS)
    code = OUTCOME_CODES
    columns["outcome"] = np.select(
        [is_missing, has_moved & is_worse, has_moved, np.isnan(levels.noise) & (log_ratio != 0)],
        [
            code[Outcome.MISSING],
            code[Outcome.LIKELY_WORSE],
            code[Outcome.LIKELY_BETTER],
            code[Outcome.UNKNOWN],
        ],
        code[Outcome.WITHIN_NOISE],
    )
    columns["label"], columns["place"], columns["cost_sign"] = levels.labels, levels.places, levels.cost_signs
    columns["is_context"], columns["is_unavailable"] = levels.is_context, levels.is_unavailable
    columns["ratio"], columns["log_ratio"], columns["sigmas"] = ratio, log_ratio, sigmas
    columns["log_width"] = np.nan
    needs = np.isin(columns["outcome"], [code[outcome] for outcome in NEEDING_ATTENTION])
    needs |= is_missing & ~levels.is_unavailable
    columns["needs_attention"] = needs & ~levels.is_context
    return columns


Order = Literal["severity", "change", "name"]


def _order_by_severity(columns: Column) -> Column:
    """The worst outcome first, of equal ones what users feel, what is farthest outside its noise, and what
    moved most."""
    keys = (
        columns["label"],
        -np.abs(columns["log_ratio"]),
        -columns["sigmas"],
        columns["is_quiet"],
        columns["outcome"],
        columns["explains"],
        columns["is_context"],
    )
    return np.lexsort(keys)


def _order_by_change(columns: Column) -> Column:
    """By the size of the change, the worst first and the best last."""
    return np.lexsort((columns["label"], -columns["log_ratio"] * columns["cost_sign"]))


def _order_by_name(columns: Column) -> Column:
    return np.argsort(columns["label"], kind="stable")


ORDERS: Mapping[Order, Callable[[Column], Column]] = {
    "severity": _order_by_severity,
    "change": _order_by_change,
    "name": _order_by_name,
}
"""The orders of a table by name, the default first."""
