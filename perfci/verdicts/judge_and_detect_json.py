"""The statistics as filters from JSON to JSON: `perfci judge --json` and `perfci detect --json`."""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from perfci.model import MetricClass, PerfciError, VerdictKind
from perfci.stats.group_sequential import ALPHA
from perfci.stats.incremental_segmentation import detect_change_points_in_many
from perfci.stats.location_estimates import Floats
from perfci.stats.location_shift import NoisePrior, Shift, shrink_standard_error
from perfci.stats.multiple_comparisons import benjamini_hochberg
from perfci.stats.step_size import LevelStep
from perfci.stats.warmup_length import warmup_length
from perfci.verdicts.compare.decision_limits import DecisionLimits
from perfci.verdicts.compare.noise_prior import PairNoise, pooled_noise_prior
from perfci.verdicts.compare.paired_log_costs import PairedLogCosts
from perfci.verdicts.compare.pooled_verdict import (
    PooledVerdict,
    convert_to_benchmark_shifts,
    pooled_verdict_of_benchmarks,
)
from perfci.verdicts.compare.stopping_rule import plan_next_pairs
from perfci.verdicts.compare.tail_shift import classify_tail, tail_log_costs
from perfci.verdicts.comparison_rule import MOVE_KINDS, Rule

Document = dict[str, Any]

MAX_LOG_RATIO = math.log(sys.float_info.max)
"""Values further apart than this have no ratio that a number can express."""

MAX_PAIRS_CAP = 10_000
"""Largest ``max_pairs``: far beyond what anybody measures, and its looks are still planned at once."""

INVALID_INPUT = (KeyError, TypeError, ValueError, OverflowError)
"""What reading an invalid case raises; OverflowError is an integer beyond all floats."""


def judge_cases_json(document: Mapping[str, Any]) -> Document:
    """Answer ``compare`` or ``decide`` for every case; an invalid case gets an error of its own."""
    operation = document.get("op", "compare")
    if operation not in ("compare", "decide"):
        raise PerfciError(f'expected "op" to be "compare" or "decide", found {operation!r}')
    documents = _require_list(document, "cases")
    rule = Rule(bar=_require_share(document, "min_effect", 0.05), max_pairs=_require_max_pairs(document))
    cases = [_parse_case(case) for case in documents]
    if operation == "decide":
        priors = _noise_priors(cases, initial_pairs=rule.looks[0])
        return {
            "results": [
                case if isinstance(case, dict) else _answer_decide(case, rule, priors[k])
                for k, case in enumerate(cases)
            ]
        }
    own_shifts = {
        k: case.costs.estimate_shift() for k, case in enumerate(cases) if isinstance(case, ParsedCase)
    }
    priors = _noise_priors(cases, own_shifts)
    shifts = {
        k: shift if (prior := priors[k]) is None else shrink_standard_error(shift, prior)
        for k, shift in own_shifts.items()
    }
    return {"results": _compare_cases(cases, shifts, rule), **_serialize_pools(cases, shifts, rule)}


def detect_change_points_json(document: Mapping[str, Any]) -> Document:
    """Detect the change points of every series; an invalid series gets an error of its own.

    Values must be positive unless ``min_effect`` is 0, where every change counts and no ratio is
    needed.
    """
    series = _require_list(document, "series")
    min_effect = _require_share(document, "min_effect", 0.05)
    parsed = [_parse_series(item, require_positive=min_effect > 0) for item in series]
    valid = {k: values for k, values in enumerate(parsed) if not isinstance(values, dict)}
    steps = dict(zip(valid, detect_change_points_in_many(list(valid.values()), min_effect), strict=True))
    return {
        "results": [
            values
            if isinstance(values, dict)
            else {"id": series[k].get("id"), "change_points": [_serialize_step(step) for step in steps[k]]}
            for k, values in enumerate(parsed)
        ]
    }


