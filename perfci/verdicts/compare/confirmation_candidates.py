"""Candidates among the commits of a session measured in rounds: which steps deserve fresh pairs.

Selection is sensitive, because a change missed here is missed for good, while a false candidate
only costs the pairs that refute it. A few processes per commit suffice because the machine's drift
is estimated from neighbours in time and removed, the spread is pooled over all commits, and levels
persist, so that up to three commits a side measure a step.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfci.model import Clock, Interval, Process, Series, Stage, Verdict, VerdictKind
from perfci.number_format import format_signed_percent
from perfci.stats.commit_level_steps import (
    CommitLevels,
    CommitLevelStep,
    estimate_commit_levels,
    find_likely_step_positions,
    segment_commit_levels,
)
from perfci.stats.location_estimates import Floats
from perfci.stats.location_shift import NoisePrior
from perfci.stats.noise_floor import NORMAL_95
from perfci.stats.session_drift import DriftCorrectedValues, correct_session_drift
from perfci.stats.variance_prior import pooled_within_group_sd
from perfci.verdicts.comparison_rule import Rule, RuleLookup, default_rule
from perfci.verdicts.process_levels import process_level
from perfci.verdicts.usable_processes import select_usable_processes

SeriesProcesses = Mapping[Series, Mapping[str, Sequence[Process]]]
"""Processes of each series by sha."""
CommitPairs = Sequence[tuple[str, str]]
"""(parent, child) shas along the line."""
CANDIDATE_SIGMAS = 2.2
"""A step this many sigmas out is worth fresh pairs: an interval of about 97 % beyond no change; simulated in
docs/design/statistics.md, section 8."""

MIN_BAR_SHARE = 0.5
"""A step below half the bar would not be confirmed, so it is not worth pairs."""

NO_VALUES = DriftCorrectedValues(np.empty(0), np.empty(0))
"""Values of a commit that was not measured."""


def select_candidates(
    measured: SeriesProcesses, commit_pairs: CommitPairs, *, rules: RuleLookup = default_rule
) -> list[Verdict]:
    """Steps of the level along the line that are worth about ten fresh pairs, strongest first, each as a
    screening verdict on a commit and its parent."""
    candidates = [
        candidate
        for series, costs in _drift_corrected_costs(measured, commit_pairs).items()
        for candidate in _step_candidates(series, costs, commit_pairs, rules(series))
    ]
    candidates.sort(key=lambda item: (-item[0], item[1].series.label, item[1].head))
    return [verdict for _, verdict in candidates]


def compute_pair_noise_by_series(
    measured: SeriesProcesses, commit_pairs: CommitPairs
) -> dict[Series, NoisePrior]:
    """Standard deviation of one pair's log ratio, pooled over the commits; 0 for what repeats
    exactly."""
    order = _list_commits(commit_pairs)
    spreads = {}
    for series, by_commit in measured.items():
        sides = [_log_costs(series, select_usable_processes(by_commit.get(sha, ()))) for sha in order]
        pooled = pooled_within_group_sd([side for side in sides if np.isfinite(side).all()])
        if pooled is not None:
            spreads[series] = NoisePrior(
                math.sqrt(2) * pooled, float(sum(len(side) - 1 for side in sides if len(side)))
            )
    return spreads


def _step_candidates(
    series: Series, costs: Mapping[str, DriftCorrectedValues], commit_pairs: CommitPairs, rule: Rule
) -> list[tuple[float, Verdict]]:
    """Steps of one series, each at its commit and its likely alternatives, with their sigmas."""
    order = _list_commits(commit_pairs)
    levels = estimate_commit_levels([costs.get(sha, NO_VALUES) for sha in order])
    sign = series.metric.cost_sign
    candidates = []
    for step in segment_commit_levels(levels, penalty=CANDIDATE_SIGMAS**2):
        raised_rule = rule.raise_bar_to_floor(_level_at(levels, step.index - 1, sign))
        smallest = MIN_BAR_SHARE * math.log1p(raised_rule.bar)
        if abs(step.size) < smallest or abs(step.sigmas) < CANDIDATE_SIGMAS:
            continue
        candidates += [
            (abs(place.sigmas), _step_verdict(series, order, levels, place, rule))
            for place in (step, *find_likely_step_positions(levels, step))
        ]
    pairs = set(commit_pairs)
    return [item for item in candidates if (item[1].base, item[1].head) in pairs]


def _step_verdict(
    series: Series, order: Sequence[str], commit_levels: CommitLevels, step: CommitLevelStep, rule: Rule
) -> Verdict:
    base, head = order[step.index - 1], order[step.index]
    sign = series.metric.cost_sign
    base_level = _level_at(commit_levels, step.index - 1, sign)
    rule = rule.raise_bar_to_floor(base_level)
    low, high = sorted(math.exp(sign * (step.size + k * NORMAL_95 * step.error)) for k in (-1, 1))
    ratio = math.exp(sign * step.size)
    clear = abs(step.size) >= math.log1p(rule.bar) and abs(step.sigmas) >= NORMAL_95
    kind = VerdictKind.INCONCLUSIVE
    if clear:
        kind = VerdictKind.REGRESSION if step.size > 0 else VerdictKind.IMPROVEMENT
    change = f"{format_signed_percent(ratio - 1)} against the commits before"
    reason = f"{change}, outside noise ({abs(step.sigmas):.1f} sigma): worth an A/B rerun."
    return Verdict(
        kind,
        Stage.SCREENING,
        series,
        base,
        head,
        ratio=ratio,
        interval=Interval(low, high),
        base_level=base_level,
        head_level=None if base_level is None else base_level * ratio,
        reason=reason,
    )


def _level_at(commit_levels: CommitLevels, index: int, sign: float) -> float | None:
    level = float(commit_levels.levels[index])
    return math.exp(sign * level) if math.isfinite(level) else None


def _drift_corrected_costs(
    measured: SeriesProcesses, commit_pairs: CommitPairs
) -> dict[Series, dict[str, DriftCorrectedValues]]:
    """Log costs per series and commit without the machine's drift; without exact series and those
    with zeros."""
    order = set(_list_commits(commit_pairs))
    records = [
        _ProcessCost(series, sha, process, cost)
        for series, by_commit in measured.items()
        for sha, processes in by_commit.items()
        if sha in order
        for process, cost in _noisy_costs(series, processes)
    ]
    if not records:
        return {}
    records.sort(key=lambda record: record.measurement_order)
    cells = _number_keys((record.series, record.sha) for record in records)
    corrected = correct_session_drift(
        np.array([record.cost for record in records]),
        cells,
        _number_keys(record.series for record in records),
    )
    costs: dict[Series, dict[str, DriftCorrectedValues]] = defaultdict(dict)
    for cell in np.unique(cells):
        members = np.flatnonzero(cells == cell)
        first = records[int(members[0])]
        costs[first.series][first.sha] = DriftCorrectedValues(
            corrected.values[members], corrected.sds[members]
        )
    return costs


@dataclass(frozen=True, slots=True)
class _ProcessCost:
    series: Series
    sha: str
    process: Process
    cost: float

    @property
    def measurement_order(self) -> tuple[float, int, int]:
        started = self.process.started_at.timestamp() if self.process.started_at else 0.0
        return started, self.process.round or 0, self.process.order or 0


def _noisy_costs(series: Series, processes: Sequence[Process]) -> Iterable[tuple[Process, float]]:
    good = select_usable_processes(processes)
    if any(process.clock is Clock.EXACT for process in good):
        return ()
    costs = _log_costs(series, good)
    return zip(good, costs, strict=True) if np.isfinite(costs).all() else ()


def _log_costs(series: Series, processes: Sequence[Process]) -> Floats:
    """Log levels with positive meaning worse, shape (processes,); NaN for what has no logarithm."""
    levels = np.array([process_level(process) for process in processes], dtype=float)
    sign = series.metric.cost_sign
    return np.array([sign * math.log(level) if level > 0 else math.nan for level in levels])


def _list_commits(commit_pairs: CommitPairs) -> list[str]:
    """All commits of the line, parents before children, each once."""
    return list(dict.fromkeys(sha for pair in commit_pairs for sha in pair))


def _number_keys(keys: Iterable[object]) -> np.ndarray:
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
