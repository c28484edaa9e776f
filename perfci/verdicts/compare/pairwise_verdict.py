"""Comparison of base and head: from the processes of two commits to one verdict.

Screening is sensitive and only selects candidates; confirmation uses fresh pairs and is the only
verdict that turns a check red; interim analyses buy pairs step by step until the question is
settled. The rules are those of docs/design/statistics.md, section 4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from perfci.model import Interval, Process, ProcessBoundaries, Series, Stage, Verdict, VerdictKind
from perfci.stats.group_sequential import ALPHA
from perfci.stats.location_shift import NoisePrior, Shift
from perfci.stats.noise_floor import compute_noise_floor, scale_aa_log_ratios
from perfci.stats.statistical_power import minimum_detectable_effect
from perfci.verdicts.compare.decision_limits import ComparisonCase, DecisionLimits
from perfci.verdicts.compare.noise_prior import PRIOR_DF
from perfci.verdicts.compare.nonstatistical_verdict import nonstatistical_verdict, note_left_out_processes
from perfci.verdicts.compare.paired_log_costs import PairedLogCosts
from perfci.verdicts.compare.reason_text import describe_coarse_clock, describe_modes, format_reason
from perfci.verdicts.compare.stopping_rule import plan_next_pairs
from perfci.verdicts.compare.tail_shift import describe_tail, judge_tail
from perfci.verdicts.comparison_rule import Rule
from perfci.verdicts.process_levels import steady_level


def screening_verdict(
    series: Series,
    base_sha: str,
    head_sha: str,
    base: Sequence[Process],
    head: Sequence[Process],
    *,
    rule: Rule | None = None,
    prior_sd: float | None = None,
) -> Verdict:
    """Screening verdict: a move where the estimate passes the bar and the interval excludes no
    change."""
    prior = NoisePrior(prior_sd, PRIOR_DF) if prior_sd else None
    case = ComparisonCase(
        series, base_sha, head_sha, Stage.SCREENING, _rule_at_level(rule, base), prior=prior
    )
    return nonstatistical_verdict(case, base, head) or _statistical_verdict(
        case, base, head, case.limits.for_screening()
    )


def confirmation_verdict(
    series: Series,
    base_sha: str,
    head_sha: str,
    base: Sequence[Process],
    head: Sequence[Process],
    *,
    rule: Rule | None = None,
    boundaries: ProcessBoundaries = ProcessBoundaries.PROCESS,
) -> Verdict:
    """Confirmation verdict, on pairs that no earlier look has seen."""
    case = ComparisonCase(series, base_sha, head_sha, Stage.CONFIRMATION, _rule_at_level(rule, base))
    return nonstatistical_verdict(case, base, head, boundaries) or _statistical_verdict(
        case, base, head, case.limits
    )


@dataclass(frozen=True, slots=True)
class Look:
    """Result of one interim analysis: the verdict, how many pairs to buy next, and the statistics
    behind both.

    ``tail`` is what the interval of this look leaves out on either side; ``own_shift`` is the shift
    from the pairs alone, ``shrunk_shift`` the one judged, shrunk towards the noise prior. All are absent
    where the verdict needs no statistics.
    """

    verdict: Verdict
    pairs_to_buy: int = 0
    tail: float | None = None
    own_shift: Shift | None = None
    shrunk_shift: Shift | None = None


def interim_analysis(
    series: Series,
    base_sha: str,
    head_sha: str,
    base: Sequence[Process],
    head: Sequence[Process],
    *,
    rule: Rule | None = None,
    aa_runs: Sequence[tuple[float, int]] = (),
    prior: NoisePrior | None = None,
    stage: Stage = Stage.SCREENING,
) -> Look:
    """Verdict so far and how many more pairs to buy; 0 when settled, or when nothing would settle
    it.

    All looks together keep the error of a single one. Looks are planned, so repeating an analysis
    gives the same answer. ``aa_runs`` are (log ratio, pairs) of A/A runs. On pairs that no earlier
    look has seen, ``stage`` is confirmation.
    """
    case = ComparisonCase(series, base_sha, head_sha, stage, _rule_at_level(rule, base), prior=prior)
    special = nonstatistical_verdict(case, base, head)
    if special is not None:
        return Look(special)
    sides = PairedLogCosts.from_processes(series, base, head)
    case = replace(case, aa_log_ratios=scale_aa_log_ratios(aa_runs, sides.pair_count))
    more, tail = plan_next_pairs(sides, case.rule, case.limits, prior)
    return Look(
        _statistical_verdict(case, base, head, case.limits, tail),
        more,
        tail,
        sides.estimate_shift(),
        sides.estimate_shift(prior),
    )


def _rule_at_level(rule: Rule | None, base: Sequence[Process]) -> Rule:
    rule = rule or Rule()
    return rule.raise_bar_to_floor(steady_level(base)) if rule.floor else rule


def _statistical_verdict(
    case: ComparisonCase,
    base: Sequence[Process],
    head: Sequence[Process],
    limits: DecisionLimits,
    tail: float = ALPHA,
) -> Verdict:
    """Verdict by the interval of the shift.

    Its p-value covers all looks: the smallest error with which this look would have decided (Liu &
    Anderson 2008), to which the level of the look is very nearly proportional.
    """
    sides = PairedLogCosts.from_processes(case.series, base, head)
    shift = sides.estimate_shift(case.prior)
    kind = limits.classify(shift, tail)
    low, high = sorted(sides.sign * bound for bound in limits.select_bounds(shift, tail))
    ratio, base_level = math.exp(sides.sign * shift.centre), math.exp(sides.sign * median(sides.base))
    more: int | None = 0
    if kind is VerdictKind.INCONCLUSIVE:
        # a single pair has no error and needs a first look
        first_look = max(case.rule.looks[0] - shift.pairs, 1)
        more = case.limits.estimate_more_pairs(shift) if shift.df > 0 else first_look
    verdict = case.make_verdict(
        kind,
        "",
        ratio=ratio,
        interval=Interval(math.exp(low), math.exp(high)) if shift.df > 0 else None,
        base_level=base_level,
        # not the median of the head: a reader who divides the levels gets the ratio that was judged
        head_level=base_level * ratio,
        noise_floor=compute_noise_floor(case.aa_log_ratios),
        mde=_relative_change(
            minimum_detectable_effect(shift.error, shift.df, limits.bar, case.limits.null, tail)
        ),
        pairs=sides.pair_count,
        pairs_to_decide=more,
        # of the confirming limits at every stage, so that p-values of one group are comparable
        p_value=min(1.0, shift.p_value(case.limits.null) * ALPHA / tail),
        tail=judge_tail(case.series, base, head, case.limits, tail),
    )
    sentences = [
        format_reason(verdict, case.rule, math.expm1(limits.bar)),
        describe_modes(case.series, shift, kind),
        describe_coarse_clock(shift, case.rule.bar) if kind is VerdictKind.INCONCLUSIVE else "",
        describe_tail(verdict),
    ]
    return note_left_out_processes(replace(verdict, reason=" ".join(filter(None, sentences))), base, head)


def _relative_change(log_shift: float) -> float | None:
    return math.expm1(log_shift) if math.isfinite(log_shift) else None
