"""Related metrics show one change: of those that moved one is primary, the others explain it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from perfci.model import CPU_METRIC_PREFIX, Series, Verdict, VerdictKind


@dataclass(frozen=True, slots=True)
class RelatedMetrics:
    """Metrics of one model at one point of its grid that move together when one thing changes.

    Of the ``primary`` metrics that moved the one that moved most is what a user feels, the first of equals;
    where none of them moved it is the first of ``secondary``.
    """

    name: str
    primary: tuple[str, ...]
    secondary: tuple[str, ...] = ()


RELATED_METRICS = (
    RelatedMetrics(
        "training step", ("step_time",), ("forward_time", "backward_time", "optimizer_time", "step_energy")
    ),
    RelatedMetrics(
        "request",
        ("e2el", "ttft", "tpot"),
        (
            "ttfb",
            "itl_per_token",
            "itl",
            "tpot_growth",
            "rtf",
            "goodput",
            "sla_attainment",
            "prefill",
            "decode",
            "token_energy",
        ),
    ),
    RelatedMetrics(
        "start",
        ("cold_start_time",),
        (
            "warm_start_time",
            "first_output_time",
            "compile_time",
            "build_time",
            "import_time",
            "load",
            "init",
            "first_call",
        ),
    ),
    RelatedMetrics(
        "memory",
        ("peak_allocated_bytes",),
        (
            "peak_tensor_bytes",
            "fake_peak_bytes",
            "kv_cache_bytes",
            "parameter_bytes",
            "optimizer_state_bytes",
            "peak_active_bytes",
            "peak_requested_bytes",
            "peak_reserved_bytes",
            "rounding_bytes",
        ),
    ),
    RelatedMetrics("copies", ("copied_to_device_bytes", "pageable_copy_bytes", "blocking_copy_bytes")),
    RelatedMetrics("numerics", ("loss_at_step_k",), ("grad_norm", "max_error", "max_relative_error")),
)
"""Related metrics of ``perfci.bench.ModelBench``; any other metric is related to none."""

EXPLAINING_COUNTS = frozenset({"flops", "operators", "kernel_launches", "generated_kernels", "instructions"})
"""Counts that say why something moved and are felt by nobody: they gate where a policy says so.

Graph breaks, recompiles and waits for the device are no part of it: each of them is a fault by itself.
"""

COUNT_UNITS = frozenset({"count", "FLOP", "instructions"})

Moved = TypeVar("Moved")


def metric_name_without_clock(series: Series) -> str:
    """Name of a metric whichever clock it was read from: its CPU seconds show the same change."""
    return series.metric.name.removeprefix(CPU_METRIC_PREFIX)


def is_felt_by_users(series: Series) -> bool:
    """Whether somebody notices the metric itself: time, latency and memory, not counts and what explains."""
    related = RELATED_BY_METRIC.get(metric_name_without_clock(series))
    is_secondary = related is not None and metric_name_without_clock(series) in related.secondary
    return series.metric.unit not in COUNT_UNITS and not is_secondary


def leave_out_timed_parts(candidates: Iterable[Verdict], measured: Iterable[Series]) -> list[Verdict]:
    """Leave out the parts of a whole that is measured as well: phases of a step, stages of a request.

    A part explains how its whole moved; alone it is not worth pairs of its own. Counts and bytes are certain
    at once, and a failure is no part of anything.
    """
    wholes = {key for series in measured if (key := _whole_key(series, is_whole=True))}

    def is_part(series: Series) -> bool:
        return _whole_key(series, is_whole=False) in wholes

    failed = VerdictKind.FAILED
    return [verdict for verdict in candidates if verdict.kind is failed or not is_part(verdict.series)]


def find_verdict_on_whole(part: Verdict, verdicts: Iterable[Verdict]) -> Verdict | None:
    """Find the verdict on the step or request that a timed part belongs to, read by the same clock if any.

    None where the verdict is not on a part, or its whole was not judged between the same commits.
    """
    key = _whole_key(part.series, is_whole=False)
    if key is None:
        return None
    on_wholes = [
        verdict
        for verdict in verdicts
        if _whole_key(verdict.series, is_whole=True) == key
        and (verdict.base, verdict.head) == (part.base, part.head)
    ]
    order = RELATED_BY_METRIC[metric_name_without_clock(part.series)].primary
    is_cpu = _is_cpu_time(part.series)

    def sort_key(verdict: Verdict) -> tuple[bool, int]:
        name = metric_name_without_clock(verdict.series)
        return _is_cpu_time(verdict.series) != is_cpu, order.index(name)

    return min(on_wholes, key=sort_key, default=None)


def _is_cpu_time(series: Series) -> bool:
    return series.metric.name.startswith(CPU_METRIC_PREFIX)


def _whole_key(series: Series, *, is_whole: bool) -> tuple[object, ...] | None:
    """What a whole and its timed parts share; None of a series that is not the whole, or not a part."""
    name = metric_name_without_clock(series)
    related = RELATED_BY_METRIC.get(name)
    if related is None or series.metric.unit in (*COUNT_UNITS, "bytes"):
        return None
    names = related.primary if is_whole else related.secondary
    return (*model_bench_key(series), related.name) if name in names else None


def model_bench_key(series: Series) -> tuple[object, ...]:
    """What all groups of metrics of one ModelBench share at one point of its grid on one machine."""
    owner = re.sub(r"\.measure_\w+$", "", series.benchmark.name)
    return owner, series.parameters, series.machine, series.variant, series.harness


def group_related(
    moved: Iterable[Moved], series_of: Callable[[Moved], Series], size_of: Callable[[Moved], Any]
) -> list[tuple[Moved, tuple[Moved, ...]]]:
    """Group what moved by related metrics: the primary one and the others of each group.

    ``size_of`` gives something that can be compared, of which the largest is primary.
    """
    groups: dict[object, list[Moved]] = {}
    for item in moved:
        series = series_of(item)
        related = RELATED_BY_METRIC.get(metric_name_without_clock(series))
        key: object = object() if related is None else (*model_bench_key(series), related.name)
        groups.setdefault(key, []).append(item)
    return [_split_group(group, series_of, size_of) for group in groups.values()]


RELATED_BY_METRIC = {
    metric: related for related in RELATED_METRICS for metric in (*related.primary, *related.secondary)
}


def _split_group(
    group: Sequence[Moved], series_of: Callable[[Moved], Series], size_of: Callable[[Moved], Any]
) -> tuple[Moved, tuple[Moved, ...]]:
    related = RELATED_BY_METRIC.get(metric_name_without_clock(series_of(group[0])))
    if related is None:
        return group[0], tuple(group[1:])
    order = (*related.primary, *related.secondary)
    ranked = sorted(group, key=lambda item: order.index(metric_name_without_clock(series_of(item))))
    felt = [item for item in ranked if metric_name_without_clock(series_of(item)) in related.primary]
    primary = max(felt, key=size_of) if felt else ranked[0]
    return primary, tuple(item for item in ranked if item is not primary)
