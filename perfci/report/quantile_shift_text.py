"""Format quantile shift curves for a terminal: a line per series, a column per decile."""

from __future__ import annotations

from collections.abc import Sequence

from perfci.number_format import format_signed_percent
from perfci.report.escaping import make_printable
from perfci.report.text_table import align_table
from perfci.verdicts.compare.quantile_shift_curve import QUANTILES, QuantileShift, QuantileShiftCurve

MOVED_MARK = "*"


def format_quantile_shifts(curves: Sequence[QuantileShiftCurve]) -> str:
    """Format the change of every decile; a star marks those whose interval excludes no change."""
    if not curves:
        return "quantile shifts: no metric has ten samples in each of two processes a side"
    headings = ["quantile shifts", *(f"p{round(100 * quantile)}" for quantile in QUANTILES)]
    rows = [
        [make_printable(curve.series.label), *(_format_shift(shift) for shift in curve.shifts)]
        for curve in curves
    ]
    note = f"{MOVED_MARK} moved: all nine intervals of a line hold together with 95 %"
    return f"{align_table(headings, rows)}\n{note}\n"


def _format_shift(shift: QuantileShift) -> str:
    moved = shift.interval.lo > 1 or shift.interval.hi < 1
    return format_signed_percent(shift.ratio - 1) + (MOVED_MARK if moved else " ")
