"""Which clock of a benchmark is judged."""

from __future__ import annotations

from dataclasses import replace

from builders import a_process, a_series

from perfci.model import Clock, Metric
from perfci.verdicts.gating import gated, gated_by_commit

WALL = a_series(metric=Metric("ttft", "seconds"))
CPU = replace(WALL, metric=Metric("cpu_time", "seconds"))
BYTES = replace(WALL, metric=Metric("peak", "bytes"))


def test_judges_cpu_time_before_wall_time() -> None:
    processes = {
        WALL: [a_process(samples=(1.0, 1.1), clock=Clock.WALL)],
        CPU: [a_process(samples=(0.9, 0.9), clock=Clock.CPU)],
        BYTES: [a_process(samples=(5.0,), clock=Clock.EXACT)],
    }

    assert gated(processes) == [CPU, BYTES]


def test_judges_a_benchmark_that_only_waits_by_the_wall_clock() -> None:
    processes = {
        WALL: [a_process(samples=(1.0, 1.1), clock=Clock.WALL)],
        CPU: [a_process(samples=(0.01, 0.02), clock=Clock.CPU)],
    }

    assert gated(processes) == [WALL]


def test_sorts_what_commits_gave_by_series() -> None:
    wall, cpu = a_process(samples=(1.0,), clock=Clock.WALL), a_process(samples=(0.9,), clock=Clock.CPU)

    found = gated_by_commit({"a" * 40: [(WALL, wall), (CPU, cpu)], "b" * 40: [(CPU, cpu)]})

    assert found == {CPU: {"a" * 40: [cpu], "b" * 40: [cpu]}}
