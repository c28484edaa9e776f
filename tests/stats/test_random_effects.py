"""The random-effects mean of many shifts and its error."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfci.stats.random_effects import pool_shifts

SHIFTS = st.lists(st.floats(-0.2, 0.2), min_size=2, max_size=30)


def test_agrees_with_figures_computed_by_hand() -> None:
    centres, errors = [0.0, 0.1, 0.3], [0.1, 0.1, 0.2]

    shifts = pool_shifts(centres, errors)

    # weights 100, 100, 25: mean 17.5 / 225, Q = 1.3889 < 2, so nothing lies between and the fixed error
    # stands
    assert (shifts.centre, shifts.between_sd, shifts.df) == (pytest.approx(17.5 / 225), 0.0, 2)
    assert shifts.error == pytest.approx(1 / 15)


def test_separates_the_spread_of_true_shifts_from_their_errors() -> None:
    rng = np.random.default_rng(1)
    truth = rng.normal(0.01, 0.03, 400)

    shifts = pool_shifts((truth + rng.normal(0, 0.01, 400)).tolist(), [0.01] * 400)

    assert shifts.between_sd == pytest.approx(0.03, rel=0.15)
    assert shifts.error == pytest.approx(math.hypot(0.03, 0.01) / 20, rel=0.15)


@pytest.mark.parametrize("between", [0.0, 0.01, 0.05])
def test_the_interval_covers_the_true_mean_in_95_of_100(between: float) -> None:
    rng = np.random.default_rng(2)
    covered = 0
    for _ in range(1000):
        errors = rng.uniform(0.003, 0.02, 8)
        low, high = pool_shifts(
            rng.normal(0.02, np.hypot(errors, between)).tolist(), errors.tolist()
        ).bounds()
        covered += low <= 0.02 <= high

    assert (
        covered >= 928
    )  # the spread is estimated too, which costs a point; and two standard deviations of the count


@given(SHIFTS, st.floats(1e-3, 0.1), st.randoms(use_true_random=False))
def test_order_and_direction_do_not_matter(centres: list[float], error: float, dice: object) -> None:
    errors = [error] * len(centres)
    shuffled = sorted(centres)

    there, back = pool_shifts(shuffled, errors), pool_shifts([-centre for centre in centres], errors)

    assert there.centre == pytest.approx(-back.centre, abs=1e-12)
    assert there.error == pytest.approx(back.error)


@given(SHIFTS, st.floats(1e-3, 0.1))
def test_agreement_never_shrinks_the_error_below_that_of_the_shifts(
    centres: list[float], error: float
) -> None:
    assert pool_shifts(centres, [error] * len(centres)).error >= error / math.sqrt(len(centres)) * (1 - 1e-9)
