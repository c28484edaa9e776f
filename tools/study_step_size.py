"""Coverage of the 95 % interval of the size of a step, by noise, autocorrelation and points of each side.

Run as ``python -m tools.study_step_size``; it prints the table of docs/design/statistics.md, section 9. The
last column is the coverage among steps that the detector finds by itself, in histories of 60 points.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence

import numpy as np

from perfci.stats.incremental_segmentation import detect_change_points_in_many
from perfci.stats.location_estimates import Floats
from perfci.stats.step_size import LevelStep, estimate_level_step

STEP = 0.08
SIDES = (
    (5, 5),
    (5, 10),
    (5, 15),
    (5, 40),
    (7, 7),
    (10, 10),
    (15, 15),
    (15, 40),
    (25, 25),
    (40, 40),
    (200, 200),
)
NOISE_LEVELS = (0.002, 0.01, 0.02, 0.05)
DETECTED_LENGTH = 60

NoiseModel = Callable[[np.random.Generator, int], Floats]
"""Draws so many points of noise with a standard deviation of one."""


def draw_white_noise(rng: np.random.Generator, count: int) -> Floats:
    return rng.standard_normal(count)


def draw_heavy_tails(rng: np.random.Generator, count: int) -> Floats:
    """Student's t with three degrees of freedom."""
    return rng.standard_t(3, count) / math.sqrt(3)


def autoregressive_noise(r: float) -> NoiseModel:
    """A first-order autoregressive process with lag-1 autocorrelation r."""

    def draw(rng: np.random.Generator, count: int) -> Floats:
        points = rng.standard_normal(count)
        for k in range(1, count):
            points[k] = r * points[k - 1] + math.sqrt(1 - r * r) * points[k]
        return points

    return draw


NOISE_MODELS: dict[str, NoiseModel] = {
    "white": draw_white_noise,
    "t, 3 degrees of freedom": draw_heavy_tails,
    "autocorrelated, 0.3": autoregressive_noise(0.3),
    "autocorrelated, 0.6": autoregressive_noise(0.6),
}


def simulate_coverage(
    draw: NoiseModel, sides: tuple[int, int], sigma: float, runs: int, rng: np.random.Generator
) -> float:
    """Share of intervals that hold the true size, for this noise and so many points of each side."""
    covered = 0
    for _ in range(runs):
        logs = sigma * draw(rng, sum(sides))
        logs[sides[0] :] += math.log1p(STEP)
        step = estimate_level_step(sides[0], logs[: sides[0]], logs[sides[0] :])
        covered += _holds_true_size(step)
    return covered / runs


def simulate_detected_coverage(draw: NoiseModel, runs: int, rng: np.random.Generator) -> tuple[float, int]:
    """Share of detected steps whose interval holds the true size, over all noise levels, and their number."""
    lines = []
    for k in range(runs):
        logs = NOISE_LEVELS[k % len(NOISE_LEVELS)] * draw(rng, DETECTED_LENGTH)
        # between 5 and 40 points of the new level
        logs[-int(rng.integers(5, 41)) :] += math.log1p(STEP)
        lines.append(np.exp(logs))
    steps = [points[0] for points in detect_change_points_in_many(lines) if len(points) == 1]
    return sum(map(_holds_true_size, steps)) / max(len(steps), 1), len(steps)


def _holds_true_size(step: LevelStep) -> bool:
    return step.lower is not None and step.upper is not None and step.lower <= STEP <= step.upper


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=4000, help="simulations of each cell")
    parser.add_argument("--seed", type=int, default=20261123)
    options = parser.parse_args(arguments)
    rng = np.random.default_rng(options.seed)
    headings = [f"{before} + {after}" for before, after in SIDES]
    print(f"| noise | {' | '.join(headings)} | detected |")
    print(f"|---|{'---|' * (len(SIDES) + 1)}")
    for name, draw in NOISE_MODELS.items():
        cells = []
        for k, sides in enumerate(SIDES):
            sigma = NOISE_LEVELS[k % len(NOISE_LEVELS)]
            cells.append(f"{100 * simulate_coverage(draw, sides, sigma, options.runs, rng):.1f}")
        share, count = simulate_detected_coverage(draw, options.runs, rng)
        print(f"| {name} | {' | '.join(cells)} | {100 * share:.1f} of {count:,} |")


if __name__ == "__main__":
    main()
