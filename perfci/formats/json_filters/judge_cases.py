"""The filter ``perfci judge``: comparisons of recorded samples, by themselves or in groups."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from perfci.formats.json_filters.input_documents import (
    MAX_LOG_RATIO,
    CaseDocument,
    Document,
    JudgeDocument,
    Name,
    parse_document,
    parse_items_or_errors,
    require_representable_ratio,
)
from perfci.model import MetricClass, VerdictKind
from perfci.stats.group_sequential import ALPHA
from perfci.stats.location_estimates import Floats
from perfci.stats.location_shift import NoisePrior, Shift, shrink_standard_error
from perfci.stats.multiple_comparisons import benjamini_hochberg
from perfci.stats.warmup_length import warmup_length
from perfci.verdicts.compare.decision_limits import DecisionLimits
from perfci.verdicts.compare.noise_prior import PairNoise, pooled_noise_prior
from perfci.verdicts.compare.paired_log_costs import PairedLogCosts
from perfci.verdicts.compare.pooled_verdict import convert_to_benchmark_shifts, pooled_verdict_of_benchmarks
from perfci.verdicts.compare.stopping_rule import plan_next_pairs
from perfci.verdicts.compare.tail_shift import TAIL_QUANTILE, classify_tail, quantile_log_costs
from perfci.verdicts.comparison_rule import MOVE_KINDS, Rule


@dataclass(frozen=True)
class FilterCase:
    """One case: the samples of its sides and their log levels, its A/A history, and its group."""

    id: Name
    group: Name
    aa_log_ratios: Sequence[float]
    samples: tuple[Sequence[Sequence[float]], Sequence[Sequence[float]]]
    costs: PairedLogCosts

    @classmethod
    def parse(cls, item: Document) -> FilterCase:
        """Parse a case; raises ``ValueError``."""
        case = CaseDocument.model_validate(item)
        # of unequal length they cannot be pairs, so the sides are compared as a whole
        cut = warmup_length([*case.base, *case.head])
        base, head = (_log_levels(side, cut) for side in (case.base, case.head))
        require_representable_ratio([*base, *head])
        has_single_values = all(len(process) == 1 for process in (*case.base, *case.head))
        is_paired = len(base) == len(head)
        costs = PairedLogCosts(base, head, 1.0, is_paired, has_single_values)
        return cls(case.id, case.group, case.aa or (), (case.base, case.head), costs)

    @cached_property
    def shift_of_own_samples(self) -> Shift:
        """The shift from the case's own samples alone."""
        return self.costs.estimate_shift()


Cases = Mapping[int, FilterCase]
"""Valid cases by their place in the document."""


def judge_cases_json(document: Mapping[str, Any]) -> Document:
    """Answer ``compare`` or ``decide`` for every case; an invalid case gets an error of its own."""
    request = parse_document(JudgeDocument, document)
    rule = Rule(bar=request.min_effect, max_pairs=request.max_pairs)
    cases, errors = parse_items_or_errors(request.cases, FilterCase.parse)
    answers, pools = _decide_cases(cases, rule) if request.op == "decide" else _compare_cases(cases, rule)
    answers |= errors
    return {
        "results": [answers[place] for place in range(len(answers))],
        **({"groups": pools} if pools else {}),
    }


def _log_levels(side: Sequence[Sequence[float]], warmup: int) -> Floats:
    """Median of every process as a logarithm, vectorised where all have the same number of samples."""
    # the median of two values near the largest float is infinite, which is refused later
    with np.errstate(over="ignore"):
        if len({len(process) for process in side}) == 1:
            levels = np.median(np.asarray(side, dtype=float)[:, warmup:], axis=1)
        else:
            levels = np.array([np.median(process[warmup:]) for process in side])
    return np.asarray(np.log(levels))


def _decide_cases(cases: Cases, rule: Rule) -> tuple[dict[int, Document], list[Document]]:
    """A decision for every case, or how many pairs more."""
    priors = _noise_priors(cases, initial_pairs=rule.looks[0])
    return {place: _answer_decide(case, rule, priors.get(place)) for place, case in cases.items()}, []


