"""Base against head: from the processes of two commits to one verdict.

Screening is sensitive and only nominates; conviction looks at fresh pairs and is the only thing that turns a check
red; deciding buys pairs step by step until one or the other is settled (DESIGN 6, rule M of the study).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfci.model import Boundaries, Clock, Interval, Process, Series, Stage, Status, Verdict, VerdictKind
from perfci.stats import fdr, noise
from perfci.stats.interval import Prior, Shift, shift, side_by_side
from perfci.stats.location import Floats, median
from perfci.stats.power import pairs_for_evidence, pairs_to_decide, probability_at, smallest_visible
from perfci.stats.sequential import ALPHA, look_levels, next_look, spending_plan
from perfci.verdicts.levels import disqualifying_flags, settled_levels, usable
from perfci.verdicts.modes import states_of

PRIOR_DF = 8.0
"""What a known standard deviation of a pair is worth: eight more pairs, so fresh pairs can still overrule it."""


@dataclass(frozen=True, slots=True)
class Rule:
    """The bar a change must pass, and how many pairs may be spent on finding out.

    ``strict`` asks for the whole interval beyond the bar instead of half of it. ``looks`` are the numbers of pairs at
    which a comparison may stop. ``exact_bar`` is the bar of values that repeat exactly, where it is another (0: any
    change counts). ``floor`` is a difference in the metric's own unit: up to it nothing changed, whatever the ratio.
    ``about`` names what has such a bar, for the reason.
    """

    bar: float = 0.05
    strict: bool = False
    max_pairs: int = 20
    looks: tuple[int, ...] = tuple(range(5, 21))
    exact_bar: float | None = None
    floor: float = 0.0
    about: str = ""

    @property
    def counted_bar(self) -> float:
        return self.bar if self.exact_bar is None else self.exact_bar

    @property
    def planned_looks(self) -> list[int]:
        """The looks up to the cap: where it lies beyond them, each further one has a tenth more pairs."""
        looks = sorted({min(look, self.max_pairs) for look in self.looks})
        while looks[-1] < self.max_pairs:
            looks.append(min(looks[-1] + max(looks[-1] // 10, 1), self.max_pairs))
        return looks

    @property
    def named(self) -> str:
        return f" for {self.about}" if self.about else ""

    def at(self, level: float | None) -> Rule:
        """The same rule where the level is known: there the floor is a share of it, which the bar may not be below."""
        share = self.floor * (1 + 2 * ROUNDING) / level if level is not None and level > 0 else 0.0
        if share <= min(self.bar, self.counted_bar):
            return self
        exact_bar = self.exact_bar if self.exact_bar is None else max(self.exact_bar, share)
        about = f"{self.about or 'this metric'}, which is its floor of {_number(self.floor)}"
        return replace(self, bar=max(self.bar, share), exact_bar=exact_bar, about=about)


ROUNDING = 1e-9
"""What arithmetic may do to a ratio, so that a difference of exactly the floor, or the bar, falls on its own side."""


def screen(
    series: Series,
    base_sha: str,
    head_sha: str,
    base: Sequence[Process],
    head: Sequence[Process],
    *,
    rule: Rule | None = None,
    aa: Sequence[float] = (),
    prior_sd: float | None = None,
    boundaries: Boundaries = Boundaries.PROCESS,
) -> Verdict:
    """A sensitive first look: flagged when the estimate passes the bar and the interval excludes no change."""
    case = Case(series, base_sha, head_sha, Stage.SCREENING, _rule_at(rule, base), aa, _known_sd(prior_sd))
    return case.refused(base, head, boundaries) or case.judged(base, head, case.limits.screening())


def convict(
    series: Series,
    base_sha: str,
    head_sha: str,
    base: Sequence[Process],
    head: Sequence[Process],
    *,
    rule: Rule | None = None,
    aa: Sequence[float] = (),
    prior_sd: float | None = None,
    comparisons: int = 1,
    boundaries: Boundaries = Boundaries.PROCESS,
) -> Verdict:
    """The verdict that counts, on pairs that no earlier look has seen.

    ``comparisons`` is how many series are convicted beside this one: its test is then held to the first step of
    Benjamini & Hochberg, the strictest, which needs no other p-value. ``control`` does the whole procedure on a group.
    """
    case = Case(series, base_sha, head_sha, Stage.CONVICTION, _rule_at(rule, base), aa, _known_sd(prior_sd))
    found = case.refused(base, head, boundaries) or case.judged(base, head, case.limits)
    return _held_back(found, fdr.FDR / comparisons, fdr.FDR / comparisons) if comparisons > 1 else found


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
    boundaries: Boundaries = Boundaries.PROCESS,
    stage: Stage = Stage.SCREENING,
) -> Look:
    """The verdict so far, and how many more pairs to buy now; 0 when it is settled or nothing would settle it.

    All looks together keep the error of a single one. The looks are planned, so asking again answers the same.
    On pairs that no earlier look has seen, ``stage`` is conviction.
    """
    case = Case(series, base_sha, head_sha, stage, _rule_at(rule, base), aa, prior)
    refused = case.refused(base, head, boundaries)
    if refused is not None:
        return Look(refused)
    sides = Sides.of(series, base, head)
    more, tail = plan(sides, case.rule, case.limits, prior)
    return Look(case.judged(base, head, case.limits, tail), more, tail, sides.shift(), sides.shift(prior))


def _known_sd(sd: float | None) -> Prior | None:
    return Prior(sd, PRIOR_DF) if sd else None


def _rule_at(rule: Rule | None, base: Sequence[Process]) -> Rule:
    rule = rule or Rule()
    return rule.at(_middle(base)) if rule.floor else rule


def control(verdicts: Sequence[Verdict], rate: float = fdr.FDR) -> list[Verdict]:
    """Hold back the moves of a group that Benjamini & Hochberg do not accept together; all else passes unchanged.

    What was counted exactly is certain and no part of the group: many certain changes would make room for chance
    among the others.
    """
    tested = [verdict.p_value for verdict in verdicts if verdict.p_value is not None and not is_exact(verdict)]
    accepted = [p for p, ok in zip(tested, fdr.accepted(tested, rate), strict=True) if ok]
    threshold, wanted = max(accepted, default=0.0), rate * (len(accepted) + 1) / max(len(tested), 1)
    return [one if is_exact(one) else _held_back(one, threshold, wanted) for one in verdicts]


def is_exact(verdict: Verdict) -> bool:
    """Whether it was counted rather than estimated, so that chance has no part in it."""
    return verdict.noise_floor == 0 and verdict.p_value in (0.0, 1.0)


MOVES = (VerdictKind.REGRESSION, VerdictKind.IMPROVEMENT)


@dataclass(frozen=True, slots=True)
class Limits:
    """The log shifts a verdict hangs on: a move's estimate must pass ``bar`` and its interval exclude ``null``.

    *Unchanged* needs the interval within ``same``, the bar as the user set it: where equals are known to wander the
    bar of a move rises, but what it lets through is not thereby proven equal.
    """

    bar: float
    null: float
    same: float

    @classmethod
    def of(cls, rule: Rule, aa: Sequence[float] = ()) -> Limits:
        bar = max(rule.bar, noise.floor(aa) or 0.0)
        return cls(math.log1p(bar), math.log1p(bar if rule.strict else bar / 2), math.log1p(rule.bar))

    def screening(self) -> Limits:
        """Beyond the bar by estimate and on that side of no change by interval is enough to nominate."""
        return replace(self, null=0.0)

    def kind(self, found: Shift, tail: float = ALPHA) -> VerdictKind:
        """What an interval that leaves ``tail`` out on either side says (rule M of the study, 6.1)."""
        low, high = found.bounds(tail)
        bar = self.bar * (1 - ROUNDING)
        if found.centre >= bar and low > self.null:
            return VerdictKind.REGRESSION
        if found.centre <= -bar and high < -self.null:
            return VerdictKind.IMPROVEMENT
        return VerdictKind.UNCHANGED if -self.same < low and high < self.same else VerdictKind.INCONCLUSIVE

    def at_the_bar(self, found: Shift, tail: float = ALPHA) -> bool:
        """Whether the change is known to lie between half the bar and half as much again.

        Who knows that knows it as well as the bar is chosen: the indifference zone of Bechhofer (1954). Telling 4.8
        from 5.2 % would take any number of pairs.
        """
        low, high = sorted(math.copysign(1, found.centre) * bound for bound in found.bounds(tail))
        return self.bar / 2 < low and high < 1.5 * self.bar

    def more_pairs(self, found: Shift) -> int | None:
        """How many more would settle it: as a move where the estimate passes the bar, else as unchanged."""
        if self.at_the_bar(found):
            return None
        distance = abs(found.centre)
        return pairs_to_decide(found, distance - self.null if distance >= self.bar else self.same - distance)

    def hopeless(self, found: Shift, tail: float, cap: int) -> bool:
        """Whether all pairs together will hardly decide, so that the ones left are better spent elsewhere.

        Judged from half of the pairs on, where the spread is known well enough (Snapinn et al. 2006 on futility). The
        levels of looks are nearly equal, so this one's ``tail`` is that of the last. Where the pairs can be read in two
        ways more of them may tell.
        """
        if 2 * found.pairs < cap or found.df <= 0 or found.below or found.above:
            return False
        last = replace(found, error=found.error * math.sqrt(found.pairs / cap), df=found.df * cap / found.pairs)
        half = last.half_width(tail)
        inside, beyond = self.same - half, max(self.bar, self.null + half)
        unchanged = probability_at(found, cap, -inside, inside)
        moved = 1 - probability_at(found, cap, -beyond, beyond)
        return unchanged + moved < HOPELESS

    def p_value(self, found: Shift) -> float:
        """Two-sided p-value of the shift being no larger than ``null`` either way."""
        return min(1.0, 2 * min(found.p_above(self.null), found.p_below(-self.null)))


HOPELESS = 0.05
"""What happens in fewer than one of twenty cases is not waited for: the usual level."""


@dataclass(frozen=True, slots=True)
class Sides:
    """Log costs of both sides, one per process: a cost rises when things get worse, whatever the metric's direction."""

    base: Floats
    head: Floats
    sign: float
    in_pairs: bool

    @classmethod
    def of(cls, series: Series, base: Sequence[Process], head: Sequence[Process]) -> Sides:
        base, head, in_pairs = paired_up(base, head)
        levels = settled_levels(base, head)
        sign = 1.0 if series.metric.direction == "lower" else -1.0
        costs = [sign * np.log(np.asarray(side, dtype=float)) for side in levels]
        return cls(costs[0], costs[1], sign, in_pairs)

    @property
    def pairs(self) -> int:
        return min(len(self.base), len(self.head))

    def shift(self, prior: Prior | None = None) -> Shift:
        if self.in_pairs:
            return shift(self.base, self.head, prior=prior)
        return side_by_side(self.base, self.head, prior=prior)

    def first(self, pairs: int) -> Sides:
        """What was known after so many pairs."""
        return replace(self, base=self.base[:pairs], head=self.head[:pairs])


