"""Write the headline of a comparison: verdicts counted by label, broken goals, rejected variants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from perfci.model import Verdict, VerdictKind
from perfci.number_format import format_count
from perfci.report.pulls.comparison_findings import (
    CANDIDATE_REGRESSION,
    REMOVED,
    Findings,
    leaves_question_open,
    verdict_count_label,
)
from perfci.verdicts.goals.goal_verdict import GoalOutcome

LEADING_LABELS = (
    ("failed", "failed"),
    ("regression", "regressions"),
    (CANDIDATE_REGRESSION, "candidate regressions"),
    (REMOVED, REMOVED),
    ("improvement", "improvements"),
    ("candidate improvement", "candidate improvements"),
)
"""The labels that the headline leads with, most severe first, and their plurals."""

TRAILING_LABELS = (
    ("inconclusive", "inconclusive"),
    ("not comparable", "not comparable"),
    ("not measured", "not measured"),
    ("new", "new"),
    ("unchanged", "unchanged"),
)
"""The labels that follow in parentheses, and their plurals."""


@dataclass(frozen=True, slots=True)
class Headline:
    """Verdict counts by label: ``2 regressions, 1 improvement``, and ``3 inconclusive`` in ``trailing``."""

    lead: str
    trailing: str

    def __str__(self) -> str:
        return f"{self.lead} ({self.trailing})" if self.trailing else self.lead


def build_comparison_headline(findings: Findings) -> Headline:
    """Count changes, broken goals and rejections; no foreign text appears in a title."""
    primary_verdicts = findings.primary_verdicts
    counts = Counter(map(verdict_count_label, primary_verdicts))
    leading = _format_counts(counts, LEADING_LABELS)
    broken = sum(goal.outcome in (GoalOutcome.BROKEN, GoalOutcome.REJECTED) for goal in findings.goals)
    if broken:
        leading.append(f"{format_count(broken, 'goal')} broken")
    if findings.rejections:
        leading.append(f"{format_count(len(findings.rejections), 'variant')} rejected")
    lead = ", ".join(leading) or _no_regression_text(primary_verdicts or findings.verdicts)
    return Headline(lead, ", ".join(_format_counts(counts, TRAILING_LABELS)))


def _format_counts(counts: Counter[str], labels: Sequence[tuple[str, str]]) -> list[str]:
    return [format_count(counts[label], label, plural) for label, plural in labels if counts[label]]


def _no_regression_text(verdicts: Sequence[Verdict]) -> str:
    """Return the lead without counts; it says that results are inconclusive where some are."""
    if not verdicts:
        return "nothing was compared"
    if any(map(leaves_question_open, verdicts)):
        return "no regression found, some results inconclusive"
    if all(verdict.kind is VerdictKind.MISSING for verdict in verdicts):
        return "nothing could be compared"
    return "no regression"
