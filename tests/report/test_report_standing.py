"""Which regressions are still there, and the machine-readable twins."""

import json

from perfci.model import Direction, Stage, VerdictKind
from perfci.report.charts.series_trend import Trend, build_trend
from perfci.report.charts.trend_ranking import find_largest_changes, find_open_regressions
from perfci.report.serializers import serialize_trend, serialize_verdict
from tests.support.report_builders import a_failure, a_history, a_series, a_verdict, one_of_each


def moved(
    *moves: tuple[int, float], direction: Direction = "lower", stage: Stage = Stage.CONFIRMATION
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
        for commit, ratio in moves
    ]
    return build_trend(series, a_history(), [], verdicts)


def test_a_regression_stays_open_until_it_is_made_good() -> None:
    assert [mark.index for mark in find_open_regressions(moved((10, 1.2)))] == [10]
    assert find_open_regressions(moved((10, 1.2), (13, 1 / 1.2))) == []


def test_a_revert_closes_only_what_it_reverts() -> None:
    trend = moved((5, 1.15), (10, 1.2), (13, 1 / 1.2))

    assert [mark.index for mark in find_open_regressions(trend)] == [5]


def test_what_was_reverted_stays_closed_when_something_else_gets_worse() -> None:
    trend = moved((5, 1.3), (8, 1 / 1.3), (14, 1.2))

    assert [mark.index for mark in find_open_regressions(trend)] == [14]


def test_half_a_repair_leaves_it_open() -> None:
    assert len(find_open_regressions(moved((10, 1.2), (13, 0.95)))) == 1


def test_less_of_a_good_thing_is_a_regression_too() -> None:
    assert len(find_open_regressions(moved((10, 0.8), direction="higher"))) == 1
    assert find_open_regressions(moved((10, 0.8), (12, 1.25), direction="higher")) == []


def test_a_suspicion_is_no_open_regression() -> None:
    assert find_open_regressions(moved((10, 1.2), stage=Stage.SCREENING)) == []


def test_the_biggest_move_leads_and_confirmed_ones_come_first() -> None:
    small, large, suspected = moved((10, 1.1)), moved((10, 0.5)), moved((10, 3.0), stage=Stage.SCREENING)

    found = [trend for trend, _ in find_largest_changes([small, suspected, large], 3)]

    assert found == [large, small, suspected]


def test_every_verdict_travels_as_json_with_its_sentence() -> None:
    told = [serialize_verdict(verdict) for verdict in one_of_each()]

    assert json.loads(json.dumps(told)) == told
    assert told[0]["verdict"] == "regression"
    assert told[0]["interval"] == [1.159, 1.208]
    assert told[0]["sentence"].startswith("train.time_step(8, 'bf16') got 18.3 % slower")


def test_a_trend_travels_as_json_with_what_the_page_shows() -> None:
    told = serialize_trend(build_trend(a_series(), [*a_history(), a_failure(30)], [], [a_verdict()]))

    assert json.loads(json.dumps(told)) == told | {"axis": list(told["axis"])}
    assert told["axis"][0] < 0.0124 < 0.0147 < told["axis"][1]
    assert told["scale"] == {"factor": 0.001, "symbol": "ms"}
    assert told["points"][0]["value_text"].endswith(" ms")
    assert told["points"][30] | {"value": None, "status": "oom", "value_text": "oom"} == told["points"][30]
    assert [change["state"] for change in told["changes"]] == ["confirmed"]