def plan(sides: Sides, rule: Rule, limits: Limits, prior: Prior | None = None) -> tuple[int, float]:
    """How many pairs to buy next and the tail probability of this look's interval.

    The looks before this one are replayed from the pairs they saw, so nothing has to be remembered.
    """
    looks = rule.planned_looks
    seen = [look for look in looks if look <= sides.pairs] or looks[:1]
    known = [_known(sides.first(look).shift(), limits) for look in seen]
    tail = look_levels(spending_plan(known, seen, looks[-1]))[-1]
    looked = sides.pairs >= looks[0] and _settles(sides.shift(prior), limits, tail, looks[-1])
    settled = looked or sides.pairs >= looks[-1]
    return (0 if settled else next_look(looks, sides.pairs) - sides.pairs), tail


def _settles(found: Shift, limits: Limits, tail: float, cap: int) -> bool:
    """Whether more pairs are not worth buying: a verdict is reached, or plainly none will be."""
    decided = limits.kind(found, tail) is not VerdictKind.INCONCLUSIVE
    return decided or limits.at_the_bar(found, tail) or limits.hopeless(found, tail, cap)


def _known(found: Shift, limits: Limits) -> float:
    """The share of the information with which a change half a bar away from a decision is decided."""
    return (limits.same / 2 / DECIDING_SIGMAS / found.error) ** 2 if found.df > 0 else 0.0