def _serialize_step(step: LevelStep) -> Document:
    """A step with its size after / before - 1 and the 95 % interval of that; None where the level before is
    zero or less, of which nothing is a share."""
    size = step.relative_change if step.before > 0 else math.inf
    return {
        "index": step.index,
        "rel": size if math.isfinite(size) else None,
        "before": step.before,
        "after": step.after,
        "rel_ci": None if step.lower is None else [step.lower, step.upper],
    }


def _compare_cases(
    cases: Sequence[Document | ParsedCase], shifts: Mapping[int, Shift], rule: Rule
) -> list[Document]:
    """Screening and confirmation of every case; noise priors and false-discovery control act inside
    a group only."""
    answers = [
        case if isinstance(case, dict) else _answer_compare(case, shifts[k], rule)
        for k, case in enumerate(cases)
    ]
    for members in _group_cases(cases).values():
        tested = [answers[k]["p_value"] for k in members]
        for k, accepted in zip(members, benjamini_hochberg(tested), strict=True):
            if not accepted and answers[k]["verdict"] in MOVE_KINDS:
                answers[k] |= {"confident": False, "verdict": VerdictKind.INCONCLUSIVE.value}
    return answers


class ParsedCase:
    """One case: the samples of its sides and their log levels, its A/A history, and its group."""

    __slots__ = ("aa_log_ratios", "costs", "group", "id", "samples")

    def __init__(self, case: Mapping[str, Any]) -> None:
        self.id = _require_name(case, "id")
        self.group = _require_name(case, "group")
        self.aa_log_ratios = [float(ratio) for ratio in case.get("aa") or ()]
        if not all(map(math.isfinite, self.aa_log_ratios)):
            raise ValueError('expected finite numbers in "aa"')
        if any(abs(ratio) >= MAX_LOG_RATIO for ratio in self.aa_log_ratios):
            raise ValueError('expected log ratios such as 0.02 in "aa"')
        self.costs = _parse_sides(case["base"], case["head"])
        self.samples = case["base"], case["head"]


def _parse_case(case: Mapping[str, Any]) -> Document | ParsedCase:
    try:
        return ParsedCase(case)
    except INVALID_INPUT as wrong:
        return _error_result(case, wrong)


def _parse_sides(base: Sequence[Sequence[float]], head: Sequence[Sequence[float]]) -> PairedLogCosts:
    for name, side in (("base", base), ("head", head)):
        if not isinstance(side, list) or not all(isinstance(process, list) for process in side):
            raise ValueError(f'expected a list of processes, each a list of samples, in "{name}"')
        if not side or not all(side):
            raise ValueError(f'expected processes with samples in "{name}", found an empty list')
        if not all(math.isfinite(sample) and sample > 0 for process in side for sample in process):
            raise ValueError(f'expected positive finite numbers in "{name}"')
    # of unequal length they cannot be pairs, so the sides are compared as a whole
    cut = warmup_length([*base, *head])
    sides = [_log_levels(side, cut) for side in (base, head)]
    _require_common_range(np.concatenate(sides))
    return PairedLogCosts(sides[0], sides[1], 1.0, is_paired=len(base) == len(head))


def _log_levels(side: Sequence[Sequence[float]], warmup: int) -> Floats:
    """Median of every process as a logarithm, vectorised where all have the same number of samples."""
    # the median of two values near the largest float is infinite, which is refused later
    with np.errstate(over="ignore"):
        if len({len(process) for process in side}) == 1:
            levels = np.median(np.asarray(side, dtype=float)[:, warmup:], axis=1)
        else:
            levels = np.array([np.median(process[warmup:]) for process in side])
    return np.asarray(np.log(levels))


def _require_common_range(logs: Floats) -> None:
    if not np.isfinite(logs).all() or logs.max() - logs.min() >= MAX_LOG_RATIO:
        raise ValueError("expected values close enough for a ratio, found some too far apart for any number")


