"""Decide the check run and the commit status of a comparison, and write their titles."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from perfci.report.escaping import make_printable
from perfci.report.pulls.comparison_findings import (
    Findings,
    leaves_question_open,
    may_fail_check,
    verdict_count_label,
)
from perfci.report.pulls.comparison_headline import build_comparison_headline
from perfci.report.pulls.not_measured_comment import TITLES, NotMeasuredReason
from perfci.verdicts.goals.goal_verdict import GoalOutcome

GateMode = Literal["advisory", "block"]
"""Whether a regression may fail a required check."""

CheckConclusion = Literal["success", "neutral", "failure", "cancelled", "timed_out"]
CommitStatusState = Literal["success", "failure", "error"]

MAX_STATUS_LENGTH = 140
"""GitHub's limit for the description of a commit status, in characters."""


class CheckState(StrEnum):
    """The state of a pull request with regard to its check."""

    PASSED = "passed"  # all within their bars, with enough evidence
    WORSE = "worse"  # a regression, a head that fails, a broken goal
    ACCEPTED = "accepted"  # worse, but accepted or expected by someone with write access
    OPEN = "open"  # inconclusive, not comparable, removed, or nothing to compare with
    IDENTICAL = "identical"  # no file that the benchmarks depend on differs
    NOT_RUN = "not run"  # cancelled, or no time
    BROKEN = "error"  # the measurement failed: the server, the runner or the harness


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The conclusion of a check run, and the commit status used where no GitHub App is installed."""

    check: CheckConclusion
    status: CommitStatusState


CHECK_RESULTS: dict[tuple[CheckState, GateMode], CheckResult] = {
    (CheckState.PASSED, "advisory"): CheckResult("success", "success"),
    (CheckState.PASSED, "block"): CheckResult("success", "success"),
    (CheckState.WORSE, "advisory"): CheckResult("neutral", "success"),
    (CheckState.WORSE, "block"): CheckResult("failure", "failure"),
    (CheckState.ACCEPTED, "advisory"): CheckResult("success", "success"),
    (CheckState.ACCEPTED, "block"): CheckResult("success", "success"),
    (CheckState.OPEN, "advisory"): CheckResult("neutral", "success"),
    (CheckState.OPEN, "block"): CheckResult("neutral", "success"),
    (CheckState.IDENTICAL, "advisory"): CheckResult("success", "success"),
    (CheckState.IDENTICAL, "block"): CheckResult("success", "success"),
    (CheckState.NOT_RUN, "advisory"): CheckResult("neutral", "error"),
    (CheckState.NOT_RUN, "block"): CheckResult("cancelled", "error"),
    (CheckState.BROKEN, "advisory"): CheckResult("neutral", "error"),
    (CheckState.BROKEN, "block"): CheckResult("timed_out", "error"),
}
"""The result for each state and gate.

*success* and *neutral* both satisfy a required check, and a status has no neutral: the title says there
what is not a success. A comparison that did not run never satisfies a blocking gate."""

STATES_NOT_MEASURED = {
    NotMeasuredReason.IDENTICAL: CheckState.IDENTICAL,
    NotMeasuredReason.CANCELLED: CheckState.NOT_RUN,
    NotMeasuredReason.BUDGET: CheckState.NOT_RUN,
    NotMeasuredReason.BROKEN: CheckState.BROKEN,
}
"""The state for each reason why nothing was measured."""


def decide_check_result(findings: Findings | NotMeasuredReason, gate: GateMode = "advisory") -> CheckResult:
    """Return the check conclusion and the commit status."""
    return CHECK_RESULTS[classify_findings(findings), gate]


def classify_findings(findings: Findings | NotMeasuredReason) -> CheckState:
    """Classify the findings.

    Only confirmed regressions, failures, rejected variants and broken goals count as worse; candidates
    do not.
    """
    if isinstance(findings, NotMeasuredReason):
        return STATES_NOT_MEASURED[findings]
    outcomes = {goal.outcome for goal in findings.goals}
    primary_verdicts = findings.primary_verdicts
    worse = [verdict for verdict in primary_verdicts if may_fail_check(verdict)]
    unexpected = [verdict for verdict in worse if not findings.is_expected(verdict)]
    if unexpected or outcomes & {GoalOutcome.BROKEN, GoalOutcome.REJECTED} or findings.rejections:
        return CheckState.ACCEPTED if findings.acceptance else CheckState.WORSE
    if worse:
        return CheckState.ACCEPTED
    undecided = any(map(leaves_question_open, primary_verdicts)) or GoalOutcome.UNDECIDED in outcomes
    labels = set(map(verdict_count_label, findings.verdicts))
    nothing_judged = labels <= {"new", "not measured"}
    return CheckState.OPEN if undecided or nothing_judged else CheckState.PASSED


def format_check_title(findings: Findings | NotMeasuredReason) -> str:
    """Return the title of the check as one line of plain text."""
    if isinstance(findings, NotMeasuredReason):
        return _capitalize(TITLES[findings])
    title = _capitalize(str(build_comparison_headline(findings)))
    if classify_findings(findings) is not CheckState.ACCEPTED:
        return title
    return f"{title} ({'accepted' if findings.acceptance else 'as expected'})"


def format_status_description(findings: Findings | NotMeasuredReason, gate: GateMode = "advisory") -> str:
    """Return the description of the commit status, shortened to GitHub's limit."""
    advisory = " (advisory)" if gate == "advisory" and classify_findings(findings) is CheckState.WORSE else ""
    return make_printable(format_check_title(findings), MAX_STATUS_LENGTH - len(advisory)) + advisory


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]