DECIDING_SIGMAS = 3.6
"""1.96 for the interval and 1.64 for power 95 %: what a difference must be in standard errors to be decided."""


@dataclass(frozen=True, slots=True)
class Case:
    """One question: this series, these two commits, this rule."""

    series: Series
    base_sha: str
    head_sha: str
    stage: Stage
    rule: Rule
    aa: Sequence[float]
    prior: Prior | None

    @property
    def limits(self) -> Limits:
        return Limits.of(self.rule, self.aa)

    def answer(self, kind: VerdictKind, reason: str, **known: object) -> Verdict:
        return Verdict(kind, self.stage, self.series, self.base_sha, self.head_sha, reason=reason, **known)  # type: ignore[arg-type]

    def refused(self, base: Sequence[Process], head: Sequence[Process], boundaries: Boundaries) -> Verdict | None:
        """The verdicts that need no statistics, or None where the numbers have to speak."""
        if boundaries is not Boundaries.PROCESS:
            return self.answer(
                VerdictKind.NOT_COMPARABLE,
                "The samples no longer know which process they came from, so they cannot be compared.",
            )
        if absent := self._absent(base, head):
            return absent
        plain = self._exact(base, head) or self._below_zero(base, head)
        return plain and _with_left_out(plain, base, head)

    def _absent(self, base: Sequence[Process], head: Sequence[Process]) -> Verdict | None:
        if _mostly_failed(head) and (usable(base) or _flagged(base)) and not _mostly_failed(base):
            return self.answer(
                VerdictKind.FAILED, f"The base works and the head {_how_it_failed(head)}.", base_level=_middle(base)
            )
        for name, side in (("base", base), ("head", head)):
            if not usable(side) and not _flagged(side):
                return self.answer(
                    VerdictKind.MISSING, f"There is nothing to compare: the {name} {_why_nothing(side)}."
                )
        if paired_up(base, head)[0]:
            return None
        if left_out := _left_out(base, head):
            return self.answer(VerdictKind.INCONCLUSIVE, f"There is nothing to judge: {left_out}.")
        return self.answer(VerdictKind.MISSING, "There is nothing to compare: no pair has both its processes.")

    def _exact(self, base: Sequence[Process], head: Sequence[Process]) -> Verdict | None:
        """Counts and byte sums repeat exactly, so one look is certain; where they vary they are no such thing."""
        base, head = usable(base), usable(head)
        values = [{sample for process in side for sample in process.samples} for side in (base, head)]
        if any(process.clock is not Clock.EXACT for process in (*base, *head)) or any(len(side) > 1 for side in values):
            return None
        (before,), (after,) = values
        known = {
            "base_level": before,
            "head_level": after,
            "noise_floor": 0.0,
            "mde": self.rule.counted_bar,
            "pairs": min(len(base), len(head)),
            "pairs_to_decide": 0,
        }
        if before == after:
            return self.answer(
                VerdictKind.UNCHANGED,
                f"Exactly {_number(before)} on both sides.",
                ratio=1.0,
                interval=Interval(1.0, 1.0),
                p_value=1.0,
                **known,
            )
        if before <= 0 or after < 0:
            return self._from_nothing(before, after, known)
        return self._exact_move(before, after, known)

    def _exact_move(self, before: float, after: float, known: Mapping[str, object]) -> Verdict:
        ratio = after / before
        known = dict(known, ratio=ratio, interval=Interval(ratio, ratio), p_value=0.0)
        told = f"Counted exactly: {_became(before, after)} ({_percent(ratio)})"
        bar, named = self.rule.counted_bar, self.rule.named
        if abs(ratio - 1) < bar * (1 - ROUNDING):
            return self.answer(VerdictKind.UNCHANGED, f"{told}, below the bar of {100 * bar:.3g}%{named}.", **known)
        why = f", beyond the bar of {100 * bar:.3g}%{named}" if bar else f", and{named} no change is too small"
        return self.answer(self._worse_or_better(after - before), f"{told}{why if self.rule.about else ''}.", **known)

    def _from_nothing(self, before: float, after: float, known: Mapping[str, object]) -> Verdict:
        told = f"Counted exactly: {_became(before, after)}, which no ratio expresses."
        if abs(after - before) <= self.rule.floor:
            told = f"{told} That is within its floor of {_number(self.rule.floor)}."
            return self.answer(VerdictKind.UNCHANGED, told, p_value=1.0, **known)
        return self.answer(self._worse_or_better(after - before), told, p_value=0.0, **known)

    def _worse_or_better(self, difference: float) -> VerdictKind:
        worse = (difference > 0) == (self.series.metric.direction == "lower")
        return VerdictKind.REGRESSION if worse else VerdictKind.IMPROVEMENT

    def _below_zero(self, base: Sequence[Process], head: Sequence[Process]) -> Verdict | None:
        """A level of zero or less has no logarithm; the few cases with a plain answer get it."""
        paired_base, paired_head, _ = paired_up(base, head)
        before, after = settled_levels(paired_base, paired_head)
        if min(*before, *after) > 0:
            return None
        known = {"base_level": median(before), "head_level": median(after), "pairs": min(len(before), len(after))}
        if set(before) == set(after) == {0.0}:
            settled = {"noise_floor": 0.0, "mde": self.rule.counted_bar, "pairs_to_decide": 0, "p_value": 1.0}
            same = {"ratio": 1.0, "interval": Interval(1.0, 1.0)}
            return self.answer(VerdictKind.UNCHANGED, "Zero on both sides.", **known, **settled, **same)
        return self.answer(
            VerdictKind.NOT_COMPARABLE,
            "Some levels are zero or less, so no ratio between head and base exists.",
            **known,
        )

    def judged(self, base: Sequence[Process], head: Sequence[Process], limits: Limits, tail: float = ALPHA) -> Verdict:
        """The verdict the statistics give.

        Its p-value is that of all looks together: the smallest error with which this look would have told (Liu &
        Anderson 2008), to which its level is very nearly proportional.
        """
        sides = Sides.of(self.series, base, head)
        found = sides.shift(self.prior)
        kind = limits.kind(found, tail)
        verdict = self.answer(
            kind,
            "",
            ratio=math.exp(sides.sign * found.centre),
            interval=_interval(found, sides.sign, tail),
            base_level=math.exp(sides.sign * median(sides.base)),
            head_level=math.exp(sides.sign * median(sides.head)),
            noise_floor=noise.floor(self.aa) if self.aa else _ratio(found.half_width()),
            mde=_ratio(smallest_visible(found.error, found.df, limits.bar, self.limits.null, tail)),
            pairs=sides.pairs,
            pairs_to_decide=self._more_pairs(found) if kind is VerdictKind.INCONCLUSIVE else 0,
            p_value=min(1.0, self.limits.p_value(found) * ALPHA / tail),
        )
        states = states_of(self.series, sides.base, sides.head)
        told = [sentence(verdict, self.rule, math.expm1(limits.bar)), *([states.told] if states else [])]
        return _with_left_out(replace(verdict, reason=" ".join(told)), base, head)

    def _more_pairs(self, found: Shift) -> int | None:
        """A pair alone has no error to tell from, so it takes a first look."""
        return self.limits.more_pairs(found) if found.df > 0 else max(self.rule.looks[0] - found.pairs, 1)


