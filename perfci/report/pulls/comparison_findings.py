"""Hold the findings of a comparison, the source of its comment, summary, check run and status."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from perfci.model import Commit, EnvironmentChange, MetricClass, PerfciError, Series, Verdict, VerdictKind
from perfci.report.verdict_groups import VerdictGroup, group_verdicts
from perfci.report.verdict_text import verdict_label
from perfci.verdicts.compare.pooled_verdict import PooledVerdict
from perfci.verdicts.expected_change import ExpectedChange
from perfci.verdicts.goals.goal_verdict import GoalVerdict
from perfci.verdicts.judging_policy import Policy
from perfci.verdicts.variants.variant_contrast import VariantRejection

MeasurementOrder = Literal["in turns", "interleaved", "recorded", ""]
"""How the two sides were measured; empty if not known."""

REMOVED = "removed"
"""The label of a benchmark that was measured at base and is absent at head."""

CANDIDATE_REGRESSION = "candidate regression"
"""The label of a regression seen in screening and not yet confirmed on new pairs."""

IDENTICAL_INPUTS_NOTE = (
    "No file that the benchmarks depend on differs, "
    "so any change reported here is a false alarm and is counted as one."
)


@dataclass(frozen=True, slots=True)
class SeparateRuns:
    """How many uploads of the head were compared with how many runs of the main branch, of how many days."""

    uploads: int
    base_runs: int
    days: int


@dataclass(frozen=True, slots=True)
class VerdictBar:
    """The metric class of a verdict, the smallest change that counts (0: any), and whether it gates."""

    metric_class: MetricClass
    min_change: float
    gates: bool = True


@dataclass(frozen=True, slots=True)
class Findings:
    """The findings of a comparison and what is needed to interpret them.

    - ``sides_label`` names the two sides if they are not two commits.
    - ``separate_runs``: the sides were not measured side by side, but uploaded as other tools measured them.
    - ``main_drift`` are verdicts of the same base against ``main_head``, the head of the target branch.
    - ``spent_budget`` is the time budget, if it ended the measurement.
    - ``bars`` has one entry per verdict, or none for the defaults of the metric classes.
    - ``strict``: the whole interval had to exceed the bar. ``smoke``: problem sizes were reduced.
    - ``acceptance`` says by whom and why the changes were accepted; the comment ``accept_command`` does so.
    - ``expected_changes`` were declared by the pull request beforehand.
    - ``reproduce_command`` measures the same again, where naming the two commits does not.
    - ``report_url`` is the page of the comparison on the dashboard, the only link that is written.
    - ``profiled_cells`` have profiles of base and head in the artifact.
    - ``explanations`` say, as Markdown, which line of the code a slowdown comes from.
    - ``identical_inputs``: no file that the benchmarks depend on differs.
    """

    verdicts: Sequence[Verdict]
    base: Commit
    head: Commit
    merge_base: bool = False
    sides_label: str = ""
    measurement_order: MeasurementOrder = ""
    separate_runs: SeparateRuns | None = None
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
    explanations: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.bars and len(self.bars) != len(self.verdicts):
            raise PerfciError(f"There are {len(self.verdicts)} verdicts and {len(self.bars)} bars.")

    def is_expected(self, verdict: Verdict) -> bool:
        """Whether an authorized expected change covers the verdict."""
        return any(
            expected.is_authorized and expected.allows_verdict(verdict) for expected in self.expected_changes
        )

    @property
    def verdict_groups(self) -> list[VerdictGroup]:
        """The verdicts grouped by the change they show; every verdict is in one group."""
        bars = self.bars_by_series
        return group_verdicts(self.verdicts, lambda series: bars[series].gates)

    @property
    def primary_verdicts(self) -> list[Verdict]:
        """The primary verdict of each group, without counts that moved and gate nothing."""
        return [group.primary for group in self.verdict_groups if group.gates]

    @property
    def bars_by_series(self) -> dict[Series, VerdictBar]:
        """The bar of each series; those of the default policy unless given."""
        bars = self.bars or compute_verdict_bars(self.verdicts, Policy())
        return {verdict.series: bar for verdict, bar in zip(self.verdicts, bars, strict=True)}


def compute_verdict_bars(verdicts: Sequence[Verdict], policy: Policy) -> list[VerdictBar]:
    """Compute the bar of each verdict under a policy."""
    rules = [policy.rule_for(verdict.series) for verdict in verdicts]
    return [
        VerdictBar(
            policy.metric_class_of(verdict.series),
            rule.effective_exact_bar if has_exact_interval(verdict) else rule.bar,
            policy.is_gating(verdict.series),
        )
        for verdict, rule in zip(verdicts, rules, strict=True)
    ]


def verdict_count_label(verdict: Verdict) -> str:
    """Return the label a verdict is counted under; a missing one is removed, new or not measured."""
    if verdict.kind is not VerdictKind.MISSING:
        return verdict_label(verdict)
    if verdict.base_level is not None:
        return REMOVED if verdict.head_level is None else "not comparable"
    return "not measured" if verdict.head_level is None else "new"


def leaves_question_open(verdict: Verdict) -> bool:
    """Whether a verdict leaves a question open; a new benchmark has nothing to compare with."""
    return verdict_count_label(verdict) in {"inconclusive", "not comparable", REMOVED, CANDIDATE_REGRESSION}


def may_fail_check(verdict: Verdict) -> bool:
    """Whether a verdict may fail a check: a confirmed regression or a failure."""
    return verdict_count_label(verdict) in {"failed", "regression"}


def has_exact_interval(verdict: Verdict) -> bool:
    """Whether both sides were counted exactly, so that the interval has no width."""
    return verdict.interval is not None and verdict.interval.lo == verdict.interval.hi
