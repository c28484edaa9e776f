"""Sweeps of histories: length of the new level, memory of the noise, code that moves often."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass

import numpy as np
from scipy.signal import lfilter

from perfci.stats.incremental_segmentation import detect_change_points_in_many
from tools.study_history import Logs, Rng, poisson_upper_limit, replay_detection
from tools.sweep_table import SweepTable, format_share

SEED = 20_270_419
BAR = 0.05

# ------------------------------------------------------------------ noise of standard deviation one

NoiseShape = Callable[[Rng, int, int], Logs]
"""Draws noise of shape (series, points)."""


def draw_normal(rng: Rng, series: int, points: int) -> Logs:
    return rng.standard_normal((series, points))


def draw_t4(rng: Rng, series: int, points: int) -> Logs:
    return rng.standard_t(4, (series, points)) / math.sqrt(2)


def draw_gamma(rng: Rng, series: int, points: int) -> Logs:
    """Neighbours only slow a process down."""
    return (rng.gamma(3.0, 1.0, (series, points)) - 3) / math.sqrt(3)


def draw_laplace(rng: Rng, series: int, points: int) -> Logs:
    return rng.laplace(0, math.sqrt(0.5), (series, points))


def arma_noise(phi: float, theta: float = 0.0) -> NoiseShape:
    """x[t] = phi x[t - 1] + e[t] + theta e[t - 1] (Box & Jenkins 1970), from its stationary distribution."""
    deviation = math.sqrt((1 + 2 * phi * theta + theta**2) / (1 - phi**2))

    def draw(rng: Rng, series: int, points: int) -> Logs:
        shocks = rng.standard_normal((series, 300 + points))
        return np.asarray(lfilter([1.0, theta], [1.0, -phi], shocks, axis=1))[:, 300:] / deviation

    return draw


def draw_random_walk(rng: Rng, series: int, points: int) -> Logs:
    """A level that walks by a twentieth of the noise from point to point."""
    return draw_normal(rng, series, points) + np.cumsum(0.05 * draw_normal(rng, series, points), axis=1)


def draw_days(rng: Rng, series: int, points: int) -> Logs:
    """Eight points a day, whose height swings by two standard deviations of the noise."""
    phase = rng.random((series, 1))
    return 2 * np.sin(2 * np.pi * (np.arange(points) / 8 + phase)) + draw_normal(rng, series, points)


def draw_weekends(rng: Rng, series: int, points: int) -> Logs:
    """One point a day; the machine is left alone on two of seven, and faster by three deviations."""
    is_weekend = (np.arange(points) + rng.integers(0, 7, (series, 1))) % 7 < 2
    return draw_normal(rng, series, points) - 3 * is_weekend


def draw_days_and_weekends(rng: Rng, series: int, points: int) -> Logs:
    """Four points a day, so that a quiet weekend lasts eight points; it is faster by one deviation."""
    hours = np.arange(points) + rng.integers(0, 28, (series, 1))
    swing = 1.5 * np.sin(2 * np.pi * hours / 4) - (hours % 28 < 8)
    return swing + draw_normal(rng, series, points)


# ------------------------------------------------------------------ length

LENGTHS = (10, 20, 40, 80, 160, 300)
POINTS_BEFORE = 120
LENGTH_MARGIN = 15
LENGTH_NOISES: Mapping[str, NoiseShape] = {
    "white": draw_normal,
    "t, 4 degrees of freedom": draw_t4,
    "one-sided (gamma)": draw_gamma,
    "AR(1), 0.3": arma_noise(0.3),
}
LENGTH_STEPS = ((0.02, 0.06), (0.04, 0.08), (0.05, 0.10), (0.06, 0.10), (0.10, 0.20))
"""Standard deviation of the noise, and size of the step."""


def sweep_length(series: int) -> SweepTable:
    """Share of steps that are named, by points of the new level, and of those that vanish again."""
    table = SweepTable(
        "Length",
        "Of steps of two standard deviations, white or with heavier tails, at least 90 % are named at 40"
        " points and 99 % at 300. At most 2 % were named and vanish again. No more than 2 % fewer are named"
        " at a greater length.",
        ["noise", "step", *map(str, LENGTHS), "vanished"],
    )
    for number, (name, draw) in enumerate(LENGTH_NOISES.items()):
        for spread, size in LENGTH_STEPS:
            rng = np.random.default_rng([SEED, 1, number, round(1000 * spread), round(1000 * size)])
            is_named = detect_growing_steps(rng, draw, spread, size, series)
            shares = is_named.mean(axis=0)
            vanished = int(np.count_nonzero(is_named.max(axis=1) > is_named[:, -1]))
            lost = -int(np.diff(is_named.sum(axis=0)).min())
            row = f"{size:+.0%} in {spread:.0%}"
            table.rows.append([name, row, *map(format_share, shares), format_share(vanished / series)])
            description = f"{name}, {row},"
            table.require_share_at_most(vanished, series, 0.02, f"{description} vanished")
            table.require_share_at_most(max(lost, 0), series, 0.02, f"{description} fewer when longer")
            if math.log1p(size) / spread > 1.9 and "AR" not in name:
                for points, limit in ((40, 0.90), (300, 0.99)):
                    named = int(is_named[:, LENGTHS.index(points)].sum())
                    row_at = f"{description} named at {points} points"
                    table.require_share_at_least(named, series, limit, row_at)
    return table


def detect_growing_steps(rng: Rng, draw: NoiseShape, spread: float, size: float, series: int) -> Logs:
    """1 where a step is named at each of ``LENGTHS``, shape (series, lengths); half of them go down."""
    logs = spread * draw(rng, series, POINTS_BEFORE + LENGTHS[-1])
    logs[:, POINTS_BEFORE:] += np.resize([1, -1], series)[:, None] * math.log1p(size)
    lines = [np.exp(line[: POINTS_BEFORE + length]) for line in logs for length in LENGTHS]
    reported = [[step.index for step in steps] for steps in detect_change_points_in_many(lines, BAR)]
    is_named = [float(is_near(POINTS_BEFORE, indices, LENGTH_MARGIN)) for indices in reported]
    return np.array(is_named).reshape(series, len(LENGTHS))


def is_near(index: int, others: Sequence[int], margin: int) -> bool:
    return any(abs(index - other) <= margin for other in others)


# ------------------------------------------------------------------ memory

MEMORY_POINTS = 250
MEMORY_SPREADS = (0.02, 0.04)
"""Standard deviations: what wanders by 2 % is mostly below the bar, what wanders by 4 % is not."""

MEMORY_NOISES: Mapping[str, tuple[NoiseShape, float]] = {
    "AR(1), 0.4": (arma_noise(0.4), 0.5),
    "AR(1), 0.7": (arma_noise(0.7), 0.8),
    "AR(1), 0.85": (arma_noise(0.85), 1.0),
    "AR(1), 0.95": (arma_noise(0.95), 1.0),
    "ARMA(1, 1), 0.6 and 0.6": (arma_noise(0.6, 0.6), 0.8),
    "ARMA(1, 1), 0.9 and -0.5": (arma_noise(0.9, -0.5), 1.0),
    "ARMA(1, 1), 0.98 and -0.8": (arma_noise(0.98, -0.8), 1.0),
    "random walk and noise": (draw_random_walk, 1.0),
    "days": (draw_days, 1.0),
    "weekends": (draw_weekends, 1.0),
    "days and weekends": (draw_days_and_weekends, 1.0),
}
"""Shape of the noise, and its limit of alarms per thousand points."""


def sweep_memory(series: int) -> SweepTable:
    """Moves reported on lines without a change, replayed point by point."""
    table = SweepTable(
        "Memory",
        "At most 0.5 alarms per 1,000 points up to a correlation of 0.5 from point to point, 0.8 up to 0.8,"
        " and 1.0 otherwise. In brackets: the exact upper 95 % limit of a Poisson rate.",
        ["noise", "points", *(f"per 1,000 at {spread:.0%} (at most)" for spread in MEMORY_SPREADS), "limit"],
    )
    points = series * MEMORY_POINTS
    for number, (name, (draw, limit)) in enumerate(MEMORY_NOISES.items()):
        cells = []
        for spread in MEMORY_SPREADS:
            rng = np.random.default_rng([SEED, 2, number, round(1000 * spread)])
            lines = np.exp(spread * draw(rng, series, MEMORY_POINTS))
            alarms = sum(1 for _ in replay_detection(list(lines)))
            rate = 1000 * alarms / points
            cells.append(f"{rate:.2f} ({poisson_upper_limit(alarms, points):.2f})")
            table.require_at_most(rate, limit, f"{name} of {spread:.0%}, alarms per 1,000 points")
        table.rows.append([name, f"2 x {points:,}", *cells, f"{limit:.1f}"])
    return table


# ------------------------------------------------------------------ busy code

BUSY_SPREADS = (0.001, 0.003, 0.006, 0.01)
BUSY_POINTS = 110
BUSY_MARGIN = 2
MIN_STEP, MAX_STEP = math.log(1.06), math.log(1.30)


@dataclass(frozen=True)
class BusyLine:
    """A level at every commit, the commits that step, and those that go back to an earlier level."""

    levels: Logs
    steps: Sequence[int]
    returns: Sequence[int]


def simulate_busy_line(rng: Rng) -> BusyLine:
    """Levels of 4 to 20 commits, most of them short, a quarter of which return to an earlier one."""
    levels, steps, returns = [0.0], [int(rng.integers(6, 16))], []
    while steps[-1] < BUSY_POINTS - 4:
        earlier = [level for level in levels if abs(level - levels[-1]) > MIN_STEP]
        if earlier and rng.random() < 0.25:
            levels.append(float(rng.choice(earlier)))
            returns.append(steps[-1])
        else:
            size = math.exp(rng.uniform(math.log(MIN_STEP), math.log(MAX_STEP)))
            levels.append(levels[-1] + float(rng.choice([-1, 1])) * size)
        steps.append(steps[-1] + min(3 + int(rng.geometric(1 / 7)), 20))
    ends = [0, *steps[:-1], BUSY_POINTS]
    return BusyLine(np.repeat(levels, np.diff(ends)), steps[:-1], returns)


@dataclass
class BusyTally:
    """What was reported of steps, of steps back to an earlier level, and where nothing stepped."""

    hits: int = 0
    steps: int = 0
    back_hits: int = 0
    returns: int = 0
    false: int = 0
    still_false: int = 0
    still_points: int = 0

    def add_moving(self, line: BusyLine, reported: Sequence[int]) -> None:
        self.hits += sum(is_near(step, reported, BUSY_MARGIN) for step in line.steps)
        self.back_hits += sum(is_near(step, reported, BUSY_MARGIN) for step in line.returns)
        self.false += sum(not is_near(index, line.steps, BUSY_MARGIN) for index in reported)
        self.steps, self.returns = self.steps + len(line.steps), self.returns + len(line.returns)

    @property
    def recall(self) -> float:
        return self.hits / self.steps

    @property
    def back_recall(self) -> float:
        return self.back_hits / max(self.returns, 1)

    @property
    def precision(self) -> float:
        return self.hits / max(self.hits + self.false, 1)

    @property
    def f1(self) -> float:
        return 2 * self.hits / (self.steps + self.hits + self.false)

    @property
    def still_rate(self) -> float:
        """False alarms per thousand points of lines that never step."""
        return 1000 * self.still_false / self.still_points

    def format_row(self, name: str) -> list[str]:
        shares = (self.recall, self.back_recall, self.precision, self.f1)
        return [name, f"{self.steps:,}", *map(format_share, shares), f"{self.still_rate:.2f}"]

    def __add__(self, other: BusyTally) -> BusyTally:
        return BusyTally(*(sum(pair) for pair in zip(astuple(self), astuple(other), strict=True)))


def sweep_busy_code(series: int) -> SweepTable:
    """Quiet machines where every few commits step: steps named, and false alarms beside them."""
    table = SweepTable(
        "Busy code",
        "Of all noises together: F1 at least 98 %, recall and steps back at least 97 % within two points; at"
        " most 0.2 false alarms per 1,000 points on lines that never step.",
        ["noise", "steps", "recall", "steps back", "precision", "F1", "false per 1,000 still points"],
    )
    everything = BusyTally()
    shapes = {"Laplace": draw_laplace, "one-sided (gamma)": draw_gamma}
    for number, ((name, draw), spread) in enumerate(itertools.product(shapes.items(), BUSY_SPREADS)):
        tally = tally_busy_lines(np.random.default_rng([SEED, 3, number]), draw, spread, series)
        table.rows.append(tally.format_row(f"{name}, {spread:.1%}"))
        everything += tally
    table.rows.append(everything.format_row("**all**"))
    table.require_at_least(everything.f1, 0.98, "F1")
    table.require_share_at_least(everything.hits, everything.steps, 0.97, "recall")
    table.require_share_at_least(everything.back_hits, everything.returns, 0.97, "steps back")
    table.require_at_most(everything.still_rate, 0.2, "false alarms per 1,000 still points")
    return table


def tally_busy_lines(rng: Rng, draw: NoiseShape, spread: float, series: int) -> BusyTally:
    """Detection on as many lines that step often as on lines that never do."""
    lines = [simulate_busy_line(rng) for _ in range(series)]
    noise = spread * draw(rng, 2 * series, BUSY_POINTS)
    moving, still = noise[:series] + np.array([line.levels for line in lines]), noise[series:]
    answers = detect_change_points_in_many(list(np.exp(np.concatenate([moving, still]))), BAR)
    reported = [[step.index for step in steps] for steps in answers]
    tally = BusyTally(still_points=still.size, still_false=sum(map(len, reported[series:])))
    for line, indices in zip(lines, reported, strict=False):
        tally.add_moving(line, indices)
    return tally