def _answer_decide(case: FilterCase, rule: Rule, prior: NoisePrior | None) -> Document:
    limits = DecisionLimits.from_rule(rule, case.aa_log_ratios)
    more, tail = plan_next_pairs(case.costs, rule, limits, prior)
    shift = case.costs.estimate_shift(prior)
    return {
        "id": case.id,
        "decision": "more" if more else limits.classify(shift, tail).value,
        **({"more_pairs": more} if more else _serialize_tail(case, limits, tail)),
        **_serialize_shift(shift, limits.select_bounds(shift, tail)),
    }


def _compare_cases(cases: Cases, rule: Rule) -> tuple[dict[int, Document], list[Document]]:
    """Screening and confirmation of every case, and the pooled verdict of every group.

    Noise priors and false-discovery control act inside a group only.
    """
    priors = _noise_priors(cases)
    shifts = {
        place: shrink_standard_error(case.shift_of_own_samples, priors[place])
        if place in priors
        else case.shift_of_own_samples
        for place, case in cases.items()
    }
    answers = {place: _answer_compare(case, shifts[place], rule) for place, case in cases.items()}
    pools = []
    for name, members in _group_cases(cases).items():
        p_values = [answers[place]["p_value"] for place in members]
        for place, is_accepted in zip(members, benjamini_hochberg(p_values), strict=True):
            if not is_accepted and answers[place]["verdict"] in MOVE_KINDS:
                answers[place] |= {"confident": False, "verdict": VerdictKind.INCONCLUSIVE.value}
        pools.append(_answer_group(name, [shifts[place] for place in members], rule))
    return answers, pools


def _answer_compare(case: FilterCase, shift: Shift, rule: Rule) -> Document:
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


def _serialize_tail(case: FilterCase, limits: DecisionLimits, error: float) -> Document:
    """The verdict on p90 of the samples under ``tail``; nothing where processes have too few samples."""
    costs = quantile_log_costs(*case.samples, TAIL_QUANTILE, 1.0, is_paired=case.costs.is_paired)
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


def _answer_group(name: Name, shifts: Sequence[Shift], rule: Rule) -> Document:
    """The pooled verdict of a group, every case counting as one benchmark."""
    verdict = pooled_verdict_of_benchmarks(convert_to_benchmark_shifts(shifts), rule.bar)
    return {
        "group": name,
        "pooled": verdict.kind.value,
        "ratio": verdict.ratio,
        "ci": [verdict.interval.lo, verdict.interval.hi] if verdict.interval else None,
        "benchmarks": verdict.benchmarks,
        "bar": verdict.bar,
        "reason": verdict.reason,
    }


def _group_cases(cases: Cases) -> dict[Name, list[int]]:
    """Places of the cases of each group."""
    groups: dict[Name, list[int]] = defaultdict(list)
    for place, case in cases.items():
        if case.group is not None:
            groups[case.group].append(place)
    return groups


def _noise_priors(cases: Cases, initial_pairs: int | None = None) -> dict[int, NoisePrior]:
    """Noise prior of the cases that have one, from their group and their own A/A runs.

    A/A ratios come without their number of pairs, so they count as comparisons of the case's
    present size, or of ``initial_pairs`` where the case is still growing.
    """
    alone = [[place] for place, case in cases.items() if case.group is None and case.aa_log_ratios]
    priors = {}
    for members in (*_group_cases(cases).values(), *alone):
        noises = {}
        for place in members:
            case = cases[place]
            aa_runs = [(ratio, initial_pairs or case.costs.pair_count) for ratio in case.aa_log_ratios]
            if noise := PairNoise.from_shift(MetricClass.OTHER, case.shift_of_own_samples, aa_runs):
                noises[place] = noise
        for place in noises:
            if prior := pooled_noise_prior(noises, place):
                priors[place] = prior
    return priors
