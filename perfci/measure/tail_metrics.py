"""Tails as metrics of their own (``[run] tails``), so that histories of them have change points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perfci.model import Clock, Measured, Process, Series, Status
from perfci.verdicts.compare.tail_shift import process_tail

CLOCKS_WITH_TAILS = frozenset({Clock.WALL, Clock.CPU, Clock.DEVICE, Clock.VALUE})
"""What is judged by statistics: an exact count has no tail, and what is informational is judged by none."""


def add_tail_metrics(measured: Sequence[Measured]) -> list[Measured]:
    """What one process gave, and the tail of each metric with enough samples, unless it gave that itself.

    The tail of ``time`` is the metric ``time_p90`` with one sample, the quantile of the process.
    """
    given_series = {series for series, _ in measured}
    tails = [tail for series, process in measured if (tail := _derive_tail(series, process))]
    return [*measured, *(tail for tail in tails if tail[0] not in given_series)]


def _derive_tail(series: Series, process: Process) -> Measured | None:
    if process.status is not Status.OK or process.clock not in CLOCKS_WITH_TAILS:
        return None
    metric = series.metric
    value = process_tail(process.samples, metric.cost_sign)
    if value is None:
        return None
    tail = replace(metric, name=f"{metric.name}_{metric.tail_name}")
    return replace(series, metric=tail), replace(process, samples=(value,))
