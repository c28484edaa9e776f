"""The headline and detail of a page."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfci.model import ChangePoint, Status, VerdictKind
from perfci.report.page_summaries import comparison_summary, project_overview_summary, trend_summary
from perfci.report.series_trend import build_trend
from perfci.verdicts.history.trend_sensitivity import TrendSensitivity
from tests.support.report_builders import (
    a_failure,
    a_history,
    a_point,
    a_series,
    a_verdict,
)


@pytest.mark.parametrize(
    ("kinds", "opening"),
    [
        ([], "Nothing was compared."),
        ([VerdictKind.UNCHANGED] * 2, "No regression: 2 unchanged."),
        (
            [VerdictKind.IMPROVEMENT, VerdictKind.UNCHANGED],
            "No regression: 1 improvement, 1 unchanged. Largest: ",
        ),
        (
            [VerdictKind.INCONCLUSIVE, VerdictKind.UNCHANGED],
            "No regression found, some results inconclusive: 1 inc",
        ),
        ([VerdictKind.REGRESSION] * 2, "2 regressions. Worst: train.time_step got 18.3 % slower"),
        ([VerdictKind.REGRESSION], "1 regression. train.time_step got"),
    ],
)
def test_a_comparison_is_answered_in_one_sentence(kinds: list[VerdictKind], opening: str) -> None:
    assert str(comparison_summary([a_verdict(kind) for kind in kinds])).startswith(opening)


def test_an_overview_reports_no_regression_only_where_something_was_compared() -> None:
    unchanged = project_overview_summary([], series=6, commits=40, compared=True)
    not_compared = project_overview_summary([], series=6, commits=40, compared=False)

    assert str(unchanged) == "No open regression in 6 series over 40 commits."
    assert str(not_compared) == "Nothing was compared yet. Measured: 6 series over 40 commits."


def test_an_overview_reports_open_incidents_and_an_empty_project() -> None:
    with_incidents = project_overview_summary([], series=6, commits=40, compared=False, incidents=2)
    empty = project_overview_summary([], series=0, commits=3, compared=False)

    assert (
        str(with_incidents)
        == "2 open incidents. No regression has been confirmed on new pairs in 6 series over 40 commits."
    )
    assert str(empty) == "Nothing was measured yet."


def test_an_overview_names_the_worst_regression() -> None:
    sentence = project_overview_summary(
        [a_verdict(), a_verdict(ratio=1.4, interval=(1.3, 1.5))], series=6, commits=40, compared=True
    )

    assert sentence.headline == "2 open regressions"
    assert str(sentence) == (
        "2 open regressions. Worst: train.time_step got 40.0 % slower [30.0, 50.0], 10 pairs; "
        "noise floor 1.2 %."
    )


def test_a_trend_reports_its_level_and_last_change() -> None:
    points = [*a_history(), a_failure(30)]

    assert str(trend_summary(build_trend(a_series(), points, [], [a_verdict()]))) == (
        "train.time_step is broken since 1 Apr 2026: 1 failure; was 14.67 ms. "
        "Last reason: CUDA out of memory."
    )
    assert str(trend_summary(build_trend(a_series(), a_history(), [], [a_verdict()]))) == (
        "train.time_step is 14.67 ms, +18.3 % since 0012001 (20 Mar 2026, confirmed by A/B rerun). "
        "Measured in pairs: 12.40 ms → 14.67 ms."
    )


def test_a_trend_without_a_confirmed_change_says_so() -> None:
    unchanged = build_trend(a_series(), a_history(factor=1.0))
    step = ChangePoint(a_series(), a_verdict().head, a_verdict().base, 0.0124, 0.0147)
    candidate = build_trend(a_series(), a_history(), [step])

    assert str(trend_summary(unchanged)).endswith(". No change is recorded over 30 commits.")
    noisy = TrendSensitivity(noise=0.016, smallest_step=0.042)
    assert str(trend_summary(candidate, noisy, {step.commit: 19})) == (
        "train.time_step is 14.70 ms, +18.5 % since 0012001 (20 Mar 2026, not confirmed, #19). "
        "Before: 12.40 ms for 18 commits. "
        "Noise ±1.6 %; steps under 4.2 % would not show within 10 commits."
    )
    assert str(trend_summary(build_trend(a_series(), [a_failure(0)]))) == (
        "train.time_step has no measured value yet. 1 commit failed."
    )


def test_an_informational_series_reports_only_its_last_value() -> None:
    points = [a_point(0, 0.0124), a_point(1, 0.0147), a_failure(2)]
    trend = replace(build_trend(a_series(), points), levels=())

    assert str(trend_summary(trend)) == (
        "train.time_step is broken since 4 Mar 2026: 1 failure; was 14.70 ms. "
        "Last reason: CUDA out of memory."
    )


def test_a_trend_that_the_machine_cannot_measure_says_why() -> None:
    skipped = a_failure(0, Status.SKIPPED, "NVML reads NVIDIA GPUs only, and this device is not one.")

    assert str(trend_summary(build_trend(a_series(), [skipped]))) == (
        "train.time_step cannot be measured on this machine. "
        "Reason: NVML reads NVIDIA GPUs only, and this device is not one."
    )
    assert trend_summary(build_trend(a_series(), [skipped, a_failure(1)])).detail == "1 commit failed"