def _answer_compare(case: ParsedCase, shift: Shift, rule: Rule) -> Document:
    limits = DecisionLimits.from_rule(rule, case.aa_log_ratios)
    kind = limits.classify(shift)
    return {
        "id": case.id,
        "regression": limits.for_screening().classify(shift) is VerdictKind.REGRESSION,
        "confident": kind is VerdictKind.REGRESSION,
        "verdict": kind.value,
        **_serialize_shift(shift, limits.select_bounds(shift)),
        "p_value": shift.p_value(limits.null),
        "pairs": case.costs.pair_count,
        **_serialize_tail(case, limits, ALPHA),
    }


def _answer_decide(case: ParsedCase, rule: Rule, prior: NoisePrior | None) -> Document:
    limits = DecisionLimits.from_rule(rule, case.aa_log_ratios)
    more, tail = plan_next_pairs(case.costs, rule, limits, prior)
    shift = case.costs.estimate_shift(prior)
    decision = "more" if more else limits.classify(shift, tail).value
    return {
        "id": case.id,
        "decision": decision,
        **({"more_pairs": more} if more else _serialize_tail(case, limits, tail)),
        **_serialize_shift(shift, limits.select_bounds(shift, tail)),
    }


def _serialize_tail(case: ParsedCase, limits: DecisionLimits, error: float) -> Document:
    """The verdict on p90 of the samples under ``tail``; nothing where processes have too few samples."""
    costs = tail_log_costs(*case.samples, 1.0, is_paired=case.costs.is_paired)
    if costs is None:
        return {}
    tail = classify_tail(costs, limits, error)
    bounds = [tail.interval.lo, tail.interval.hi] if tail.interval else None
    return {"tail": {"quantile": "p90", "verdict": tail.kind.value, "ratio": tail.ratio, "ci": bounds}}


def _serialize_shift(shift: Shift, bounds: tuple[float, float]) -> Document:
    low, high = bounds
    # bounds that no number expresses say as little as none
    is_known = max(-low, high) < MAX_LOG_RATIO
    return {"ratio": math.exp(shift.centre), "ci": [math.exp(low), math.exp(high)] if is_known else None}


def _serialize_pools(
    cases: Sequence[Document | ParsedCase], shifts_by_case: Mapping[int, Shift], rule: Rule
) -> Document:
    """The pooled verdict of each group, every case counting once; nothing without groups."""
    shifts = {name: [shifts_by_case[k] for k in members] for name, members in _group_cases(cases).items()}
    pools = [
        _serialize_pool(
            name, pooled_verdict_of_benchmarks(convert_to_benchmark_shifts(group_shifts), rule.bar)
        )
        for name, group_shifts in shifts.items()
    ]
    return {"groups": pools} if pools else {}


def _serialize_pool(name: Any, verdict: PooledVerdict) -> Document:
    return {
        "group": name,
        "pooled": verdict.kind.value,
        "ratio": verdict.ratio,
        "ci": [verdict.interval.lo, verdict.interval.hi] if verdict.interval else None,
        "benchmarks": verdict.benchmarks,
        "bar": verdict.bar,
        "reason": verdict.reason,
    }


def _group_cases(cases: Sequence[Document | ParsedCase]) -> dict[Any, list[int]]:
    groups: dict[Any, list[int]] = defaultdict(list)
    for k, case in enumerate(cases):
        if isinstance(case, ParsedCase) and case.group is not None:
            groups[case.group].append(k)
    return groups


def _noise_priors(
    parsed_cases: Sequence[Document | ParsedCase],
    own_shifts: Mapping[int, Shift] | None = None,
    *,
    initial_pairs: int | None = None,
) -> dict[int, NoisePrior | None]:
    """Noise prior of each case, from its group and its own A/A runs.

    A/A ratios come without their number of pairs, so they count as comparisons of the case's
    present size, or of ``initial_pairs`` where the case is still growing.
    """
    priors: dict[int, NoisePrior | None] = dict.fromkeys(range(len(parsed_cases)))
    alone = [
        [k]
        for k, case in enumerate(parsed_cases)
        if isinstance(case, ParsedCase) and case.group is None and case.aa_log_ratios
    ]
    for members in (*_group_cases(parsed_cases).values(), *alone):
        cases = {k: case for k in members if isinstance(case := parsed_cases[k], ParsedCase)}
        shifts = {
            k: own_shifts[k] if own_shifts else case.costs.estimate_shift() for k, case in cases.items()
        }
        priors |= _group_noise_priors(cases, shifts, initial_pairs)
    return priors


