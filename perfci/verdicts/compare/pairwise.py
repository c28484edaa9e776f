"""Base against head: from the processes of two commits to one verdict.

Screening is sensitive and only nominates; conviction looks at fresh pairs and is the only thing that turns a check
red; deciding buys pairs step by step until one or the other is settled (DESIGN 6, rule M of the study).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from perfci.model import Boundaries, Interval, Process, Series, Stage, Verdict, VerdictKind
from perfci.stats import noise_model
from perfci.stats.group_sequential import ALPHA
from perfci.stats.location import median
from perfci.stats.location_shift import Prior, Shift
from perfci.stats.power import smallest_visible
from perfci.verdicts.compare.comparison_case import Case
from perfci.verdicts.compare.decision_limits import Limits
from perfci.verdicts.compare.noise_prior import PRIOR_DF
from perfci.verdicts.compare.process_modes import states_of
from perfci.verdicts.compare.reason_text import sentence, with_left_out
from perfci.verdicts.compare.side_costs import Sides
from perfci.verdicts.compare.special_cases import without_statistics
from perfci.verdicts.compare.stopping_rule import plan
from perfci.verdicts.process_levels import settled_level
from perfci.verdicts.rule import Rule


def screen(
    series: Series,
    base_sha: str,
    head_sha: str,
    base: Sequence[Process],
    head: Sequence[Process],
    *,
    rule: Rule | None = None,
    prior_sd: float | None = None,
) -> Verdict:
    """A sensitive first look: flagged when the estimate passes the bar and the interval excludes no change."""
    prior = Prior(prior_sd, PRIOR_DF) if prior_sd else None
    case = Case(series, base_sha, head_sha, Stage.SCREENING, _rule_at(rule, base), prior=prior)
    return without_statistics(case, base, head) or _judged(case, base, head, case.limits.screening())


def convict(
    series: Series,
    base_sha: str,
    head_sha: str,
    base: Sequence[Process],
    head: Sequence[Process],
    *,
    rule: Rule | None = None,
    boundaries: Boundaries = Boundaries.PROCESS,
) -> Verdict:
    """The verdict that counts, on pairs that no earlier look has seen."""
    case = Case(series, base_sha, head_sha, Stage.CONVICTION, _rule_at(rule, base))
    return without_statistics(case, base, head, boundaries) or _judged(case, base, head, case.limits)


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the pairs so far: the verdict, how many more to buy, and what both rest on.

    ``tail`` is what this look's interval leaves out on either side; ``bare`` is the shift by its own pairs alone and
    ``shift`` the one judged, moderated by what was known of the noise. All three are absent where the verdict needs no
    statistics.
    """

    verdict: Verdict
    more: int = 0
    tail: float | None = None
    bare: Shift | None = None
    shift: Shift | None = None


def look(
    series: Series,
    base_sha: str,
    head_sha: str,
    base: Sequence[Process],
    head: Sequence[Process],
    *,
    rule: Rule | None = None,
    aa: Sequence[float] = (),
    prior: Prior | None = None,
    stage: Stage = Stage.SCREENING,
) -> Look:
    """The verdict so far, and how many more pairs to buy now; 0 when it is settled or nothing would settle it.

    All looks together keep the error of a single one. The looks are planned, so asking again answers the same.
    On pairs that no earlier look has seen, ``stage`` is conviction.
    """
    case = Case(series, base_sha, head_sha, stage, _rule_at(rule, base), aa, prior)
    plain = without_statistics(case, base, head)
    if plain is not None:
        return Look(plain)
    sides = Sides.of(series, base, head)
    more, tail = plan(sides, case.rule, case.limits, prior)
    return Look(_judged(case, base, head, case.limits, tail), more, tail, sides.shift(), sides.shift(prior))


def _rule_at(rule: Rule | None, base: Sequence[Process]) -> Rule:
    rule = rule or Rule()
    return rule.at(settled_level(base)) if rule.floor else rule


def _judged(
    case: Case, base: Sequence[Process], head: Sequence[Process], limits: Limits, tail: float = ALPHA
) -> Verdict:
    """The verdict the statistics give.

    Its p-value is that of all looks together: the smallest error with which this look would have told (Liu &
    Anderson 2008), to which its level is very nearly proportional.
    """
    sides = Sides.of(case.series, base, head)
    found = sides.shift(case.prior)
    kind = limits.kind(found, tail)
    verdict = case.answer(
        kind,
        "",
        ratio=math.exp(sides.sign * found.centre),
        interval=_interval(found, sides.sign, tail),
        base_level=math.exp(sides.sign * median(sides.base)),
        head_level=math.exp(sides.sign * median(sides.head)),
        noise_floor=noise_model.floor(case.aa) if case.aa else _ratio(found.half_width()),
        mde=_ratio(smallest_visible(found.error, found.df, limits.bar, case.limits.null, tail)),
        pairs=sides.pairs,
        pairs_to_decide=_more_pairs(case, found) if kind is VerdictKind.INCONCLUSIVE else 0,
        p_value=min(1.0, case.limits.p_value(found) * ALPHA / tail),
    )
    states = states_of(case.series, sides.base, sides.head)
    told = [sentence(verdict, case.rule, math.expm1(limits.bar)), *([states.told] if states else [])]
    return with_left_out(replace(verdict, reason=" ".join(told)), base, head)


def _more_pairs(case: Case, found: Shift) -> int | None:
    """A pair alone has no error to tell from, so it takes a first look."""
    return case.limits.more_pairs(found) if found.df > 0 else max(case.rule.looks[0] - found.pairs, 1)


def _interval(found: Shift, sign: float, tail: float) -> Interval | None:
    if found.df <= 0:
        return None
    low, high = sorted(math.exp(sign * bound) for bound in found.bounds(tail))
    return Interval(low, high)


def _ratio(log_shift: float) -> float | None:
    return math.expm1(log_shift) if math.isfinite(log_shift) else None
