"""Which changes two thresholds have in common."""

from __future__ import annotations

from perfci.history.try_threshold import match_moved_changes
from perfci.model import ChangePoint, Series
from tests.support.builders import a_series, a_sha

SERIES, OTHER = a_series("train"), a_series("serve")
HISTORIES = {series: [(a_sha(number), 1.0) for number in range(1, 60)] for series in (SERIES, OTHER)}


def flagged(*changes: tuple[Series, int, float]) -> dict[tuple[Series, str], ChangePoint]:
    return {
        (series, a_sha(at)): ChangePoint(series, a_sha(at), a_sha(at - 1), 1.0, 1.0 + size)
        for series, at, size in changes
    }


def test_a_change_that_moves_by_some_commits_is_the_same() -> None:
    now, then = flagged((SERIES, 20, 0.2)), flagged((SERIES, 27, 0.25))

    assert match_moved_changes(now, then, HISTORIES).keys() == then.keys()


def test_another_series_direction_or_time_is_another_change() -> None:
    now = flagged((SERIES, 20, 0.2))

    for then in (flagged((OTHER, 22, 0.2)), flagged((SERIES, 22, -0.2)), flagged((SERIES, 29, 0.2))):
        assert match_moved_changes(now, then, HISTORIES).keys() == now.keys()


def test_each_change_is_matched_once() -> None:
    now, then = flagged((SERIES, 20, 0.2), (SERIES, 24, 0.2)), flagged((SERIES, 22, 0.4))

    matched = match_moved_changes(now, then, HISTORIES)

    assert len(matched) == 2
    assert (SERIES, a_sha(22)) in matched
