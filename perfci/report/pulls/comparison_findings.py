"""All that is told of one comparison, as one value: comment, job summary, check run and status are rendered from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from perfci.model import Commit, MetricClass, ObservedChange, PerfciError, Series, Verdict, VerdictKind
from perfci.report.number_format import counting
from perfci.report.verdict_labels import is_suspicion
from perfci.verdicts.compare.pooled_verdict import PooledVerdict
from perfci.verdicts.expected_change import Announcement
from perfci.verdicts.goals.goal_verdict import GoalVerdict, Outcome
from perfci.verdicts.policy import Policy
from perfci.verdicts.variants.variant_contrast import Rejection

Manner = Literal["in turns", "interleaved", "recorded", ""]
"""How both sides were measured, as far as that is known."""

ALIKE = "No file that the benchmarks can see differs: whatever moved is a false alarm, and is counted as one."


@dataclass(frozen=True, slots=True)
class Bar:
    """What a verdict was held to: the kind of its metric, and the change that counts (0: any)."""

    kind: MetricClass
    size: float


@dataclass(frozen=True, slots=True)
class Findings:
    """What a comparison came to, and what a reader needs to know to believe it.

    ``sides`` names both sides where they are no two commits. ``drift`` are verdicts of the same base against
    ``main``, the newest commit of the branch to be merged into. ``budget`` is the time budget where it ended the
    measuring. ``command`` measures the same again, where naming the two commits does not. ``page`` is the address of
    the comparison on our own dashboard: no other link is ever written. ``accept`` is the comment that accepts the
    changes, where somebody listens for it, and ``accepted`` tells who did, and why; ``announced`` is what the pull
    request said of itself beforehand. ``bars`` has one for each verdict, or none where those of the metrics' classes
    held; ``strict`` tells that whole intervals had to be beyond them, ``smoke`` that sizes were small. ``profiled``
    names cells whose profiles at base and head lie beside what was measured. ``alike`` tells that two commits differ in
    no file that the benchmarks can see.
    """

    verdicts: Sequence[Verdict]
    base: Commit
    head: Commit
    merge_base: bool = False
    sides: str = ""
    manner: Manner = ""
    pooled: PooledVerdict | None = None
    goals: Sequence[GoalVerdict] = ()
    rejected: Sequence[Rejection] = ()
    environment: Sequence[ObservedChange] = ()
    drift: Sequence[Verdict] = ()
    main: Commit | None = None
    budget: str = ""
    bars: Sequence[Bar] = ()
    strict: bool = False
    smoke: bool = False
    accepted: str = ""
    accept: str = ""
    announced: Sequence[Announcement] = ()
    command: Sequence[str] = ()
    page: str = ""
    profiled: Sequence[str] = ()
    alike: bool = False

    def __post_init__(self) -> None:
        if self.bars and len(self.bars) != len(self.verdicts):
            raise PerfciError(f"There are {len(self.verdicts)} verdicts and {len(self.bars)} bars.")

    def is_announced(self, verdict: Verdict) -> bool:
        return any(one.counts and one.covers(verdict) for one in self.announced)

    @property
    def held_to(self) -> dict[Series, Bar]:
        bars = self.bars or bars_of(self.verdicts, Policy())
        return {one.series: bar for one, bar in zip(self.verdicts, bars, strict=True)}


def bars_of(verdicts: Sequence[Verdict], policy: Policy) -> list[Bar]:
    """What a policy holds each verdict to."""
    rules = [policy.rule_for(one.series) for one in verdicts]
    return [
        Bar(policy.class_of(one.series), rule.counted_bar if is_exact(one) else rule.bar)
        for one, rule in zip(verdicts, rules, strict=True)
    ]


LEADING = (
    ("failed", "failed"),
    ("regression", "regressions"),
    ("suspected regression", "suspected regressions"),
    ("dropped", "dropped"),
    ("improvement", "improvements"),
    ("suspected improvement", "suspected improvements"),
)
"""What a title leads with, the severest first."""

FOLLOWING = (
    ("inconclusive", "inconclusive"),
    ("not comparable", "not comparable"),
    ("not measured", "not measured"),
    ("new", "new"),
    ("unchanged", "unchanged"),
)


@dataclass(frozen=True, slots=True)
class Headline:
    """Every verdict counted once, under one word: ``2 regressions, 1 improvement`` and ``3 inconclusive``."""

    lead: str
    rest: str

    def __str__(self) -> str:
        return f"{self.lead} ({self.rest})" if self.rest else self.lead


def headline(findings: Findings) -> Headline:
    """Counts only, in words of our own: a title has no room for a name."""
    found = Counter(told_as(one) for one in findings.verdicts)
    leading = [*_listed(found, LEADING), *_goals(findings.goals), *_rejections(findings.rejected)]
    lead = ", ".join(leading) or _calm(findings)
    return Headline(lead, ", ".join(_listed(found, FOLLOWING)))


def told_as(verdict: Verdict) -> str:
    """The word a verdict is counted under; what is missing is dropped, new, or was measured on neither side."""
    if verdict.kind is VerdictKind.MISSING:
        return _absence(verdict)
    suspected = "suspected " if is_suspicion(verdict) else ""
    return suspected + verdict.kind.value.replace("_", " ")


def is_open(verdict: Verdict) -> bool:
    """Whether the question was asked and not answered; a new benchmark has no question yet."""
    return told_as(verdict) in {"inconclusive", "not comparable", "dropped", "suspected regression"}


def is_worse(verdict: Verdict) -> bool:
    """What a check may turn red for: only what fresh pairs confirmed, and what no longer works."""
    return told_as(verdict) in {"failed", "regression"}


def is_exact(verdict: Verdict) -> bool:
    """Whether both sides were counted, which leaves no interval."""
    return verdict.interval is not None and verdict.interval.lo == verdict.interval.hi


def _absence(verdict: Verdict) -> str:
    if verdict.base_level is not None:
        return "dropped" if verdict.head_level is None else "not comparable"
    return "not measured" if verdict.head_level is None else "new"


def _listed(found: Counter[str], words: Sequence[tuple[str, str]]) -> list[str]:
    return [counting(found[one], one, several) for one, several in words if found[one]]


def _goals(goals: Sequence[GoalVerdict]) -> list[str]:
    missed = sum(goal.outcome in (Outcome.BROKEN, Outcome.REJECTED) for goal in goals)
    return [f"{counting(missed, 'goal')} broken"] if missed else []


def _rejections(rejected: Sequence[Rejection]) -> list[str]:
    return [f"{counting(len(rejected), 'variant')} rejected"] if rejected else []


def _calm(findings: Findings) -> str:
    """Never claim calm where nothing was decided."""
    if not findings.verdicts:
        return "nothing was compared"
    if any(is_open(one) for one in findings.verdicts):
        return "no regression found, not everything decided"
    if all(one.kind is VerdictKind.MISSING for one in findings.verdicts):
        return "nothing could be compared"
    return "nothing got worse"
