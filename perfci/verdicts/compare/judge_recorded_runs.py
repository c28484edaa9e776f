"""Comparison of recorded runs, of one commit or two, where nothing can be measured again.

Recorded pairs are tested once, so they are held to the rule of confirmation and to the false
discovery rate of all series together. Processes are pairs only where both runs belong to one
session: equal numbers from two sessions mean nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from perfci.model import Process, ProcessBoundaries, Result, Run, Series, Stage, Verdict, VerdictKind
from perfci.verdicts.compare.pairwise_verdict import confirmation_verdict
from perfci.verdicts.comparison_rule import Rule
from perfci.verdicts.judged_series import select_judged_series
from perfci.verdicts.judging_policy import Policy

SeriesKey = tuple[str, object, str, object]
"""Benchmark, parameters, metric and variant of a series."""


@dataclass(frozen=True, slots=True)
class RecordedSeries:
    """All that one side recorded of one series."""

    series: Series
    processes: tuple[Process, ...]
    boundaries: ProcessBoundaries
    summary_only: bool


def collect_recorded_series(
    runs: Iterable[Run], *, by_variant: bool = True
) -> dict[SeriesKey, RecordedSeries]:
    """Results of the runs of one commit by series; a series in two runs is joined.

    Without ``by_variant``, variants are ignored, because the chosen environments may be what is
    compared.
    """
    results_by_key: dict[SeriesKey, list[Result]] = {}
    for run in runs:
        for result in run.results:
            series = result.series
            variant = series.variant if by_variant else None
            # without what makes two series incomparable, which is reported instead
            key = series.benchmark.name, series.parameters, series.metric.name, variant
            results_by_key.setdefault(key, []).append(result)
    return {key: _join_results(results) for key, results in results_by_key.items()}


def judge_recorded_series(
    base: Mapping[SeriesKey, RecordedSeries],
    head: Mapping[SeriesKey, RecordedSeries],
    shas: tuple[str, str],
    policy: Policy,
    *,
    one_session: bool,
) -> list[Verdict]:
    """One verdict for each series of either side, in the head's order, then the base's."""
    processes: dict[Series, list[Process]] = {}
    sides: dict[Series, tuple[RecordedSeries | None, RecordedSeries | None]] = {}
    for key in dict.fromkeys([*head, *base]):
        series = (head.get(key) or base[key]).series
        sides[series] = base.get(key), head.get(key)
        processes[series] = [process for side in sides[series] if side for process in side.processes]
    return [
        _judge_series(series, *sides[series], shas, policy.rule_for(series), one_session=one_session)
        for series in select_judged_series(processes)
        if policy.is_judged(series)
    ]


def _join_results(results: Sequence[Result]) -> RecordedSeries:
    processes = tuple(process for result in results for process in result.processes)
    kinds = {result.boundaries for result in results if result.processes}
    boundaries = ProcessBoundaries.UNKNOWN if len(kinds) > 1 else next(iter(kinds), ProcessBoundaries.PROCESS)
    summarised = not processes and any(result.summary for result in results)
    return RecordedSeries(results[0].series, processes, boundaries, summarised)


def _select_side_processes(
    base: RecordedSeries | None, head: RecordedSeries | None, *, one_session: bool
) -> tuple[list[Process], list[Process]]:
    sides = [list(side.processes) if side else [] for side in (base, head)]
    is_matched = one_session
    for side in sides:
        numbers = Counter(process.pair if process.pair is not None else process.round for process in side)
        # a number that stands for two processes does not match them
        is_matched &= all(count == 1 for number, count in numbers.items() if number is not None)
    if not is_matched:
        sides = [[replace(process, pair=None, round=None) for process in side] for side in sides]
    return sides[0], sides[1]


def _judge_series(
    series: Series,
    base: RecordedSeries | None,
    head: RecordedSeries | None,
    shas: tuple[str, str],
    rule: Rule,
    *,
    one_session: bool,
) -> Verdict:
    boundaries = ProcessBoundaries.PROCESS
    if base and head:
        if reason := _incomparable_reason(base, head):
            return Verdict(VerdictKind.NOT_COMPARABLE, Stage.CONFIRMATION, series, *shas, reason=reason)
        boundaries = head.boundaries if base.boundaries is ProcessBoundaries.PROCESS else base.boundaries
    sides = _select_side_processes(base, head, one_session=one_session)
    return confirmation_verdict(series, *shas, *sides, rule=rule, boundaries=boundaries)


def _incomparable_reason(base: RecordedSeries, head: RecordedSeries) -> str:
    """Why two sides cannot be compared; empty where they can."""
    before, after = base.series, head.series
    if before.machine != after.machine:
        machines = f"the base on {before.machine.label}, the head on {after.machine.label}"
        return f"Measured on two machines: {machines}."
    if before.benchmark.version != after.benchmark.version:
        return "The benchmark itself differs: its version is not the same on both sides."
    if before.harness != after.harness:
        base_harness, head_harness = before.harness or "no", after.harness or "no"
        return f"Measured in two ways: the base by {base_harness}, the head by {head_harness} harness."
    if before.metric != after.metric:
        return f"The units differ: {before.metric.unit or 'none'} and {after.metric.unit or 'none'}."
    if base.summary_only or head.summary_only:
        return "Only a summary was recorded, so its processes cannot be compared."
    return ""