def _interval(found: Shift, sign: float, tail: float) -> Interval | None:
    if found.df <= 0:
        return None
    low, high = sorted(math.exp(sign * bound) for bound in found.bounds(tail))
    return Interval(low, high)


def paired_up(base: Sequence[Process], head: Sequence[Process]) -> tuple[list[Process], list[Process], bool]:
    """Usable processes of both sides in the order of their pair (else round) numbers.

    Only pairs with both processes count. Sides without numbers are compared side against side, which is not in pairs.
    """
    sides = [{_number_of(process): process for process in usable(side)} for side in (base, head)]
    if any(None in side for side in sides):
        return usable(base), usable(head), False
    both = sorted(number for number in sides[0].keys() & sides[1].keys() if number is not None)
    return [sides[0][number] for number in both], [sides[1][number] for number in both], True


def sentence(verdict: Verdict, rule: Rule, bar: float) -> str:
    """Say in one plain sentence what was seen and why the verdict follows."""
    told = f"{_percent(verdict.ratio or 1.0)} over {verdict.pairs} pair{'s' if verdict.pairs != 1 else ''}"
    if verdict.interval is None:
        more = _how_many_more(verdict.pairs_to_decide)
        return f"{told}: a single pair has no interval, so nothing can be said yet; {more}."
    told += f", interval {_percent(verdict.interval.lo)} to {_percent(verdict.interval.hi)}"
    return f"{told}: {_why(verdict, rule, bar)}."


