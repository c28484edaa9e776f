"""Ranking of trends, and serialized verdicts and trends."""

import json

from perfci.model import Direction, Stage, VerdictKind
from perfci.report.notable_changes import find_open_regressions, rank_largest_change_per_series
from perfci.report.serializers import serialize_trend, serialize_verdict
from perfci.report.series_trend import Trend, build_trend
from tests.support.report_builders import a_failure, a_history, a_series, a_verdict, one_verdict_per_kind


def trend_with_changes(
    *changes: tuple[int, float], direction: Direction = "lower", stage: Stage = Stage.CONFIRMATION
) -> Trend:
    """A series with confirmed moves at some commits."""
    series = a_series(direction=direction)
    verdicts = [
        a_verdict(
            VerdictKind.REGRESSION if (ratio > 1) == (direction == "lower") else VerdictKind.IMPROVEMENT,
            ratio,
            series=series,
            base=commit - 1,
            head=commit,
            stage=stage,
        )
        for commit, ratio in changes
    ]
    return build_trend(series, a_history(), [], verdicts)


def test_a_regression_stays_open_until_it_recovers() -> None:
    assert [mark.index for mark in find_open_regressions(trend_with_changes((10, 1.2)))] == [10]
    assert find_open_regressions(trend_with_changes((10, 1.2), (13, 1 / 1.2))) == []


def test_a_revert_closes_only_what_it_reverts() -> None:
    trend = trend_with_changes((5, 1.15), (10, 1.2), (13, 1 / 1.2))

    assert [mark.index for mark in find_open_regressions(trend)] == [5]


def test_a_reverted_regression_stays_closed_after_another_one() -> None:
    trend = trend_with_changes((5, 1.3), (8, 1 / 1.3), (14, 1.2))

    assert [mark.index for mark in find_open_regressions(trend)] == [14]


def test_a_partial_recovery_leaves_it_open() -> None:
    assert len(find_open_regressions(trend_with_changes((10, 1.2), (13, 0.95)))) == 1


def test_a_decrease_is_a_regression_where_higher_is_better() -> None:
    assert len(find_open_regressions(trend_with_changes((10, 0.8), direction="higher"))) == 1
    assert find_open_regressions(trend_with_changes((10, 0.8), (12, 1.25), direction="higher")) == []


def test_a_candidate_is_no_open_regression() -> None:
    assert find_open_regressions(trend_with_changes((10, 1.2), stage=Stage.SCREENING)) == []


def test_changes_are_ranked_confirmed_first_then_by_size() -> None:
    small, large, candidate = (
        trend_with_changes((10, 1.1)),
        trend_with_changes((10, 0.5)),
        trend_with_changes((10, 3.0), stage=Stage.SCREENING),
    )

    trends = [trend for trend, _ in rank_largest_change_per_series([small, candidate, large], 3)]

    assert trends == [large, small, candidate]


def test_a_verdict_is_serialized_with_its_sentence() -> None:
    fields = [serialize_verdict(verdict) for verdict in one_verdict_per_kind()]

    assert json.loads(json.dumps(fields)) == fields
    assert fields[0]["verdict"] == "regression"
    assert fields[0]["interval"] == [1.159, 1.208]
    assert fields[0]["sentence"].startswith("train.time_step(8, 'bf16') got 18.3 % slower")


def test_a_trend_is_serialized_with_what_the_page_shows() -> None:
    fields = serialize_trend(build_trend(a_series(), [*a_history(), a_failure(30)], [], [a_verdict()]))

    assert json.loads(json.dumps(fields)) == fields | {"axis": list(fields["axis"])}
    assert fields["axis"][0] < 0.0124 < 0.0147 < fields["axis"][1]
    assert fields["scale"] == {"factor": 0.001, "symbol": "ms"}
    assert fields["points"][0]["value_text"].endswith(" ms")
    assert (
        fields["points"][30] | {"value": None, "status": "oom", "value_text": "oom"} == fields["points"][30]
    )
    assert [change["state"] for change in fields["changes"]] == ["confirmed"]
