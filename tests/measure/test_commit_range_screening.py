"""Candidates for fresh pairs that need no step along the line: exact values and failures."""

from __future__ import annotations

from perfci.measure.commit_range_screening import screen_neighbouring_commits
from perfci.measure.measure_and_store_session import SessionReadings
from perfci.model import Clock, Process, Series, Verdict
from perfci.verdicts.judging_policy import Policy
from tests.support.builders import a_failed_process, a_process, a_series

COUNT = a_series("model.track_operators", "operators", unit="count")
TIME = a_series("training.time_step")
LINE = [("a", "b"), ("b", "c"), ("c", "d")]


def candidates(series: Series, **processes: list[Process]) -> list[Verdict]:
    readings = SessionReadings()
    for sha, of_commit in processes.items():
        for process in of_commit:
            readings.add_process(sha, len(readings), series, process)
    return list(screen_neighbouring_commits(readings, LINE, Policy()).candidates)


def counted(value: float) -> list[Process]:
    return [a_process(value, clock=Clock.EXACT)]


def test_a_count_that_moves_beyond_the_bar_of_its_class_is_a_candidate() -> None:
    (moved,) = candidates(COUNT, a=counted(100), b=counted(101), c=counted(101), d=counted(101))

    assert (moved.base, moved.head, moved.evidence) == ("a", "b", (0, 1))


def test_a_commit_that_stops_working_is_a_candidate() -> None:
    working = [a_process(1.0 + k / 1000, round=k) for k in range(5)]
    failing = [a_failed_process(round=k) for k in range(5)]

    (failed,) = candidates(TIME, a=working, b=working, c=failing, d=failing)

    assert (failed.base, failed.head) == ("b", "c")
