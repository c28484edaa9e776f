"""Check runs and commit statuses: every row of the table, and their titles."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfci.model import Stage, VerdictKind
from perfci.report.pulls.check_result import (
    CHECK_RESULTS,
    CheckState,
    GateMode,
    classify_findings,
    decide_check_result,
    format_check_title,
    format_status_description,
)
from perfci.report.pulls.comparison_findings import Findings
from perfci.report.pulls.not_measured_comment import NotMeasuredReason
from perfci.verdicts.expected_change import ExpectedChange
from perfci.verdicts.goals.goal_verdict import GoalOutcome
from perfci.verdicts.variants.variant_contrast import VariantRejection
from tests.support.comment_forms import (
    build_findings,
    failed,
    faster,
    goal,
    new,
    not_comparable,
    removed,
    same,
    slower,
    thousand,
    undecided,
)
from tests.support.report_builders import a_series, a_verdict

FINE = build_findings(same(3))
WORSE = build_findings([slower(), *same(3)])
ACCEPTED = replace(WORSE, acceptance="ada: it is meant")
EXPECTED = replace(WORSE, expected_changes=[ExpectedChange("step_time", 0.2, "it is meant")])
EXCEEDED = replace(WORSE, expected_changes=[ExpectedChange("step_time", 0.1, "it is meant")])
UNAUTHORIZED = replace(
    WORSE, expected_changes=[ExpectedChange("step_time", 0.2, "it is meant", is_authorized=False)]
)
OPEN = build_findings([undecided(), *same(3)])

TABLE: list[tuple[str, Findings | NotMeasuredReason, GateMode, str, str]] = [
    ("all within bounds", FINE, "advisory", "success", "success"),
    ("all within bounds", FINE, "block", "success", "success"),
    ("regression", WORSE, "advisory", "neutral", "success"),
    ("regression", WORSE, "block", "failure", "failure"),
    ("regression, acknowledged", ACCEPTED, "advisory", "success", "success"),
    ("regression, acknowledged", ACCEPTED, "block", "success", "success"),
    ("regression, announced", EXPECTED, "block", "success", "success"),
    ("regression, larger than announced", EXCEEDED, "block", "failure", "failure"),
    ("regression, announced by a stranger", UNAUTHORIZED, "block", "failure", "failure"),
    ("announced, and a goal is broken", replace(EXPECTED, goals=[goal()]), "block", "failure", "failure"),
    ("inconclusive", OPEN, "advisory", "neutral", "success"),
    ("inconclusive", OPEN, "block", "neutral", "success"),
    ("hardware mismatch", build_findings([not_comparable(), *same(3)]), "block", "neutral", "success"),
    ("no base", build_findings([new()]), "block", "neutral", "success"),
    ("nothing compared", build_findings([]), "block", "neutral", "success"),
    ("identical input", NotMeasuredReason.IDENTICAL, "advisory", "success", "success"),
    ("identical input", NotMeasuredReason.IDENTICAL, "block", "success", "success"),
    ("cancelled", NotMeasuredReason.CANCELLED, "advisory", "neutral", "error"),
    ("cancelled", NotMeasuredReason.CANCELLED, "block", "cancelled", "error"),
    ("out of time", NotMeasuredReason.BUDGET, "advisory", "neutral", "error"),
    ("out of time", NotMeasuredReason.BUDGET, "block", "cancelled", "error"),
    ("we broke", NotMeasuredReason.BROKEN, "advisory", "neutral", "error"),
    ("we broke", NotMeasuredReason.BROKEN, "block", "timed_out", "error"),
]


@pytest.mark.parametrize(("row", "findings", "gate", "check", "status"), TABLE)
def test_each_row_of_the_table(
    row: str, findings: Findings | NotMeasuredReason, gate: GateMode, check: str, status: str
) -> None:
    result = decide_check_result(findings, gate)

    assert (result.check, result.status) == (check, status)


def test_the_table_has_a_row_for_every_state_and_gate() -> None:
    assert {(classify_findings(findings), gate) for _, findings, gate, _, _ in TABLE} == set(CHECK_RESULTS)


@pytest.mark.parametrize("gate", ["advisory", "block"])
def test_only_what_is_decided_well_is_a_success(gate: GateMode) -> None:
    fine = {CheckState.PASSED, CheckState.ACCEPTED, CheckState.IDENTICAL}

    assert {state for state in CheckState if CHECK_RESULTS[state, gate].check == "success"} == fine


@pytest.mark.parametrize(
    ("findings", "state"),
    [
        (build_findings([faster(), *same(1)]), CheckState.PASSED),
        (build_findings([new(), *same(1)]), CheckState.PASSED),
        (build_findings([removed(), *same(1)]), CheckState.OPEN),
        (build_findings([failed(), *same(1)]), CheckState.WORSE),
        (build_findings([a_verdict(stage=Stage.SCREENING), *same(1)]), CheckState.OPEN),
        (build_findings(same(1), goals=[goal()]), CheckState.WORSE),
        (build_findings(same(1), goals=[replace(goal(), outcome=GoalOutcome.UNDECIDED)]), CheckState.OPEN),
        (
            build_findings(same(1), rejections=[VariantRejection("model.Gpt", (), "another loss")]),
            CheckState.WORSE,
        ),
        (build_findings([a_verdict(VerdictKind.MISSING, None, None, levels=(None, None))]), CheckState.OPEN),
        (build_findings([undecided(), slower()]), CheckState.WORSE),
    ],
)
def test_the_state_of_a_comparison(findings: Findings, state: CheckState) -> None:
    assert classify_findings(findings) is state


@pytest.mark.parametrize(
    ("findings", "gate", "title", "status"),
    [
        (FINE, "block", "No regression (3 unchanged)", "No regression (3 unchanged)"),
        (WORSE, "block", "1 regression (3 unchanged)", "1 regression (3 unchanged)"),
        (WORSE, "advisory", "1 regression (3 unchanged)", "1 regression (3 unchanged) (advisory)"),
        (ACCEPTED, "block", "1 regression (3 unchanged) (accepted)", "1 regression (3 unchanged) (accepted)"),
        (
            EXPECTED,
            "block",
            "1 regression (3 unchanged) (as expected)",
            "1 regression (3 unchanged) (as expected)",
        ),
        (NotMeasuredReason.CANCELLED, "block", "Not run", "Not run"),
        (
            build_findings(thousand()),
            "block",
            "1,000 regressions (200 unchanged)",
            "1,000 regressions (200 unchanged)",
        ),
    ],
)
def test_the_title_and_the_status_description(
    findings: Findings | NotMeasuredReason, gate: GateMode, title: str, status: str
) -> None:
    assert (format_check_title(findings), format_status_description(findings, gate)) == (title, status)


def test_a_status_is_never_longer_than_github_takes() -> None:
    kinds = [a_verdict(kind, stage=stage) for kind in VerdictKind for stage in Stage]
    absent = [
        a_verdict(VerdictKind.MISSING, levels=levels) for levels in ((1.0, None), (None, 1.0), (None, None))
    ]

    text = format_status_description(
        build_findings([*kinds, *absent] * 1234, goals=[goal()] * 1234), "advisory"
    )

    assert len(text) == 140
    assert text.startswith("3,702 failed, 2,468 regressions, 1,234 candidate regressions, ")
    assert text.endswith("… (advisory)")


def test_no_name_of_a_user_is_in_a_title_or_a_status() -> None:
    hostile = build_findings([a_verdict(series=a_series("@team <b>", metric="fixes #1"), reason="fixes #2")])

    assert format_check_title(hostile) == "1 regression"
    assert format_status_description(hostile) == "1 regression (advisory)"