def _group_noise_priors(
    cases: Mapping[int, ParsedCase], own_shifts: Mapping[int, Shift], initial_pairs: int | None
) -> dict[int, NoisePrior | None]:
    """Pooled priors of the cases of one group; those without A/A history share one."""
    spreads: dict[Hashable, PairNoise] = {}
    for k, case in cases.items():
        aa_runs = [(ratio, initial_pairs or case.costs.pair_count) for ratio in case.aa_log_ratios]
        if spread := PairNoise.from_shift(MetricClass.OTHER, own_shifts[k], aa_runs):
            spreads[k] = spread
    without_history = next((k for k, spread in spreads.items() if spread.aa_variance is None), None)
    shared = None if without_history is None else pooled_noise_prior(spreads, without_history)
    return {
        k: pooled_noise_prior(spreads, k) if k in spreads and spreads[k].aa_variance else shared
        for k in cases
    }


def _parse_series(series: Mapping[str, Any], *, require_positive: bool) -> Document | Floats:
    """Values of a series, shape (n,); a result with an error where they are not valid."""
    try:
        _require_name(series, "id")
        values = np.asarray(series["values"], dtype=float)
        if (
            values.ndim != 1
            or not values.size
            or not np.isfinite(values).all()
            or (require_positive and (values <= 0).any())
        ):
            raise ValueError(
                f'expected a list of {"positive " if require_positive else ""}finite numbers in "values"'
            )
        low, high = float(values.min()), float(values.max())
        if low <= 0 and values.any():
            # of zero every value is a multiple beyond all numbers, so zeros do not count
            sizes = np.abs(values[values != 0])
            low, high = float(sizes.min()), float(sizes.max())
        _require_common_range(np.log([low, high]) if high > 0 else np.zeros(1))
    except INVALID_INPUT as wrong:
        return _error_result(series, wrong)
    return values


def _error_result(item: Mapping[str, Any], error: Exception) -> Document:
    text = f"expected a field {error}, found none" if isinstance(error, KeyError) else str(error)
    if isinstance(error, OverflowError):
        text = f"expected numbers that a float can hold: {error}"
    name = item.get("id")
    # an id that is no JSON itself cannot be answered
    is_number_beyond_json = isinstance(name, float) and not math.isfinite(name)
    return {"id": None if is_number_beyond_json else name, "error": text}


def _require_name(item: Mapping[str, Any], key: str) -> str | float | None:
    """Text or a number that names something; None where there is none."""
    name = item.get(key)
    if name is not None and not isinstance(name, str | int | float):
        raise ValueError(f'expected "{key}" to be text or a number, found {type(name).__name__}')
    if isinstance(name, float) and not math.isfinite(name):
        raise ValueError(f'expected "{key}" to be text or a number, found {name}')
    return name


def _require_list(document: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
    value = document.get(key)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise PerfciError(f'expected a list of objects under "{key}", found {type(value).__name__}')
    return value


def _require_share(document: Mapping[str, Any], key: str, default: float) -> float:
    value = document.get(key, default)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= sys.float_info.max:
        raise PerfciError(f'expected "{key}" to be a share such as 0.05, found {value!r}')
    return float(value)


def _require_max_pairs(document: Mapping[str, Any]) -> int:
    value = document.get("max_pairs", 20)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_PAIRS_CAP:
        raise PerfciError(
            f'expected "max_pairs" to be a whole number from 1 to {MAX_PAIRS_CAP}, found {value!r}'
        )
    return value
