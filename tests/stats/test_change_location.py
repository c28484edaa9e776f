"""The posterior of the place of a step, and the choice of what to measure next."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfci.stats.change_location import ChangeLocation, Observation, compare_two_commits

HEAD = 8
ENDS = (0, HEAD, HEAD, 0)

processes = st.lists(
    st.tuples(st.integers(0, HEAD), st.floats(-0.2, 0.2, allow_nan=False)), min_size=0, max_size=12
)


def at(*rows: tuple[int, float]) -> list[Observation]:
    return [Observation(position, level) for position, level in rows]


def locate(rows: list[Observation]) -> ChangeLocation:
    """The posterior after ends that differ by 10 % with noise of 1 %, and these processes."""
    start = at((0, 0.0), (HEAD, 0.1), (HEAD, 0.11), (0, 0.01))
    location = ChangeLocation(HEAD, start)
    for row in rows:
        location.add(row)
    return location


@settings(max_examples=15)
@given(processes)
def test_is_a_distribution_whatever_was_measured(rows: list[tuple[int, float]]) -> None:
    probabilities = locate(at(*rows)).probabilities

    assert probabilities[0] == 0
    assert (probabilities >= 0).all()
    assert probabilities.sum() <= 1 + 1e-5


@settings(max_examples=10)
@given(processes, st.floats(-5, 5))
def test_does_not_depend_on_the_unit(rows: list[tuple[int, float]], shift: float) -> None:
    start = [(0, 0.0), (HEAD, 0.1), (HEAD, 0.11), (0, 0.01)]
    shifted = ChangeLocation(HEAD, at(*((position, shift + level) for position, level in start)))
    for position, level in rows:
        shifted.add(Observation(position, shift + level))

    assert shifted.probabilities == pytest.approx(locate(at(*rows)).probabilities, abs=1e-2)


def test_finds_an_improvement_as_it_finds_a_regression() -> None:
    rows = [(p, -0.1 * (p >= 5)) for p in (0, HEAD, HEAD, 0, 4, 5, 4, 5)]
    location = ChangeLocation(HEAD, at(*rows))

    assert location.probabilities[5] > 0.95
    assert location.size.median == pytest.approx(-0.1, abs=0.005)


@pytest.mark.parametrize("place", range(1, HEAD + 1))
def test_finds_a_step_that_is_large_against_the_noise(place: int) -> None:
    rng = np.random.default_rng(place)
    rows = [(p, 0.1 * (p >= place) + rng.normal(0, 0.01)) for _ in range(3) for p in range(HEAD + 1)]

    location = locate(at(*rows))

    assert int(np.argmax(location.probabilities)) == place
    assert location.probabilities[place] > 0.95
    assert location.size.lo < 0.1 < location.size.hi


def test_a_state_of_the_machine_that_lasts_is_no_step() -> None:
    rng = np.random.default_rng(7)
    order = [4, 0, 4, HEAD, 2, 0, 2, HEAD, 4, 0]
    slow = [0.1 * (p >= 6) + 0.1 + rng.normal(0, 0.005) for p in order]  # all of them while it is 10 % slower

    probabilities = locate(at(*zip(order, slow, strict=True))).probabilities

    assert probabilities[5:].sum() > 0.95


def test_commits_that_nothing_tells_apart_are_equally_likely() -> None:
    probabilities = locate(at((4, 0.0), (4, 0.005))).probabilities

    assert probabilities[5:] == pytest.approx([probabilities[5]] * 4)
    assert probabilities[1:5] == pytest.approx([probabilities[1]] * 4)
    assert probabilities[5] > 5 * probabilities[1]


def test_measures_the_middle_first_unless_it_is_dear() -> None:
    location = locate([])

    assert location.choose_next(dict.fromkeys(range(HEAD + 1), 1.0)) == 4
    assert location.choose_next(dict.fromkeys(range(HEAD + 1), 1.0) | {4: 50.0}) in (3, 5)


def test_needs_both_ends() -> None:
    with pytest.raises(ValueError, match="both ends of the range have to be measured first"):
        ChangeLocation(HEAD, at((0, 0.0), (4, 0.1)))


def test_compares_two_commits_by_their_own_processes() -> None:
    rows = [(3, 0.0), (4, 0.1), (4, 0.11), (3, 0.01), (7, 5.0), (3, 0.0), (4, 0.1)]

    contrast = compare_two_commits(at(*rows), 3, 4)

    assert contrast.probability > 0.95
    assert contrast.size.lo < 0.1 < contrast.size.hi


def test_a_smaller_difference_than_asked_for_does_not_count() -> None:
    rows = [(p, 0.01 * (p == 4) + noise) for noise in (0.0, 0.002, -0.002, 0.001) for p in (3, 4, 4, 3)]

    assert compare_two_commits(at(*rows), 3, 4).probability > 0.95
    assert compare_two_commits(at(*rows), 3, 4, least_size=0.05).probability < 0.05
    assert compare_two_commits(at(*rows), 3, 4, least_size=-0.05).probability < 0.05
