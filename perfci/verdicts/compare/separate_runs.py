"""Comparison of a head's runs with recent runs of the main branch, which were not measured side by side.

Nothing cancels what a day does to a run, so the noise between runs of the main branch at their present level
is the noise of a new run. Runs count only where the same was observed of the environment.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from perfci.model import (
    Clock,
    Environment,
    EnvironmentChange,
    Interval,
    Process,
    Series,
    Stage,
    Status,
    Verdict,
    VerdictKind,
)
from perfci.number_format import format_percent
from perfci.stats.location_shift import Shift
from perfci.stats.shift_between_runs import (
    MIN_BASE_RUNS,
    RunNoise,
    are_runs_apart,
    estimate_shift_between_runs,
)
from perfci.stats.statistical_power import minimum_detectable_effect
from perfci.verdicts.compare.decision_limits import ComparisonCase
from perfci.verdicts.compare.nonstatistical_verdict import nonstatistical_verdict, note_left_out_processes
from perfci.verdicts.compare.reason_text import format_percent_change
from perfci.verdicts.comparison_rule import MOVE_KINDS, Rule
from perfci.verdicts.environment_changes import MAX_CHANGE_SHARE, diff_environments

MAX_BASE_RUNS = 30
"""Recent runs that are compared with: older ones say less of today's machine, and thirty leave the noise
uncertain by an eighth."""

MAX_DIFFERENCES_SHOWN = 3

MAX_LOG_RATIO = 700.0
"""Largest logarithm whose ratio is a float64."""


@dataclass(frozen=True, slots=True)
class UploadedResult:
    """One upload of a series in one run: its level, or how it failed.

    ``repeats_exactly`` says that all its samples are one exact value.
    """

    id: int
    status: Status
    level: float | None = None
    repeats_exactly: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """What one run measured of a series at one commit, in one environment, in all its uploads."""

    sha: str
    started_at: datetime
    environment: Environment
    results: tuple[UploadedResult, ...]

    @property
    def levels(self) -> list[float]:
        """The levels of its uploads."""
        return [result.level for result in self.results if result.level is not None]


def select_runs_of_same_environment(
    base: Sequence[RecordedRun], head: Sequence[RecordedRun]
) -> tuple[list[RecordedRun], tuple[EnvironmentChange, ...]]:
    """Select the runs of the main branch in which the same was observed as in the head's newest run.

    What changes at more than one boundary in five of the main branch by itself (a host name, a timestamp) is
    part of the noise between its runs. Where no run is left, also return what differs from the newest.
    """
    if not base or not head:
        return list(base), ()
    changes = Counter(
        change.name
        for before, after in pairwise(run.environment for run in base)
        if before != after
        for change in diff_environments(before, after)
    )
    limit = max(1.0, MAX_CHANGE_SHARE * (len(base) - 1))

    def differences(run: RecordedRun) -> tuple[EnvironmentChange, ...]:
        observed = diff_environments(run.environment, head[-1].environment)
        return tuple(change for change in observed if changes[change.name] <= limit)

    same = [run for run in base if not differences(run)]
    return same, () if same else differences(base[-1])


def separate_runs_verdict(
    series: Series,
    base_sha: str,
    head_sha: str,
    base: Sequence[RecordedRun],
    head: Sequence[RecordedRun],
    *,
    rule: Rule | None = None,
) -> Verdict:
    """Verdict on the head's runs against those of the main branch, both in the order of time."""
    rule = rule or Rule()
    same, differences = select_runs_of_same_environment(base, head)
    base_processes, head_processes = _as_processes(same), _as_processes(head)
    if rule.floor and (levels := [level for run in same for level in run.levels]):
        rule = rule.raise_bar_to_floor(sorted(levels)[len(levels) // 2])
    case = ComparisonCase(series, base_sha, head_sha, Stage.SEPARATE_RUNS, rule)
    if differences:
        return case.make_verdict(VerdictKind.NOT_COMPARABLE, _describe_differences(differences))
    special = nonstatistical_verdict(case, base_processes, head_processes)
    if special is not None:
        return special
    measured = [run for run in same if run.levels]
    if len(measured) < MIN_BASE_RUNS:
        return case.make_verdict(VerdictKind.INCONCLUSIVE, _describe_short_history(measured))
    verdict = _statistical_verdict(case, measured, [run for run in head if run.levels])
    return note_left_out_processes(verdict, base_processes, head_processes)


def _as_processes(runs: Sequence[RecordedRun]) -> list[Process]:
    """Uploads as processes of one value each, for the rules that look at no noise."""
    processes = []
    for index, result in enumerate(result for run in runs for result in run.results):
        clock = Clock.EXACT if result.repeats_exactly else Clock.VALUE
        samples = () if result.level is None else (result.level,)
        if result.status is not Status.OK or samples:
            processes.append(
                Process(index, status=result.status, samples=samples, clock=clock, reason=result.reason)
            )
    return processes


def _statistical_verdict(
    case: ComparisonCase, base: Sequence[RecordedRun], head: Sequence[RecordedRun]
) -> Verdict:
    sign = case.series.metric.cost_sign
    costs = [[[sign * math.log(level) for level in run.levels] for run in side] for side in (base, head)]
    shift, noise = estimate_shift_between_runs(*costs)
    kind = case.limits.classify(shift)
    is_within_range = kind in MOVE_KINDS and not are_runs_apart(*costs)
    more: int | None = 0
    if is_within_range or kind is VerdictKind.INCONCLUSIVE:
        kind, more = VerdictKind.INCONCLUSIVE, _estimate_more_runs(case, shift, noise, costs)
    low, high = sorted(sign * bound for bound in shift.bounds())
    level = math.exp(sign * sum(sum(run) / len(run) for run in costs[0]) / len(base))
    ratio = math.exp(sign * shift.centre)
    interval = Interval(_exp(low), _exp(high))
    reason = _format_reason(case, kind, base, head, (ratio, interval.lo, interval.hi))
    reason += f" {_format_open_question(case, shift, noise, is_within_range, more)}" if more != 0 else ""
    limits = case.limits
    return case.make_verdict(
        kind,
        reason,
        ratio=ratio,
        interval=interval,
        base_level=level,
        head_level=level * ratio,
        mde=_exp(minimum_detectable_effect(shift.error, shift.df, limits.bar, limits.null)) - 1,
        pairs_to_decide=more,
        p_value=shift.p_value(limits.null),
    )


def _exp(log_ratio: float) -> float:
    """The ratio of a logarithm; one beyond all numbers is as good as the largest."""
    return math.exp(min(log_ratio, MAX_LOG_RATIO))


def _estimate_more_runs(
    case: ComparisonCase, shift: Shift, noise: RunNoise, costs: Sequence[Sequence[Sequence[float]]]
) -> int | None:
    """Further runs of the head that would probably decide; None where none would."""
    limits, distance = case.limits, abs(shift.centre)
    if limits.is_near_bar(shift):
        return None
    width = distance - limits.null if distance >= limits.bar else limits.equivalence - distance
    return noise.runs_to_decide(len(costs[0]), [len(run) for run in costs[1]], width)


def _format_reason(
    case: ComparisonCase,
    kind: VerdictKind,
    base: Sequence[RecordedRun],
    head: Sequence[RecordedRun],
    ratios: tuple[float, float, float],
) -> str:
    """``+12.0 % in 1 run against 30 of main in 12 days, interval +4.1 % to +20.7 %: beyond ...``"""
    change, low, high = map(format_percent_change, ratios)
    days = (base[-1].started_at.date() - base[0].started_at.date()).days + 1
    text = (
        f"{change} in {_count(len(head), 'run')} against {len(base)} of the main branch in "
        f"{_count(days, 'day')}, interval {low} to {high}: "
    )
    threshold = f"the threshold of {format_percent(case.rule.bar)}{case.rule.subject_phrase}"
    if kind is VerdictKind.UNCHANGED:
        return f"{text}inside {threshold} either way."
    if kind is VerdictKind.INCONCLUSIVE:
        return f"{text}neither beyond {threshold} nor inside it."
    return f"{text}beyond {threshold}, and {'all' if case.rule.strict else 'half'} of it is excluded."


def _format_open_question(
    case: ComparisonCase, shift: Shift, noise: RunNoise, is_within_range: bool, more: int | None
) -> str:
    """What would decide an inconclusive verdict, or why more runs of the head would not."""
    if is_within_range:
        return "Runs of the main branch lie as far out."
    if case.limits.is_near_bar(shift):
        return "Too close to the threshold for more runs of the head to decide."
    if more is not None:
        return f"About {_count(more, 'more run')} of the head would decide."
    spread = math.expm1(math.sqrt(noise.variance))
    return f"Runs differ by {format_percent(spread)} by themselves, too much for more of them to decide."


def _describe_differences(differences: Sequence[EnvironmentChange]) -> str:
    shown = [
        f"{change.name} {change.before or 'unknown'} became {change.after or 'unknown'}"
        for change in differences[:MAX_DIFFERENCES_SHOWN]
    ]
    more = len(differences) - len(shown)
    rest = f" and {more} more" if more else ""
    return (
        f"No run of the main branch had the environment of the head: {', '.join(shown)}{rest}. "
        "Upload runs of the main branch from it."
    )


def _describe_short_history(runs: Sequence[RecordedRun]) -> str:
    missing = MIN_BASE_RUNS - len(runs)
    return (
        f"{_count(len(runs), 'run')} of the main branch in this environment since its level last changed, "
        f"and {MIN_BASE_RUNS} show what is noise: {_count(missing, 'more run')} of it would tell."
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"