def _why(verdict: Verdict, rule: Rule, bar: float) -> str:
    if verdict.kind is VerdictKind.UNCHANGED:
        return f"inside the bar of {rule.bar:.1%}{rule.named} either way"
    if verdict.kind is VerdictKind.INCONCLUSIVE:
        inside = "it" if math.isclose(bar, rule.bar) else f"{rule.bar:.1%}"
        more = _how_many_more(verdict.pairs_to_decide)
        return f"neither beyond the bar of {bar:.1%}{rule.named} nor inside {inside}, {more}"
    if verdict.stage is Stage.SCREENING:
        return f"beyond the bar of {bar:.1%}{rule.named}, to be confirmed on fresh pairs"
    return f"beyond the bar of {bar:.1%}{rule.named}, and {'all of it' if rule.strict else 'half of it'} is excluded"


def _how_many_more(pairs: int | None) -> str:
    if pairs is None:
        return "too close to the bar for more pairs to settle"
    return f"about {pairs} more pair{'s' if pairs != 1 else ''} would decide"


def _held_back(verdict: Verdict, threshold: float, wanted: float) -> Verdict:
    """``wanted`` is the p-value with which it would have been accepted."""
    if verdict.kind not in MOVES or verdict.p_value is None or verdict.p_value <= threshold:
        return verdict
    more = pairs_for_evidence(verdict.pairs, verdict.p_value, wanted)
    told = f"{verdict.reason} Held back: among so many comparisons this much is to be expected by chance"
    reason = f"{told}; {_how_many_more(more)}." if more else f"{told}."
    return replace(verdict, kind=VerdictKind.INCONCLUSIVE, pairs_to_decide=more, reason=reason)


