"""Change points under noise that the rules were not chosen on: power over length, memory, busy code.

Each is the quick form of a sweep in ``tools/sweep_histories.py``, and has rows that
tests/verdicts/test_robustness_study.py leaves out.
"""

import numpy as np
import pytest

from perfci.stats.incremental_segmentation import detect_change_points_in_many


def detect(lines: list[np.ndarray], bar: float = 0.05) -> list[list[int]]:
    return [[step.index for step in steps] for steps in detect_change_points_in_many(lines, bar)]


def is_near(index: int, found: list[int], margin: int) -> bool:
    return any(abs(index - other) <= margin for other in found)


@pytest.mark.parametrize(("noise", "size"), [(0.03, 0.06), (0.05, 0.10), (0.05, 0.07), (0.10, 0.20)])
def test_more_points_of_a_new_level_never_lose_its_step(noise: float, size: float) -> None:
    """Thirty steps after 150 points, seen with 40 and with 250 points of the new level."""
    rng = np.random.default_rng(20261123)
    lines = [rng.normal(0, noise, 400) + np.log1p(size) * (np.arange(400) >= 150) for _ in range(30)]

    early, late = (
        [is_near(150, steps, 15) for steps in detect([np.exp(line[:end]) for line in lines])]
        for end in (190, 400)
    )

    assert sum(late) >= 28
    assert sum(was and not still for was, still in zip(early, late, strict=True)) <= 1


@pytest.mark.parametrize("r", [0.5, 0.8, 0.9, 0.95])
def test_a_memory_of_the_machine_is_no_change(r: float) -> None:
    """Eight lines of 200 points with a standard deviation of 2 %, looked at after every fourth point."""
    told = 0
    for seed in range(8):
        rng = np.random.default_rng([int(100 * r), seed])
        line = rng.normal(0, 1, 200)
        for k in range(1, 200):
            line[k] = r * line[k - 1] + np.sqrt(1 - r * r) * line[k]
        seen: list[int] = []
        for steps in detect([np.exp(0.02 * line[:end]) for end in range(30, 201, 4)]):
            seen += [index for index in steps if not is_near(index, seen, 5)]
        told += len(seen)

    assert told <= 1


def test_a_quiet_machine_names_steps_five_commits_apart() -> None:
    rng = np.random.default_rng(2)
    sizes = np.log1p([-0.054, 0.081, -0.094])
    logs = rng.normal(0, 0.002, 70) + sum(
        size * (np.arange(70) >= at) for size, at in zip(sizes, (30, 35, 40), strict=True)
    )

    assert detect([np.exp(logs)]) == [[30, 35, 40]]


def test_code_that_moves_often_and_is_reverted_now_and_then() -> None:
    """Levels of four to twelve commits, a third of them an earlier one; 0.3 % noise, gamma-distributed."""
    rng = np.random.default_rng(17)
    lines, truths = [], []
    for _ in range(25):
        levels, starts = [0.0], [0]
        while starts[-1] < 80:
            starts.append(starts[-1] + int(rng.integers(5 if len(starts) == 1 else 4, 13)))
            known = [level for level in levels if abs(level - levels[-1]) > np.log(1.06)]
            moved = levels[-1] + rng.choice([-1, 1]) * rng.uniform(np.log(1.07), np.log(1.25))
            levels.append(float(rng.choice(known)) if known and rng.random() < 1 / 3 else moved)
        points = np.repeat(levels, np.diff([*starts, starts[-1] + 6]))
        lines.append(np.exp(points + 0.003 * rng.gamma(2.0, 0.7, len(points))))
        truths.append(starts[1:])
    found = detect(lines)

    hits = sum(is_near(at, steps, 1) for truth, steps in zip(truths, found, strict=True) for at in truth)
    false = sum(not is_near(at, truth, 1) for truth, steps in zip(truths, found, strict=True) for at in steps)

    assert hits >= 0.95 * sum(map(len, truths))
    assert false <= 1


def test_twelve_points_are_enough_for_a_large_step() -> None:
    rng = np.random.default_rng(4)

    assert detect([np.exp(rng.normal(0, 0.01, 12) + 0.26 * (np.arange(12) >= 6))]) == [[6]]


def test_a_change_is_found_on_a_machine_that_switches() -> None:
    """A slow state of 8 % comes and goes; at point 150 the code gets slower by 20 %."""
    rng = np.random.default_rng(6)
    slow = np.concatenate([np.full(int(rng.integers(5, 14)), k % 2) for k in range(40)])[:300]
    logs = rng.normal(0, 0.004, 300) + np.log(1.08) * slow
    logs[150:] += np.log(1.2)

    (steps,) = detect([np.exp(logs)])

    assert len(steps) == 1
    assert is_near(150, steps, 3)


def test_another_mix_of_the_same_machines_is_no_change() -> None:
    """Three kinds of machine, 15 and 40 % apart; from point 60 on the slower ones are met more often."""
    lines = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        kinds = [rng.choice(3, 60, p=shares) for shares in ((0.75, 0.20, 0.05), (0.25, 0.60, 0.15))]
        levels = np.array([0.0, 0.14, 0.34])[np.concatenate(kinds)]
        lines.append(np.exp(levels + rng.normal(0, 0.01, 120)))

    assert sum(map(len, detect(lines))) <= 4


def test_a_change_is_found_under_an_equal_mix_of_machines() -> None:
    lines = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        levels = np.array([0.0, 0.14, 0.34])[rng.choice(3, 120, p=(0.6, 0.3, 0.1))]
        lines.append(np.exp(levels + rng.normal(0, 0.01, 120) + np.log(1.5) * (np.arange(120) >= 60)))

    assert sum(is_near(60, steps, 5) for steps in detect(lines)) >= 17


def test_short_levels_do_not_hide_each_other() -> None:
    """A quiet line with levels of four and more commits, from a sweep of such lines."""
    rng = np.random.default_rng(0)
    steps = {11: -0.206, 15: 0.269, 35: -0.104, 39: -0.059, 43: 0.275, 53: -0.196}
    logs = rng.normal(0, 0.001, 60)
    for at, size in steps.items():
        logs[at:] += np.log1p(size)

    assert detect([np.exp(logs)]) == [list(steps)]
