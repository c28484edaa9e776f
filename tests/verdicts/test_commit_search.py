"""Searches on simulated ranges: the right commit, the smallest range, or nobody."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfci.verdicts.search.commit_search import CommitSearch, SearchConclusion, SearchOutcome, SearchRules

Level = Callable[[int], float]
SHORT = SearchRules(max_processes=60)


def run(
    head: int,
    level: Level,
    *,
    noise: float = 0.005,
    broken: Collection[int] = (),
    rules: SearchRules | None = None,
    seed: int = 1,
) -> tuple[SearchConclusion, CommitSearch]:
    rng = np.random.default_rng(seed)
    search = CommitSearch(head, rules or SearchRules())
    while (position := search.choose_next({})) is not None:
        if position in broken:
            search.exclude(position)
        else:
            search.record(position, level(position) + rng.normal(0, noise))
    assert search.conclusion is not None
    return search.conclusion, search


def step(place: int, size: float = 0.1) -> Level:
    return lambda position: size * (position >= place)


@settings(max_examples=6)
@given(st.integers(1, 40), st.integers(0, 50), st.sampled_from([0.1, -0.1]))
def test_names_the_commit_of_a_clear_step(place: int, seed: int, size: float) -> None:
    conclusion, search = run(40, step(place, size), seed=seed)

    assert (conclusion.outcome, conclusion.first, conclusion.last) == (SearchOutcome.NAMED, place - 1, place)
    assert conclusion.probability >= 0.95
    assert abs(conclusion.size.median - size) < 0.01
    assert len(search.observations) <= 40


@settings(max_examples=5)
@given(st.integers(1, 30))
def test_exact_levels_need_no_noise(place: int) -> None:
    conclusion, _ = run(30, step(place), noise=0.0)

    assert (conclusion.outcome, conclusion.last) == (SearchOutcome.NAMED, place)


def test_names_the_smallest_range_where_the_commit_before_cannot_be_measured() -> None:
    conclusion, search = run(20, step(9), broken={8, 7})

    assert (conclusion.outcome, conclusion.first, conclusion.last) == (SearchOutcome.NARROWED, 6, 9)
    assert search.unmeasurable <= {7, 8}


def test_names_the_commit_after_one_that_cannot_be_measured_elsewhere() -> None:
    conclusion, _ = run(20, step(9), broken={3, 10, 15})

    assert (conclusion.outcome, conclusion.last) == (SearchOutcome.NAMED, 9)


@pytest.mark.parametrize("first_measurable", [1, 2, 11, 19])
def test_begins_at_the_first_commit_that_can_be_measured(first_measurable: int) -> None:
    conclusion, search = run(20, step(20), broken=range(first_measurable))

    assert search.base == first_measurable
    assert (conclusion.outcome, conclusion.last) == (SearchOutcome.NAMED, 20)
    assert len(search.unmeasurable) <= 6


def test_says_so_where_the_first_measurable_commit_has_the_new_level_already() -> None:
    conclusion, _ = run(20, step(5), broken=range(8))

    assert (conclusion.outcome, conclusion.first, conclusion.last) == (SearchOutcome.NO_DIFFERENCE, 8, 20)


def test_the_last_commit_has_to_be_measurable() -> None:
    search = CommitSearch(20)

    with pytest.raises(ValueError, match="the last commit of the range has to be measurable"):
        search.exclude(20)


def test_equal_ends_name_nobody() -> None:
    """One in twenty may look different for a while."""
    outcomes = [run(10, lambda _: 0.0, noise=0.02, rules=SHORT, seed=seed)[0].outcome for seed in range(4)]

    assert SearchOutcome.NAMED not in outcomes
    assert outcomes.count(SearchOutcome.NO_DIFFERENCE) >= 3


@pytest.mark.parametrize("seed", range(2))
def test_a_level_that_creeps_names_nobody(seed: int) -> None:
    conclusion, _ = run(60, lambda position: 0.002 * position, noise=0.02, rules=SHORT, seed=seed)

    assert conclusion.outcome in (SearchOutcome.NARROWED, SearchOutcome.SPREAD, SearchOutcome.UNCONFIRMED)
    assert conclusion.last - conclusion.first > 1 or conclusion.outcome is SearchOutcome.UNCONFIRMED


@pytest.mark.parametrize("seed", range(2))
def test_of_two_steps_one_is_named(seed: int) -> None:
    conclusion, _ = run(40, lambda p: 0.1 * (p >= 11) + 0.1 * (p >= 29), noise=0.02, seed=seed)

    assert (conclusion.outcome, conclusion.last in (11, 29)) == (SearchOutcome.NAMED, True)


def test_ends_with_the_smallest_range_when_its_processes_are_spent() -> None:
    conclusion, search = run(60, step(31, 0.02), noise=0.015, rules=SearchRules(max_processes=30))

    assert conclusion.outcome in (SearchOutcome.NARROWED, SearchOutcome.NO_DIFFERENCE)
    assert conclusion.first < 31 <= conclusion.last
    assert len(search.observations) <= 33


@settings(max_examples=3)
@given(st.integers(0, 30), st.integers(0, 20))
def test_goes_on_from_what_was_recorded(cut: int, seed: int) -> None:
    conclusion, whole = run(25, step(14), noise=0.02, broken={12}, seed=seed)
    resumed = CommitSearch(25)
    for position in whole.unmeasurable:
        resumed.exclude(position)
    for item in whole.observations[:cut]:
        resumed.record(item.position, item.level)

    for item in whole.observations[cut:]:
        assert resumed.conclusion is None
        resumed.record(item.position, item.level)
    assert resumed.conclusion == conclusion
