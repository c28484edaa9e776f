"""One plain sentence per verdict."""

import pytest

from perfci.model import ChangePoint, Stage, Status, VerdictKind
from perfci.report.charts.series_trend import build_trend, hide_levels_of_informational_trend
from perfci.report.verdict_sentences import (
    comparison_sentence,
    project_overview_sentence,
    rank_verdicts_by_severity,
    trend_sentence,
    verdict_counts_sentence,
    verdict_sentence,
)
from tests.support.report_builders import (
    a_failure,
    a_history,
    a_point,
    a_series,
    a_verdict,
    one_verdict_per_kind,
)


def test_a_regression_says_by_how_much_and_how_noisy() -> None:
    assert verdict_sentence(a_verdict()) == (
        "train.time_step got 18.3 % slower [15.9, 20.8], 10 pairs; noise floor 1.2 %"
    )


def test_every_kind_has_its_sentence() -> None:
    assert [verdict_sentence(verdict) for verdict in one_verdict_per_kind()[1:]] == [
        "memory.peakmem_step needs 20.0 % less memory [17.0, 22.0], 10 pairs; noise floor 1.2 %",
        "train.time_data unchanged: +0.3 % [−0.9, +1.4], 10 pairs; minimum detectable effect 2.1 %",
        "inconclusive: serve.track_tokens(8) · throughput −3.1 % [−7.5, +1.2], 10 pairs; "
        "about 14 more pairs would decide",
        "serve.time_first_token is not comparable: the driver changed from 550 to 560",
        "serve.time_new was not measured on both sides: the benchmark is new at head",
        "train.time_compiled failed at 0012001200: RuntimeError: @team broke | `it`",
    ]


def test_a_large_factor_is_no_percentage() -> None:
    verdict = a_verdict(ratio=7.49, interval=(7.1, 7.9))

    assert verdict_sentence(verdict).startswith(
        "train.time_step takes 7.49 times as long [7.1, 7.9], 10 pairs"
    )


def test_more_of_a_good_thing_is_better() -> None:
    throughput = a_series("serve.track_tokens", "tokens/s", "throughput", "higher")
    verdict = a_verdict(VerdictKind.IMPROVEMENT, 1.2, (1.1, 1.3), series=throughput)

    assert "rose 20.0 % (better) [10.0, 30.0]" in verdict_sentence(verdict)


def test_a_candidate_is_marked_as_not_confirmed() -> None:
    assert "not yet confirmed on new pairs" in verdict_sentence(a_verdict(stage=Stage.SCREENING))


def test_an_interval_around_no_change_keeps_its_signs() -> None:
    assert "slower [−1.0, +20.8]" in verdict_sentence(a_verdict(interval=(0.99, 1.208)))


def test_an_inconclusive_verdict_without_a_plan_says_why() -> None:
    assert verdict_sentence(a_verdict(VerdictKind.INCONCLUSIVE)).endswith(
        "no practical number of pairs would decide it"
    )
    assert verdict_sentence(a_verdict(VerdictKind.INCONCLUSIVE, reason="two modes")).endswith("; two modes")


def test_a_hostile_name_writes_no_control_characters() -> None:
    sentence = verdict_sentence(a_verdict(series=a_series("evil\x1b[2J\n\u202egnp")))

    assert sentence.startswith("evil�[2J��gnp got")


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
    assert str(comparison_sentence([a_verdict(kind) for kind in kinds])).startswith(opening)


def test_candidates_are_counted_apart_from_confirmed_changes() -> None:
    verdicts = [a_verdict(), a_verdict(stage=Stage.SCREENING), a_verdict(stage=Stage.SCREENING)]

    assert verdict_counts_sentence(verdicts) == "1 regression, 2 candidate regressions"


def test_the_severest_verdict_leads() -> None:
    assert [
        verdict.kind.value for verdict in rank_verdicts_by_severity(reversed(one_verdict_per_kind()))
    ] == [
        "failed",
        "regression",
        "inconclusive",
        "not_comparable",
        "missing",
        "improvement",
        "unchanged",
    ]


def test_an_overview_reports_no_regression_only_where_something_was_compared() -> None:
    unchanged = project_overview_sentence([], series=6, commits=40, compared=True)
    not_compared = project_overview_sentence([], series=6, commits=40, compared=False)

    assert str(unchanged) == "No open regression in 6 series over 40 commits."
    assert str(not_compared) == "Nothing was compared yet. Measured: 6 series over 40 commits."


def test_an_overview_reports_open_incidents_and_an_empty_project() -> None:
    with_incidents = project_overview_sentence([], series=6, commits=40, compared=False, incidents=2)
    empty = project_overview_sentence([], series=0, commits=3, compared=False)

    assert (
        str(with_incidents)
        == "2 open incidents. No regression has been confirmed on new pairs in 6 series over 40 commits."
    )
    assert str(empty) == "Nothing was measured yet."


def test_an_overview_names_the_worst_regression() -> None:
    sentence = project_overview_sentence(
        [a_verdict(), a_verdict(ratio=1.4, interval=(1.3, 1.5))], series=6, commits=40, compared=True
    )

    assert sentence.headline == "2 open regressions"
    assert str(sentence) == (
        "2 open regressions. Worst: train.time_step got 40.0 % slower [30.0, 50.0], 10 pairs; "
        "noise floor 1.2 %."
    )


def test_a_trend_reports_its_level_and_last_change() -> None:
    points = [*a_history(), a_failure(30)]

    assert str(trend_sentence(build_trend(a_series(), points, [], [a_verdict()]))) == (
        "train.time_step is at 14.67 ms. Last change: got 18.3 % slower at 0012001200; 1 commit failed."
    )


def test_a_trend_without_a_confirmed_change_says_so() -> None:
    unchanged = build_trend(a_series(), a_history(factor=1.0))
    step = ChangePoint(a_series(), a_verdict().head, a_verdict().base, 0.18, 0.0124, 0.0147)
    candidate = build_trend(a_series(), a_history(), [step])

    assert str(trend_sentence(unchanged)).endswith(". No change is recorded over 30 commits.")
    assert str(trend_sentence(candidate)).endswith(". 1 candidate change not confirmed.")
    assert str(trend_sentence(build_trend(a_series(), [a_failure(0)]))) == (
        "train.time_step has no measured value yet. 1 commit failed."
    )


def test_an_informational_series_reports_only_its_last_value() -> None:
    trend = hide_levels_of_informational_trend(
        build_trend(a_series(), [a_point(0, 0.0124), a_point(1, 0.0147), a_failure(2)])
    )

    assert str(trend_sentence(trend)) == "train.time_step was 14.70 ms at 0001000100. 1 commit failed."


def test_a_trend_that_the_machine_cannot_measure_says_why() -> None:
    skipped = a_failure(0, Status.SKIPPED, "NVML reads NVIDIA GPUs only, and this device is not one.")

    assert str(trend_sentence(build_trend(a_series(), [skipped]))) == (
        "train.time_step cannot be measured on this machine. "
        "Reason: NVML reads NVIDIA GPUs only, and this device is not one."
    )
    assert trend_sentence(build_trend(a_series(), [skipped, a_failure(1)])).detail == "1 commit failed"
