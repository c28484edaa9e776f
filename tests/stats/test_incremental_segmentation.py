"""A series segmented point by point, against the same series segmented at once."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfci.stats.incremental_segmentation import (
    SegmentedSeries,
    detect_change_points_in_many,
    update_segmentations,
)
from tests.support.sampled_proofs import sample_or_whole

properties = settings(derandomize=True, deadline=None, max_examples=60)


def append(line: SegmentedSeries, value: float) -> SegmentedSeries:
    return update_segmentations([line], [np.append(line.values, value)])[0]


def ties(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.round(rng.normal(0, 0.01, n), 2)


def spikes(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.normal(0, 0.01, n) + (rng.random(n) < 0.1) * rng.uniform(0.1, 1, n)


def states(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.normal(0, 0.005, n) + 0.1 * (np.cumsum(rng.random(n) < 0.15) % 2)


def steps(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.normal(0, 0.01, n) + np.cumsum((rng.random(n) < 0.04) * rng.normal(0, 0.2, n))


def constant(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.zeros(n)


@st.composite
def lines(draw: st.DrawFn) -> list[float]:
    """A history of any length, of any kind of noise, now and then with a zero."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    kind = draw(st.sampled_from([ties, spikes, states, steps, constant]))
    line = np.exp(kind(rng, draw(st.integers(1, 120))))
    if draw(st.booleans()) and draw(st.booleans()):
        line[rng.integers(len(line))] = 0.0
    return [float(value) for value in line]


bars = st.sampled_from([0.0, 0.05])


def whole(values: Sequence[float], bar: float) -> SegmentedSeries:
    return update_segmentations([SegmentedSeries(bar=bar)], [values])[0]


def same(left: SegmentedSeries, other: SegmentedSeries) -> bool:
    """Whether two lines tell the same, and know the same to the last bit."""
    costs = np.array_equal(left._partition.costs, other._partition.costs)
    return (
        left.change_points == other.change_points
        and costs
        and np.array_equal(left._partition.last_segment_starts, other._partition.last_segment_starts)
    )


@sample_or_whole("ends", 8, 120)
@properties
@given(values=lines(), bar=bars)
def test_appending_points_gives_the_result_of_the_whole_series(
    values: list[float], bar: float, ends: int
) -> None:
    """Compared at so many of its ends, the last always among them."""
    line, step = SegmentedSeries(bar=bar), -(-len(values) // ends)

    for end, value in enumerate(values, 1):
        line = append(line, value)

        if (len(values) - end) % step == 0:
            assert same(line, whole(values[:end], bar))


@properties
@given(lines(), bars, st.data())
def test_points_may_be_inserted_in_any_order(values: list[float], bar: float, data: st.DataObject) -> None:
    """Each lands where it belongs among those that are there."""
    arriving = data.draw(st.permutations(range(len(values))))
    line, there = SegmentedSeries(bar=bar), list[int]()

    for place in arriving:
        at = sum(other < place for other in there)
        there.insert(at, place)
        (line,) = update_segmentations([line], [np.insert(line.values, at, values[place])])

    assert same(line, whole(values, bar))


@properties
@given(st.lists(lines(), min_size=1, max_size=6), bars, st.data())
def test_series_updated_in_a_batch_equal_series_updated_alone(
    several: list[list[float]], bar: float, data: st.DataObject
) -> None:
    cuts = [data.draw(st.integers(0, len(values))) for values in several]
    begun = [whole(values[:cut], bar) for values, cut in zip(several, cuts, strict=True)]

    grown = update_segmentations(begun, several)

    assert all(same(line, whole(values, bar)) for line, values in zip(grown, several, strict=True))


@properties
@given(lines(), bars, st.data())
def test_points_may_be_corrected_and_taken_back(values: list[float], bar: float, data: st.DataObject) -> None:
    corrected = list(values)
    corrected[data.draw(st.integers(0, len(values) - 1))] *= 1.3
    shorter = corrected[: data.draw(st.integers(0, len(values)))]

    (now,) = update_segmentations([whole(values, bar)], [shorter])

    assert same(now, whole(shorter, bar))


def test_an_unchanged_series_is_returned_as_it_is() -> None:
    line = whole([1.0, 1.1] * 20, 0.05)

    assert update_segmentations([line], [list(line.values)]) == [line]
    assert update_segmentations([line], [list(line.values)])[0] is line


def test_appending_leaves_the_previous_result_unchanged() -> None:
    line = whole([1.0, 1.01, 0.99] * 10 + [1.3, 1.31, 1.29], 0.05)
    before = line.change_points

    append(append(line, 1.0), 1.0)

    assert line.change_points == before != []


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_refuses_values_that_are_not_finite(bad: float) -> None:
    with pytest.raises(
        ValueError, match=f"^expected a line of finite numbers, found {bad} at point 1; leave out what"
    ):
        detect_change_points_in_many([[1.0, bad, 1.0]])


@properties
@given(lines(), bars)
def test_the_result_of_a_series_does_not_depend_on_its_batch(values: list[float], bar: float) -> None:
    alone = detect_change_points_in_many([values], bar)

    assert detect_change_points_in_many([[1.0], values, values[::-1]], bar)[1:2] == alone


@properties
@given(lines())
def test_every_step_is_at_least_as_large_as_the_bar(values: list[float]) -> None:
    for step in whole(values, 0.05).change_points:
        ratio = step.after / step.before if min(step.after, step.before) > 0 else np.inf
        assert max(ratio, 1 / ratio) >= 1.05 * (1 - 1e-9)
