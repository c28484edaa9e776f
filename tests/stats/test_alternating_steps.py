"""Switches of a machine between modes, told from changes of code."""

from perfci.stats.alternating_steps import alternating_run_length, find_alternating_steps

TWO_MODES = [0.0, 10.0] * 4


def test_seven_steps_to_and_fro_are_switches() -> None:
    edges = list(range(0, 90, 10))

    assert find_alternating_steps(edges, TWO_MODES) == set(edges[1:-1])
    assert find_alternating_steps(edges[:-1], TWO_MODES[:-1]) == set()


def test_a_change_between_switches_is_none_and_hides_none() -> None:
    """After the fourth run the code got slower by another amount."""
    levels = [0.0, 10.0, 0.0, 10.0, 33.0, 23.0, 33.0, 23.0, 33.0]
    edges = list(range(0, 100, 10))

    assert find_alternating_steps(edges, levels) == set(edges[1:-1]) - {40}


def test_steps_of_other_sizes_are_no_switches() -> None:
    levels = [0.0, 10.0, 4.0, 21.0, 14.0, 40.0, 12.0, 17.0, 8.0]

    assert find_alternating_steps(list(range(0, 100, 10)), levels) == set()


def test_steps_of_one_size_in_one_direction_are_no_switches() -> None:
    assert find_alternating_steps(list(range(0, 100, 10)), [10.0 * k for k in range(9)]) == set()


def test_short_runs_may_differ_by_their_noise() -> None:
    """Means of three points are off by 0.6 of the noise each: 4 against 5.5 may be one size."""
    levels = [0.0, 4.0, 0.0, 5.5, 0.0, 4.5, 0.0, 5.5]

    assert len(find_alternating_steps(list(range(0, 27, 3)), levels)) == 7
    assert find_alternating_steps(list(range(0, 900, 100)), levels) == set()


def test_alternations_are_counted_around_an_element() -> None:
    assert alternating_run_length([True, False, True, True, False], 1) == 3
    assert alternating_run_length([True, False, True, True, False], 4) == 2
    assert alternating_run_length([True], 0) == 1
