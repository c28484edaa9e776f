"""Shifts of new runs against recent ones, by the noise between runs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfci.stats.shift_between_runs import MIN_BASE_RUNS, are_runs_apart, estimate_shift_between_runs

properties = settings(derandomize=True, deadline=None, max_examples=60)

logs = st.floats(-1, 1).map(lambda value: round(value, 3))
base_runs = st.lists(st.lists(logs, min_size=1, max_size=2), min_size=MIN_BASE_RUNS, max_size=14)
head_runs = st.lists(st.lists(logs, min_size=1, max_size=2), min_size=1, max_size=4)
Runs = list[list[float]]


def scaled(runs: Runs, by: float = 1.0, add: float = 0.0) -> Runs:
    return [[value * by + add for value in run] for run in runs]


def half_width(base: Runs, head: Runs) -> float:
    return estimate_shift_between_runs(base, head)[0].half_width()


@properties
@given(base_runs, head_runs)
def test_inverse_values_give_the_inverse_change(base: Runs, head: Runs) -> None:
    shift, inverse = (
        estimate_shift_between_runs(scaled(base, sign), scaled(head, sign))[0] for sign in (1.0, -1.0)
    )

    assert inverse.bounds() == pytest.approx((-shift.bounds()[1], -shift.bounds()[0]), abs=1e-9)
    assert are_runs_apart(base, head) == are_runs_apart(scaled(base, -1.0), scaled(head, -1.0))


@properties
@given(base_runs, head_runs, st.floats(0, 1))
def test_a_slower_head_moves_the_whole_interval(base: Runs, head: Runs, by: float) -> None:
    before, after = (estimate_shift_between_runs(base, scaled(head, add=add))[0] for add in (0.0, by))

    assert after.centre == pytest.approx(before.centre + by, abs=1e-9)
    assert after.p_value(0.02) <= before.p_value(0.02) or before.centre < 0


@properties
@given(base_runs, head_runs)
def test_the_order_of_the_heads_runs_is_nothing(base: Runs, head: Runs) -> None:
    shuffled = sorted(head, key=lambda run: (-len(run), run))

    assert estimate_shift_between_runs(base, shuffled)[0].bounds() == pytest.approx(
        estimate_shift_between_runs(base, head)[0].bounds(), abs=1e-9
    )


@properties
@given(base_runs, st.floats(1.5, 4))
def test_more_noise_gives_a_wider_interval(base: Runs, by: float) -> None:
    quiet, noisy = half_width(base, [[0.0]]), half_width(scaled(base, by), [[0.0]])

    assert noisy >= quiet * (1 - 1e-9)


@pytest.mark.parametrize(("base", "head"), [(8, 1), (8, 3), (30, 1), (30, 5)])
def test_independent_runs_are_covered_as_promised(base: int, head: int) -> None:
    rng = np.random.default_rng(7)
    hits = 0
    for _ in range(600):
        sides = (rng.normal(0, 0.03, count)[:, None].tolist() for count in (base, head))
        low, high = estimate_shift_between_runs(*sides)[0].bounds()
        hits += low <= 0 <= high

    assert 0.93 < hits / 600 < 0.985


def test_a_single_run_has_the_prediction_interval_of_the_textbook() -> None:
    """Where successive runs do not resemble each other: t(n - 1) s sqrt(1 + 1 / n)."""
    values = [0.01, -0.01, 0.012, -0.012, 0.011, -0.011, 0.01, -0.01]
    s = float(np.std(values, ddof=1))

    width = half_width([[value] for value in values], [[0.2]])

    assert width == pytest.approx(2.3646 * s * math.sqrt(1 + 1 / 8), rel=1e-4)


def test_runs_that_resemble_each_other_narrow_less() -> None:
    rng = np.random.default_rng(3)
    steps = rng.normal(0, 0.01, 30)
    wandering = [[float(value)] for value in np.convolve(steps, 0.9 ** np.arange(30))[:30]]
    independent = [[float(value)] for value in steps]

    narrowed = [
        half_width(side, [[0.0]] * 5) / half_width(side, [[0.0]]) for side in (wandering, independent)
    ]

    assert narrowed[0] > 0.75 > narrowed[1]


def test_a_head_of_fewer_uploads_than_usual_is_noisier() -> None:
    rng = np.random.default_rng(5)
    base = rng.normal(0, 0.02, (12, 5)).tolist()

    assert half_width(base, [[0.0]]) > 1.5 * half_width(base, [[0.0] * 5])


def test_says_how_many_more_runs_would_decide() -> None:
    base = np.random.default_rng(2).normal(0, 0.03, (20, 1)).tolist()
    _, noise = estimate_shift_between_runs(base, [[0.12]])

    more = noise.runs_to_decide(20, [1], 0.045)

    assert more is not None
    assert noise.runs_to_decide(20, [1] * (1 + more), 0.045) == 1
    assert noise.runs_to_decide(20, [1], 0.005) is None


def test_most_of_several_runs_have_to_lie_beyond_all_others() -> None:
    base = [[value / 100] for value in range(10)]

    assert are_runs_apart(base, [[0.2]])
    assert not are_runs_apart(base, [[0.2], [0.05]])
    assert are_runs_apart(base, [[0.2], [0.05], [0.3]])
    assert not are_runs_apart(base, [[0.2], [-0.2]])
