"""Which series are judged, and which are informational."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfci.history.judged_processes import group_judged_processes
from perfci.model import CPU_METRIC_PREFIX, Clock, Metric, Process, Series, Status
from perfci.verdicts.judged_series import select_judged_series
from tests.support.builders import a_failed_process, a_process, a_series

BASE, HEAD = "a" * 40, "b" * 40
WALL = a_series(metric="ttft")
CPU = replace(WALL, metric=Metric("cpu_ttft", "seconds"))
OTHER = replace(WALL, metric=Metric("tpot", "seconds"))
BYTES = replace(WALL, metric=Metric("peak", "bytes"))


def read(*samples: float, clock: Clock = Clock.WALL) -> list[Process]:
    return [a_process(*samples, clock=clock)]


def absent(reason: str = "no accelerator") -> list[Process]:
    return [a_failed_process(Status.SKIPPED, reason=reason, clock=Clock.VALUE)]


def test_judges_cpu_time_instead_of_wall_time() -> None:
    processes = {
        WALL: read(1.0, 1.1),
        CPU: read(0.9, 0.9, clock=Clock.CPU),
        OTHER: read(2.0),
        BYTES: read(5.0, clock=Clock.EXACT),
    }

    assert select_judged_series(processes) == [CPU, OTHER, BYTES]


def test_judges_only_a_waiting_metric_by_the_wall_clock() -> None:
    other_cpu = replace(OTHER, metric=Metric("cpu_tpot", "seconds"))
    processes = {
        WALL: read(1.0, 1.1),
        CPU: read(0.01, 0.02, clock=Clock.CPU),
        OTHER: read(2.0),
        other_cpu: read(1.9, clock=Clock.CPU),
    }

    assert select_judged_series(processes) == [WALL, other_cpu]


def test_wall_time_of_another_cell_is_judged_by_itself() -> None:
    larger = replace(WALL, parameters=(("n", "8"),))

    assert select_judged_series({WALL: read(1.0), CPU: read(0.9, clock=Clock.CPU), larger: read(8.0)}) == [
        CPU,
        larger,
    ]


def test_a_metric_merely_named_like_cpu_time_hides_no_other() -> None:
    operators = a_series(metric="operators", unit="count")
    cpu_operators = a_series(metric="cpu_operators", unit="count")
    processes = {operators: read(7.0, clock=Clock.EXACT), cpu_operators: read(3.0, clock=Clock.EXACT)}

    assert select_judged_series(processes) == [operators, cpu_operators]


def test_pairs_summaries_without_processes_by_name() -> None:
    assert select_judged_series({WALL: [], CPU: []}) == [CPU]


def test_an_informational_metric_is_never_judged() -> None:
    tokens = a_series(metric="tokens_per_second", unit="tokens/s", direction="higher")
    mixed = [*read(9.0, clock=Clock.INFORMATIONAL), a_failed_process()]

    assert select_judged_series({tokens: mixed, BYTES: read(5.0)}) == [BYTES]


def test_a_metric_no_process_could_read_is_not_judged_beside_others() -> None:
    failed = a_failed_process()

    assert select_judged_series({BYTES: [*absent(), failed], OTHER: [*read(1.0), failed]}) == [OTHER]
    assert select_judged_series({BYTES: [*absent(), *read(5.0)], OTHER: read(1.0)}) == [BYTES, OTHER]
    assert select_judged_series({BYTES: absent(), OTHER: absent()}) == [BYTES, OTHER]


def test_groups_processes_by_series_and_commit() -> None:
    (wall,), (cpu,) = read(1.0), read(0.9, clock=Clock.CPU)

    by_commit = group_judged_processes({BASE: [(WALL, wall), (CPU, cpu)], HEAD: [(CPU, cpu)]})

    assert by_commit == {CPU: {BASE: [cpu], HEAD: [cpu]}}


@pytest.mark.parametrize("declared", [True, False])
def test_cpu_time_includes_the_failures_of_its_wall_metric(declared: bool) -> None:
    """asv's timings tell of both clocks beforehand; a measuring function only when it has run."""
    (wall,), (cpu,) = read(1.0), read(0.9, clock=Clock.CPU)
    failed = a_failed_process(clock=Clock.WALL)
    of_cpu = replace(failed, clock=Clock.CPU)
    at_head = [(WALL, failed), (CPU, of_cpu)] if declared else [(WALL, failed)]

    by_commit = group_judged_processes({BASE: [(WALL, wall), (CPU, cpu)], HEAD: at_head})

    assert by_commit == {CPU: {BASE: [cpu], HEAD: [of_cpu]}}


CLOCKS = st.sampled_from([clock for clock in Clock if clock is not Clock.CPU])
SECONDS = st.floats(1e-6, 1e3)


@given(
    st.dictionaries(
        st.sampled_from(["ttft", "tpot", "e2el", "step"]), st.tuples(CLOCKS, SECONDS, st.booleans())
    )
)
def test_every_metric_is_judged_once_unless_informational(build_metric_rows: dict) -> None:
    processes: dict[Series, list[Process]] = {}
    for name, (clock, seconds, twin) in build_metric_rows.items():
        processes[a_series(metric=name)] = read(seconds, clock=clock)
        if twin:
            processes[a_series(metric=CPU_METRIC_PREFIX + name)] = read(seconds / 2, clock=Clock.CPU)

    judged = [series.metric.name for series in select_judged_series(processes)]

    expected = {
        CPU_METRIC_PREFIX + name if twin else name
        for name, (clock, _, twin) in build_metric_rows.items()
        if twin or clock is not Clock.INFORMATIONAL
    }
    assert len(judged) == len(set(judged))
    assert set(judged) == expected
