"""What the points on both sides of a boundary say of it."""

import numpy as np
import pytest

from perfci.stats.boundary_statistics import compute_boundary_statistics, median_of_sorted, sort_points

RNG = np.random.default_rng(5)
BEFORE, AFTER = RNG.normal(0.0, 0.01, 20), RNG.normal(0.1, 0.01, 20)


def test_a_clear_step_is_more_than_proven() -> None:
    found = compute_boundary_statistics(BEFORE, AFTER, reach=15, sigma=0.01, min_size=0.05)

    assert found.size == pytest.approx(0.1, abs=0.01)
    assert found.strength > 1
    assert found.z_score > found.required_z_score


def test_the_order_of_the_points_matters_only_to_which_are_nearest() -> None:
    one = compute_boundary_statistics(BEFORE, AFTER, reach=20, sigma=0.01, min_size=0.05)
    other = compute_boundary_statistics(BEFORE[::-1], AFTER[::-1], reach=20, sigma=0.01, min_size=0.05)

    assert one == other


def test_a_short_side_needs_more_sigmas() -> None:
    short, long = (
        compute_boundary_statistics(BEFORE, AFTER[:n], reach=15, sigma=0.01, min_size=0.05).required_z_score
        for n in (4, 5)
    )

    assert short > long


@pytest.mark.parametrize("points", [BEFORE, BEFORE[:7], BEFORE[:1]])
def test_the_middle_is_the_median(points: np.ndarray) -> None:
    assert median_of_sorted(sort_points(points)) == np.median(points)
