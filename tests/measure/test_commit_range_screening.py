"""Candidates for fresh pairs that need no step along the line: exact values and failures."""

from __future__ import annotations

from perfci.measure.commit_ranges.commit_range_screening import screen_neighbouring_commits
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


def test_a_phase_buys_no_pairs_where_its_step_is_measured() -> None:
    phase = a_series("gpt.MyModel.measure_training", "cpu_forward_time")
    step = a_series("gpt.MyModel.measure_training", "cpu_step_time")
    slower = {
        sha: [level + k / 1e4 for k in range(5)] for sha, level in zip("abcd", (1, 1, 2, 2), strict=True)
    }
    alone, beside = SessionReadings(), SessionReadings()
    for readings, measured in ((alone, [phase]), (beside, [phase, step])):
        for sha, levels in slower.items():
            for series in measured:
                for k, level in enumerate(levels):
                    process = a_process(level, round=k, clock=Clock.CPU)
                    readings.add_process(sha, len(readings), series, process)

    chosen = [
        {verdict.series for verdict in screen_neighbouring_commits(readings, LINE, Policy()).candidates}
        for readings in (alone, beside)
    ]

    assert chosen == [{phase}, {step}]
