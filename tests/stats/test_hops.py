"""Which boundaries are mere hops between the states of a machine."""

import numpy as np

from perfci.stats.mode_switching import classify_mode_switch


def line(*stays: tuple[float, int]) -> np.ndarray:
    return np.concatenate([np.full(length, level) for level, length in stays])


def test_one_more_stay_at_a_level_that_was_there_before_is_a_hop() -> None:
    logs = line((0.0, 10), (0.1, 8), (0.0, 10), (0.1, 8), (0.0, 10), (0.1, 8))

    found = classify_mode_switch(logs, 46, 0.0, 0.1)

    assert (found.is_switch, found.is_final) == (True, False)


def test_a_hop_is_settled_when_the_machine_has_hopped_back() -> None:
    logs = line((0.0, 10), (0.1, 8), (0.0, 10), (0.1, 8), (0.0, 10), (0.1, 8), (0.0, 5))

    assert classify_mode_switch(logs, 46, 0.0, 0.1).is_final


def test_a_stay_much_longer_than_the_others_is_a_new_level() -> None:
    logs = line((0.0, 10), (0.1, 8), (0.0, 10), (0.1, 8), (0.0, 10), (0.1, 40))

    assert not classify_mode_switch(logs, 46, 0.0, 0.1).is_switch


def test_a_single_point_at_a_level_is_no_stay() -> None:
    logs = line((0.0, 10), (0.1, 1), (0.0, 10), (0.1, 1), (0.0, 10), (0.1, 8))

    assert not classify_mode_switch(logs, 32, 0.0, 0.1).is_switch


def test_a_level_that_was_never_there_before_is_no_hop_for_good() -> None:
    found = classify_mode_switch(line((0.0, 30), (0.1, 8)), 30, 0.0, 0.1)

    assert (found.is_switch, found.is_final) == (False, True)
