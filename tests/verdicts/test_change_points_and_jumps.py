"""Change points on the history of a series."""

import numpy as np

from perfci.model import Point, Status
from perfci.verdicts.comparison_rule import Rule
from perfci.verdicts.history.change_points_and_jumps import SegmentationCache, find_change_points_in_levels
from tests.support.builders import a_commit, a_failed_process, a_process, a_series, a_sha, a_summary
from tests.support.level_histories import find_change_points

SERIES = a_series()


def line(*levels: float, each: int = 15) -> list[Point]:
    rng = np.random.default_rng(1)
    values = np.repeat(levels, each) * np.exp(rng.normal(0, 0.005, each * len(levels)))
    return [Point(a_commit(k), Status.OK, (a_process(float(v)),)) for k, v in enumerate(values)]


def test_gives_the_commit_and_the_last_good_one() -> None:
    (point,) = find_change_points(SERIES, line(1.0, 1.2))

    assert (point.series, point.commit, point.last_good) == (SERIES, a_sha(15), a_sha(14))
    assert abs(point.relative_change - 0.2) < 0.01
    assert abs(point.before - 1.0) < 0.01
    assert abs(point.after - 1.2) < 0.01


def test_a_commit_that_failed_widens_the_range() -> None:
    points = line(1.0, 1.2)
    points[15] = Point(a_commit(15), Status.FAILED, (a_failed_process(),))

    (point,) = find_change_points(SERIES, points)

    assert (point.commit, point.last_good) == (a_sha(16), a_sha(14))


def test_a_throttled_commit_is_no_change_point() -> None:
    points = line(1.0, 1.0)
    for k in range(10, 16):
        points[k] = Point(a_commit(k), Status.OK, (a_process(1.5, flags=("throttled: hot",)),))

    assert find_change_points(SERIES, points) == []


def test_summaries_of_foreign_tools_are_segmented_too() -> None:
    points = [Point(a_commit(k), Status.OK, (), a_summary(1.0 + 0.3 * (k >= 10))) for k in range(20)]

    assert [point.commit for point in find_change_points(SERIES, points)] == [a_sha(10)]


def test_uses_the_bar_of_the_rule() -> None:
    points = line(1.0, 1.08)

    assert len(find_change_points(SERIES, points)) == 1
    assert find_change_points(SERIES, points, rule=Rule(bar=0.15)) == []


def test_fewer_than_eight_points_get_no_verdict() -> None:
    assert find_change_points(SERIES, line(1.0, 2.0, each=3)) == []
    assert find_change_points(SERIES, []) == []


def levels(*values: float) -> list[tuple[str, float]]:
    return [(a_sha(k), value) for k, value in enumerate(values)]


def test_a_cached_history_gives_the_change_points_of_a_fresh_one() -> None:
    memory, grown = SegmentationCache(), levels(*[1.0, 1.01, 0.99] * 10, *[1.2, 1.21, 1.19])

    for end in range(len(grown) + 1):
        histories = find_change_points_in_levels({SERIES: grown[:end]}, cache=memory)

        assert histories == find_change_points_in_levels({SERIES: grown[:end]})

    assert [move.commit for move in histories[SERIES]] == [a_sha(30)]


def test_the_cache_is_used_only_as_far_as_values_are_unchanged() -> None:
    memory, before = SegmentationCache(), levels(*[1.0, 1.01, 0.99] * 10)
    find_change_points_in_levels({SERIES: before}, cache=memory)

    corrected = levels(*[1.0, 1.01, 0.99] * 5, *[1.2, 1.21, 1.19] * 5)

    cached = find_change_points_in_levels({SERIES: corrected}, cache=memory)
    assert cached == find_change_points_in_levels({SERIES: corrected})


def test_evicts_the_least_recently_used_history_first() -> None:
    memory, line = SegmentationCache(max_points=40), levels(*[1.0, 1.01] * 10)
    several = [a_series(benchmark=name) for name in "abc"]

    for series in several:
        find_change_points_in_levels({series: line}, cache=memory)

    assert several[0] not in memory
    assert several[1] in memory
    assert several[2] in memory
