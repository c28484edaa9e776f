"""Confirmed steps page and change-free histories do not, on a part of ``tools/study_paging.py``."""

from __future__ import annotations

import numpy as np
import pytest

from tools.study_paging import count_false_pages, simulate_confirmed_step


@pytest.mark.parametrize("rank", [1, 100])
@pytest.mark.parametrize(("size", "spread"), [(0.06, 0.01), (0.08, 0.02)])
def test_nine_of_ten_confirmed_steps_page_whatever_the_commit_of_the_week(
    size: float, spread: float, rank: int
) -> None:
    rng = np.random.default_rng([rank, round(100 * size)])

    outcomes = [simulate_confirmed_step(rng, size, spread, rank, refuted=3) for _ in range(20)]
    confirmed = [outcome for outcome in outcomes if outcome is not None]

    assert len(confirmed) >= 5
    assert sum(confirmed) >= 0.9 * len(confirmed)


def test_a_project_without_a_change_pages_nobody() -> None:
    _, pages = count_false_pages("AR(1), 0.8", np.random.default_rng(3), 20, is_retested=True)

    assert pages == 0
