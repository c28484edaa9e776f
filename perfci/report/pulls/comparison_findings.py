"""All that is told of one comparison, as one value: comment, job summary, check run and status are rendered from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from perfci.model import Commit, EnvironmentChange, MetricClass, PerfciError, Series, Verdict, VerdictKind
from perfci.report.number_format import format_count
from perfci.report.verdict_labels import verdict_label
from perfci.verdicts.compare.pooled_verdict import PooledVerdict
from perfci.verdicts.expected_change import ExpectedChange
from perfci.verdicts.goals.goal_verdict import GoalOutcome, GoalVerdict
from perfci.verdicts.policy import Policy
from perfci.verdicts.variants.variant_contrast import VariantRejection

MeasurementOrder = Literal["in turns", "interleaved", "recorded", ""]
"""How both sides were measured, as far as that is known."""

IDENTICAL_INPUTS_NOTE = "No file that the benchmarks depend on differs, so any change reported here is a false alarm and is counted as one."


@dataclass(frozen=True, slots=True)
class VerdictBar:
    """What a verdict was held to: the kind of its metric, and the change that counts (0: any)."""

    metric_class: MetricClass
    min_change: float


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
    sides_label: str = ""
    measurement_order: MeasurementOrder = ""
    pooled: PooledVerdict | None = None
    goals: Sequence[GoalVerdict] = ()
    rejections: Sequence[VariantRejection] = ()
    environment_changes: Sequence[EnvironmentChange] = ()
    main_drift: Sequence[Verdict] = ()
    main_head: Commit | None = None
    spent_budget: str = ""
    bars: Sequence[VerdictBar] = ()
    strict: bool = False
    smoke: bool = False
    acceptance: str = ""
    accept_command: str = ""
    expected_changes: Sequence[ExpectedChange] = ()
    reproduce_command: Sequence[str] = ()
    report_url: str = ""
    profiled_cells: Sequence[str] = ()
    identical_inputs: bool = False

    def __post_init__(self) -> None:
        if self.bars and len(self.bars) != len(self.verdicts):
            raise PerfciError(f"There are {len(self.verdicts)} verdicts and {len(self.bars)} bars.")

    def is_expected(self, verdict: Verdict) -> bool:
        return any(
            expected.is_authorized and expected.covers_verdict(verdict) for expected in self.expected_changes
        )

    @property
    def bars_by_series(self) -> dict[Series, VerdictBar]:
        bars = self.bars or compute_bars(self.verdicts, Policy())
        return {verdict.series: bar for verdict, bar in zip(self.verdicts, bars, strict=True)}


def compute_bars(verdicts: Sequence[Verdict], policy: Policy) -> list[VerdictBar]:
    """What a policy holds each verdict to."""
    rules = [policy.rule_for(verdict.series) for verdict in verdicts]
    return [
        VerdictBar(
            policy.class_of(verdict.series), rule.effective_exact_bar if is_exact(verdict) else rule.bar
        )
        for verdict, rule in zip(verdicts, rules, strict=True)
    ]


REMOVED = "removed"
"""The label of a benchmark that was measured at base and is absent at head."""

CANDIDATE_REGRESSION = "candidate regression"
"""The label of a regression seen in screening and not yet confirmed on new pairs."""

LEADING_LABELS = (
    ("failed", "failed"),
    ("regression", "regressions"),
    (CANDIDATE_REGRESSION, "candidate regressions"),
    (REMOVED, REMOVED),
    ("improvement", "improvements"),
    ("candidate improvement", "candidate improvements"),
)
"""What a title leads with, the severest first."""

TRAILING_LABELS = (
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
    trailing: str

    def __str__(self) -> str:
        return f"{self.lead} ({self.trailing})" if self.trailing else self.lead


def build_headline(findings: Findings) -> Headline:
    """Counts only, in words of our own: a title has no room for a name."""
    counts = Counter(headline_label(verdict) for verdict in findings.verdicts)
    leading = [
        *_format_counts(counts, LEADING_LABELS),
        *_format_broken_goals(findings.goals),
        *_format_rejections(findings.rejections),
    ]
    lead = ", ".join(leading) or _no_regression_text(findings)
    return Headline(lead, ", ".join(_format_counts(counts, TRAILING_LABELS)))


def headline_label(verdict: Verdict) -> str:
    """The word a verdict is counted under; what is missing is removed, new, or was measured on neither side."""
    if verdict.kind is VerdictKind.MISSING:
        return _missing_label(verdict)
    return verdict_label(verdict)


def is_open(verdict: Verdict) -> bool:
    """Whether the question was asked and not answered; a new benchmark has no question yet."""
    return headline_label(verdict) in {"inconclusive", "not comparable", REMOVED, CANDIDATE_REGRESSION}


def is_worse(verdict: Verdict) -> bool:
    """What a check may turn red for: only what fresh pairs confirmed, and what no longer works."""
    return headline_label(verdict) in {"failed", "regression"}


def is_exact(verdict: Verdict) -> bool:
    """Whether both sides were counted, which leaves no interval."""
    return verdict.interval is not None and verdict.interval.lo == verdict.interval.hi


def _missing_label(verdict: Verdict) -> str:
    if verdict.base_level is not None:
        return REMOVED if verdict.head_level is None else "not comparable"
    return "not measured" if verdict.head_level is None else "new"


def _format_counts(counts: Counter[str], labels: Sequence[tuple[str, str]]) -> list[str]:
    return [format_count(counts[label], label, plural) for label, plural in labels if counts[label]]


def _format_broken_goals(goal_verdicts: Sequence[GoalVerdict]) -> list[str]:
    missed = sum(goal.outcome in (GoalOutcome.BROKEN, GoalOutcome.REJECTED) for goal in goal_verdicts)
    return [f"{format_count(missed, 'goal')} broken"] if missed else []


def _format_rejections(rejections: Sequence[VariantRejection]) -> list[str]:
    return [f"{format_count(len(rejections), 'variant')} rejected"] if rejections else []


def _no_regression_text(findings: Findings) -> str:
    """Never claim calm where nothing was decided."""
    if not findings.verdicts:
        return "nothing was compared"
    if any(is_open(verdict) for verdict in findings.verdicts):
        return "no regression found, some results inconclusive"
    if all(verdict.kind is VerdictKind.MISSING for verdict in findings.verdicts):
        return "nothing could be compared"
    return "no regression"