def _mostly_failed(side: Sequence[Process]) -> bool:
    failed = sum(process.status not in (Status.OK, Status.SKIPPED) for process in side)
    return failed > 0 and 2 * failed >= len(side)


def _how_it_failed(side: Sequence[Process]) -> str:
    failed = next(process for process in side if process.status not in (Status.OK, Status.SKIPPED))
    return f"ended as {failed.status.value}" + (f" ({failed.reason})" if failed.reason else "")


def _why_nothing(side: Sequence[Process]) -> str:
    if not side:
        return "was not measured"
    if all(process.status is Status.SKIPPED for process in side):
        return f"was skipped ({side[0].reason or 'no reason given'})"
    return _how_it_failed(side)


def _flagged(side: Sequence[Process]) -> list[Process]:
    """Processes that ended well on a machine that was not what it promised."""
    return [process for process in side if process.status is Status.OK and disqualifying_flags(process)]


def _with_left_out(verdict: Verdict, base: Sequence[Process], head: Sequence[Process]) -> Verdict:
    left_out = _left_out(base, head)
    return replace(verdict, reason=f"{verdict.reason} Not judged: {left_out}.") if left_out else verdict


def _left_out(base: Sequence[Process], head: Sequence[Process]) -> str:
    """How many processes were measured for nothing, and what is known against them; empty for none."""
    flagged = _flagged([*base, *head])
    if not flagged:
        return ""
    why = list(dict.fromkeys(flag for process in flagged for flag in disqualifying_flags(process)))
    more = f" and {len(why) - FLAGS_SHOWN} more" if len(why) > FLAGS_SHOWN else ""
    return f"{len(flagged)} of {len(base) + len(head)} processes, flagged {'; '.join(why[:FLAGS_SHOWN])}{more}"


FLAGS_SHOWN = 2


def _middle(side: Sequence[Process]) -> float | None:
    levels = settled_levels(usable(side), [])[0]
    return median(levels) if levels else None


def _number_of(process: Process) -> int | None:
    return process.pair if process.pair is not None else process.round


def _ratio(log_shift: float) -> float | None:
    return math.expm1(log_shift) if math.isfinite(log_shift) else None


def _percent(ratio: float) -> str:
    return f"{ratio - 1:+.1%}"


def _became(before: float, after: float) -> str:
    """Both numbers, with all their digits where fewer would look the same."""
    shown = [_number(value) for value in (before, after)]
    return " became ".join(shown if shown[0] != shown[1] else map(repr, (before, after)))


def _number(value: float) -> str:
    return f"{value:,.10g}"
