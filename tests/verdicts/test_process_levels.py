"""The level of a process, a commit or a benchmark."""

import pytest

from perfci.model import ALTERNATING_FLAG, Clock, Point, Process, Status
from perfci.verdicts.cpu_time_share import is_cpu_bound
from perfci.verdicts.process_levels import displayed_point_level, process_level, steady_levels
from perfci.verdicts.usable_processes import select_usable_processes
from tests.support.builders import a_commit, a_failed_process, a_process, a_summary

SWOLLEN = (1.0, 1.0, 1.0, 1.9, 1.9, 1.9)


def test_cpu_time_is_judged_by_its_lower_quartile_and_other_clocks_by_their_median() -> None:
    assert process_level(a_process(*SWOLLEN, clock=Clock.CPU)) == 1.0
    assert {process_level(a_process(*SWOLLEN, clock=clock)) for clock in Clock if clock is not Clock.CPU} == {
        1.45
    }


def test_a_point_is_the_median_of_its_processes_that_ended_well() -> None:
    processes = (a_process(1.0), a_process(3.0), a_process(2.0), a_failed_process())

    assert displayed_point_level(Point(a_commit(), Status.OK, processes)) == 2.0


def test_a_point_without_processes_is_its_summary_or_nothing() -> None:
    assert displayed_point_level(Point(a_commit(), Status.OK, (), a_summary(4.0))) == 4.0
    assert displayed_point_level(Point(a_commit(), Status.FAILED, (a_failed_process(),))) is None


def test_a_process_that_was_throttled_or_shared_its_gpu_is_shown_and_not_judged() -> None:
    hot = a_process(9.0, flags=("spawned: threads", "throttled: SM clock at 60 %"))
    crowded = a_process(8.0, flags=("shared_gpu",))
    spawned = a_process(1.0, flags=("spawned: 2 threads are running",))
    only_flagged, mixed = (Point(a_commit(), Status.OK, some) for some in ((hot, crowded), (hot, spawned)))

    assert select_usable_processes([hot, crowded, spawned]) == [spawned]
    assert displayed_point_level(only_flagged) == 8.5
    assert displayed_point_level(mixed) == 1.0


def test_a_benchmark_that_sleeps_is_not_judged_by_cpu_time() -> None:
    waits = is_cpu_bound([a_process(0.01, 0.02)], [a_process(1.0, 1.0)])
    computes = is_cpu_bound([a_process(0.9, 0.1)], [a_process(1.0, 1.0)])

    assert (waits, computes) == (False, True)


def test_without_a_wall_clock_cpu_time_is_judged() -> None:
    assert is_cpu_bound([a_process(0.1)], [])
    assert is_cpu_bound([a_process(0.1)], [a_failed_process()])


def test_drops_the_same_warm_up_from_both_sides() -> None:
    warm = (3.0, 2.0, 1.5, *[1.0] * 9)

    base, head = steady_levels([a_process(*warm)] * 3, [a_process(*(1.1 * s for s in warm))] * 3)

    assert base == [1.0] * 3
    assert head == [1.1] * 3


def test_alternating_processes_are_compared_over_their_shared_samples() -> None:
    drift = (1.0, 1.0, 1.6, 1.6, 1.6, 1.0, 1.0)
    base = a_process(*drift, clock=Clock.CPU, pair=3, flags=(ALTERNATING_FLAG,))
    head = a_process(
        *(1.1 * swell for swell in (*drift, 9.0, 9.0)), clock=Clock.CPU, pair=3, flags=(ALTERNATING_FLAG,)
    )

    (before,), (after,) = steady_levels([base], [head])

    assert after / before == pytest.approx(1.1)
    assert process_level(base) == 1.0 < before


@pytest.mark.parametrize(
    "head",
    [
        a_process(*SWOLLEN, clock=Clock.CPU, pair=3),
        a_process(*SWOLLEN, clock=Clock.CPU, pair=4, flags=(ALTERNATING_FLAG,)),
        a_process(*SWOLLEN[:4], clock=Clock.CPU, pair=3, flags=(ALTERNATING_FLAG,)),
        a_process(*SWOLLEN, clock=Clock.EXACT, pair=3, flags=(ALTERNATING_FLAG,)),
    ],
    ids=["no turns", "another pair", "too few turns", "no time"],
)
def test_processes_that_share_no_samples_keep_their_own_levels(head: Process) -> None:
    base = a_process(*SWOLLEN, clock=Clock.CPU, pair=3, flags=(ALTERNATING_FLAG,))

    assert steady_levels([base], [head]) == ([process_level(base)], [process_level(head)])
