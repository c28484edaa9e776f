"""Two recorded runs, of one commit or of two: the judgement of a comparison, where nothing can be measured again.

What was recorded is looked at once, so it is held to the rule that convicts, and to the false discovery rate of all of
it together. Processes are pairs only where both runs are of one session and say which belong together: equal numbers
from two sessions mean nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from perfci.model import Process, ProcessBoundaries, Result, Run, Series, Stage, Verdict, VerdictKind
from perfci.verdicts.compare.pairwise import confirm
from perfci.verdicts.judged_series import select_judged_series
from perfci.verdicts.policy import Policy

SeriesKey = tuple[str, object, str, object]


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
    """What the runs of one commit hold, series by series; the same series in two runs is one.

    Where each side has one environment somebody chose, that may be what is compared: then it sets nothing apart.
    """
    results_by_key: dict[SeriesKey, list[Result]] = {}
    for run in runs:
        for result in run.results:
            results_by_key.setdefault(_series_key(result.series, by_variant=by_variant), []).append(result)
    return {key: _join_results(results) for key, results in results_by_key.items()}


def judge_recorded_series(
    base: Mapping[SeriesKey, RecordedSeries],
    head: Mapping[SeriesKey, RecordedSeries],
    shas: tuple[str, str],
    policy: Policy,
    *,
    one_session: bool,
) -> list[Verdict]:
    """One verdict for each series that either side has; those of the head first, in its order."""
    keys = list(dict.fromkeys([*head, *base]))
    sides = {
        key: _select_side_processes(base.get(key), head.get(key), one_session=one_session) for key in keys
    }
    series_by_key = {key: (head.get(key) or base[key]).series for key in keys}
    judged = set(
        select_judged_series(
            {series_by_key[key]: [*before, *after] for key, (before, after) in sides.items()}
        )
    )
    return [
        _judge_series(series_by_key[key], base.get(key), head.get(key), sides[key], shas, policy)
        for key in keys
        if series_by_key[key] in judged and policy.is_judged(series_by_key[key])
    ]


def _series_key(series: Series, *, by_variant: bool) -> SeriesKey:
    """All of a series but what makes two of them incomparable, which is told and not passed over."""
    variant = series.variant if by_variant else None
    return series.benchmark.name, series.parameters, series.metric.name, variant


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
    if not one_session or any(_has_duplicate_numbers(side) for side in sides):
        sides = [[replace(process, pair=None, round=None) for process in side] for side in sides]
    return sides[0], sides[1]


def _has_duplicate_numbers(side: Sequence[Process]) -> bool:
    """Whether a number stands for two processes, so that it does not say which belongs to which."""
    numbers = Counter(process.pair if process.pair is not None else process.round for process in side)
    return any(count > 1 for number, count in numbers.items() if number is not None)


def _judge_series(
    series: Series,
    base: RecordedSeries | None,
    head: RecordedSeries | None,
    sides: tuple[list[Process], list[Process]],
    shas: tuple[str, str],
    policy: Policy,
) -> Verdict:
    if base and head and (reason := _incomparable_reason(base, head)):
        return Verdict(VerdictKind.NOT_COMPARABLE, Stage.CONFIRMATION, series, *shas, reason=reason)
    unclear = [
        side.boundaries for side in (base, head) if side and side.boundaries is not ProcessBoundaries.PROCESS
    ]
    boundaries = unclear[0] if unclear and base and head else ProcessBoundaries.PROCESS
    return confirm(series, *shas, *sides, rule=policy.rule_for(series), boundaries=boundaries)


def _incomparable_reason(base: RecordedSeries, head: RecordedSeries) -> str:
    """Why the numbers of two sides say nothing about each other; empty where they may."""
    before, after = base.series, head.series
    if before.machine != after.machine:
        return f"Measured on two machines: the base on {before.machine.label}, the head on {after.machine.label}."
    if before.benchmark.version != after.benchmark.version:
        return "The benchmark itself differs: its version is not the same on both sides."
    if before.harness != after.harness:
        return f"Measured in two ways: the base by {before.harness or 'no'}, the head by {after.harness or 'no'} harness."
    if before.metric != after.metric:
        return f"The units differ: {before.metric.unit or 'none'} and {after.metric.unit or 'none'}."
    if base.summary_only or head.summary_only:
        return "Only a summary was recorded, so its processes cannot be compared."
    return ""
