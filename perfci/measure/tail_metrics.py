"""Tails as metrics of their own (``[run] tails``), so that histories of them have change points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from perfci.model import Clock, Measured, Process, Series, Status
from perfci.verdicts.compare.tail_shift import compute_process_tail

CLOCKS_WITH_TAILS = frozenset({Clock.WALL, Clock.CPU, Clock.DEVICE, Clock.VALUE})
"""What is judged by statistics: an exact count has no tail, and what is informational is judged by none."""


def add_tail_metrics(
    measured: Sequence[Measured], is_recorded: Callable[[Series], bool] = lambda series: False
) -> list[Measured]:
    """What one process gave, and the tail of each metric with enough samples, unless it gave that itself.

    The tail of ``time`` is the metric ``time_p90`` with one sample, the quantile of the process. A process
    that failed has failed tails where ``is_recorded`` says that others of the session have them: without, a
    head that fails would pass for one whose tail was not measured.
    """
    given_series = {series for series, _ in measured}
    tails = [tail for series, process in measured if (tail := _derive_tail(series, process, is_recorded))]
    return [*measured, *(tail for tail in tails if tail[0] not in given_series)]


def _derive_tail(series: Series, process: Process, is_recorded: Callable[[Series], bool]) -> Measured | None:
    if process.clock not in CLOCKS_WITH_TAILS or process.status is Status.SKIPPED:
        return None
    metric = series.metric
    tail_series = replace(series, metric=replace(metric, name=f"{metric.name}_{metric.tail_name}"))
    if process.status is not Status.OK:
        return (tail_series, process) if is_recorded(tail_series) else None
    value = compute_process_tail(process.samples, metric.cost_sign)
    return None if value is None else (tail_series, replace(process, samples=(value,)))
