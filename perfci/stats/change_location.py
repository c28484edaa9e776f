"""Which commit of a range moved a level? A posterior from noisy measurements of some of its commits.

A hidden Markov model of the machine, with the place of the step as one more hidden variable. The log level
of the process at time t, of commit x, is ``machine_t + size * [x >= place] + noise``. The machine's level
stays from one process to the next but for jumps to anywhere, as sticky states make them; the noise has
Student's t distribution with four degrees of freedom, since a process in twenty is far off on real machines,
and one in fifty may be anywhere. The machine's level, the size, the scale of the noise and how often the
machine jumps are summed out on grids by the forward recursion (Rabiner 1989, *Proc. IEEE* 77), one process
at a time. Commits between two measured ones share one hypothesis until one of them is measured.

What to measure next is noisy binary search (Waeber, Frazier & Henderson 2013, *SIAM J. Control Optim.* 51):
the commit whose next process is expected to tell most bits about the place, by its cost. Where the machine's
level is in doubt, a process of an end of the range, whose side is known, comes first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfci.stats.location_estimates import MAD_TO_SIGMA, Floats

TAIL_DF = 4.0
"""Degrees of freedom of the noise."""

T_NORM = math.gamma(TAIL_DF / 2) * math.sqrt(TAIL_DF * math.pi) / math.gamma((TAIL_DF + 1) / 2)
"""What the density of Student's t is divided by."""

OUTLIER_SHARE = 0.02
"""Share of processes that may be anywhere, and tell nothing of what comes after them."""

NO_STEP_PRIOR = 0.03
"""A priori probability that no commit moved the level, where the ends of the range are known to differ."""

JUMP_SHARES = (0.003, 0.05, 0.3)
"""Shares of processes at which the machine's level jumps; each is as likely as the others."""

LEVELS, SIZES, SCALES = 65, 21, 6
"""Points of the grids of machine levels, sizes of the step and scales of the noise."""

VALUES = 65
"""Points at which the distribution of the next process is computed."""

MIN_SCALE = 1e-5
"""Least scale of noise, as a log."""

REBUILD_GROWTH = 1.5
"""The grids are chosen anew each time the number of processes has grown by this factor."""

Weights = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Observation:
    """The log level of one process of the commit at ``position``; 0 is the last good commit of the range."""

    position: int
    level: float


@dataclass(frozen=True, slots=True)
class StepSize:
    """Median and 95 % interval of the size of a step, as logs."""

    median: float
    lo: float
    hi: float


@dataclass(frozen=True, slots=True)
class Contrast:
    """The probability that two commits differ, and by how much if they do."""

    probability: float
    size: StepSize


@dataclass(frozen=True)
class _Grid:
    """What is summed over: levels of the machine, sizes of the step, scales of the noise, as logs."""

    levels: Floats
    sizes: Floats
    scales: Floats

    @classmethod
    def cover(cls, observations: Sequence[Observation], head: int, least_size: float | None) -> _Grid:
        values = np.array([item.level for item in observations])
        at_base = np.array([item.level for item in observations if item.position == 0])
        at_head = np.array([item.level for item in observations if item.position == head])
        size = float(np.median(at_head) - np.median(at_base))
        spread = _spread_around_medians((at_base, at_head), abs(size) / 100)
        clustered = _without_lonely(values, 3 * spread + abs(size) / 2)
        groups = [group[np.isin(group, clustered)] for group in (at_base, at_head)]
        largest = max([2 * spread, *(float(group.std()) for group in groups if len(group) > 1)])
        doubt = 3 * largest * math.sqrt(1 / len(at_base) + 1 / len(at_head))
        sizes = _possible_sizes(size, doubt, least_size)
        low = clustered[0] - 2.5 * spread - max(sizes.max(), 0.0)
        high = clustered[-1] + 2.5 * spread - min(sizes.min(), 0.0)
        levels = np.linspace(low, high, LEVELS)
        step = levels[1] - levels[0]
        levels += (float(np.median(at_base)) - levels[0]) % step  # the base is a point of the grid
        least = max(0.6 * step, spread / 5, _granularity((at_base, at_head)) / 2)
        scales = np.geomspace(least, max(largest, 3 * step, 3 * least), SCALES)
        return cls(levels, sizes, scales)


def _spread_around_medians(groups: Sequence[Floats], least: float) -> float:
    distances = np.abs(np.concatenate([group - np.median(group) for group in groups]))
    spread = MAD_TO_SIGMA * float(np.median(distances))
    if spread == 0 and np.any(distances):  # a coarse clock
        spread = float(distances[distances > 0].min())
    return max(spread, least, MIN_SCALE)


def _granularity(groups: Sequence[Floats]) -> float:
    """The least difference between values of a commit some of which are equal, 0 where none are.

    The density of equal values grows without bound as the scale of a continuous noise shrinks; the steps of
    a clock, or the blocks of an allocator, are noise of at least their own size.
    """
    sorted_groups = [np.sort(group) for group in groups]
    gaps = np.concatenate([np.diff(group) for group in sorted_groups])
    return float(gaps[gaps > 0].min()) if np.any(gaps == 0) and np.any(gaps > 0) else 0.0


def _possible_sizes(size: float, doubt: float, least_size: float | None) -> Floats:
    """Sizes around an estimate, of its sign; with ``least_size`` those of its sign that are not smaller.

    Where it is ``None`` nothing is taken for granted: sizes of both signs, around zero.
    """
    if least_size is None:
        return np.linspace(-abs(size) - doubt, abs(size) + doubt, SIZES)
    sign = math.copysign(1.0, least_size or size)
    if least_size:
        low = abs(least_size)
        high = max(sign * size + doubt, 2 * low)
    else:
        high = abs(size) + doubt
        low = max(abs(size) - doubt, high / SIZES)
    return sign * np.linspace(low, high, SIZES)


def _without_lonely(values: Floats, distance: float) -> Floats:
    """The values in order, without those that have no other one near: spikes would stretch the grid."""
    ordered = np.sort(values)
    apart = np.diff(ordered) > distance
    lonely = np.concatenate([[True], apart]) & np.concatenate([apart, [True]])
    return ordered if lonely.all() else ordered[~lonely]


class ChangeLocation:
    """The posterior of the place of a step among commits 1 to ``head``, process by process.

    Args:
        head: Position of the last commit of the range.
        start: The first processes in the order of time, some of them of the base and some of the head.
        no_step: The prior of no step.
        least_size: The least size that counts as a step, with its sign; 0 for any of the sign of the
            difference between the ends, None where these may be equal.

    Raises:
        ValueError: The base or the head has no process.
    """

    def __init__(
        self,
        head: int,
        start: Sequence[Observation],
        *,
        no_step: float = NO_STEP_PRIOR,
        least_size: float | None = 0.0,
    ) -> None:
        if not {0, head} <= {item.position for item in start}:
            raise ValueError("both ends of the range have to be measured first")
        self.head = head
        self.observations = list(start)
        self._no_step, self._least_size = no_step, least_size
        self._rebuild()

    def add(self, observation: Observation) -> None:
        """Take in the next process."""
        self.observations.append(observation)
        if len(self.observations) >= self._rebuild_at:
            self._rebuild()
        else:
            self._update(observation)

    @property
    def probabilities(self) -> Floats:
        """The probability of each commit, by position, to have moved the level.

        That of position 0 is 0; what is missing to 1 is that none did.
        """
        result = np.zeros(self.head + 1)
        for (first, last), weight in zip(self._gaps[:-1], self._gap_probabilities(), strict=False):
            result[first + 1 : last + 1] = weight / (last - first)
        return result

    @property
    def size(self) -> StepSize:
        """The size of the step, if there is one."""
        weights = self._weights[:-1].sum(axis=(0, 2, 3, 4), dtype=np.float64)
        order = np.argsort(self._grid.sizes)
        sizes = self._grid.sizes[order]
        half = (sizes[1] - sizes[0]) / 2
        edges = np.concatenate([[sizes[0] - half], sizes + half])
        cumulative = np.concatenate([[0.0], np.cumsum(weights[order]) / weights.sum()])
        lo, median, hi = np.interp([0.025, 0.5, 0.975], cumulative, edges)
        return StepSize(float(median), float(lo), float(hi))

    def choose_next(self, costs: Mapping[int, float]) -> int:
        """The commit to measure next; ``costs`` has that of one process of each that can be measured."""
        positions = np.array(sorted(costs))
        prices = np.array([costs[position] for position in positions])
        alone = self._bits_of_next(positions) / prices
        best = int(positions[np.argmax(alone)])
        ends = [end for end in (0, self.head) if end in costs]
        if not ends or self.observations[-1].position in ends:
            return best
        end = min(ends, key=self._count_processes)
        after_end = self._bits_after_end(positions) / (prices + costs[end])
        return end if after_end.max() > alone.max() else best

    def _count_processes(self, position: int) -> int:
        return sum(item.position == position for item in self.observations)

    # ------------------------------------------------------------------ the recursion

    def _rebuild(self) -> None:
        """Choose the grids anew from all that is known, and run through all processes again."""
        self._rebuild_at = math.ceil(REBUILD_GROWTH * len(self.observations))
        self._grid = grid = _Grid.cover(self.observations, self.head, self._least_size)
        self._gaps = [(0, self.head), (self.head, self.head + 1)]  # the last one is: no step
        shape = (len(grid.sizes), len(grid.scales), len(JUMP_SHARES), len(grid.levels))
        priors = np.array([1 - self._no_step, self._no_step]) / math.prod(shape)
        self._weights: Weights = np.ones((2, *shape), np.float32) * priors.astype(np.float32).reshape(
            -1, 1, 1, 1, 1
        )
        self._jumps = np.array(JUMP_SHARES, np.float32)[:, None]
        reach = 4 * grid.scales[len(grid.scales) // 2]
        low, high = min(grid.sizes.min(), 0.0) - reach, max(grid.sizes.max(), 0.0) + reach
        self._next_values = np.linspace(grid.levels[0] + low, grid.levels[-1] + high, VALUES)
        self._next_densities = self._densities(self._next_values)
        for observation in self.observations:
            self._update(observation)

    def _update(self, observation: Observation) -> None:
        self._divide_gap(observation.position)
        self._weights = self._after_jump()
        before, after = self._densities(np.array([observation.level]))
        is_after = np.array([last <= observation.position for _, last in self._gaps])
        self._weights[is_after] *= after[:, :, None, :, 0]
        self._weights[~is_after] *= before[:, None, :, 0]
        self._weights /= self._weights.sum()

    def _divide_gap(self, position: int) -> None:
        """Let the first process of a commit tell the commits before it from those after it."""
        for index, (first, last) in enumerate(self._gaps):
            if first < position < last:
                share = (position - first) / (last - first)
                self._gaps[index : index + 1] = [(first, position), (position, last)]
                parts = [share * self._weights[index], (1 - share) * self._weights[index]]
                self._weights = np.concatenate([self._weights[:index], parts, self._weights[index + 1 :]])
                return

    def _after_jump(self) -> Weights:
        unmoved = (1 - self._jumps) * self._weights
        return np.asarray(unmoved + self._jumps * self._weights.mean(axis=-1, keepdims=True), np.float32)

    def _densities(self, values: Floats) -> tuple[Weights, Weights]:
        """Densities before the step, (scale, level, value), and after it, (size, scale, level, value)."""
        grid = self._grid
        widths = (grid.scales / math.sqrt(TAIL_DF / (TAIL_DF - 2)))[:, None, None]
        anywhere = OUTLIER_SHARE / (grid.levels[-1] - grid.levels[0])

        def density(centres: Floats) -> Weights:
            scaled = (values - centres[..., None, :, None]) / widths
            tail = (1 + scaled**2 / TAIL_DF) ** (-(TAIL_DF + 1) / 2) / (widths * T_NORM)
            return np.asarray((1 - OUTLIER_SHARE) * tail + anywhere, np.float32)

        return density(grid.levels), density(grid.levels + grid.sizes[:, None])

    def _gap_probabilities(self) -> Floats:
        by_gap = self._weights.sum(axis=(1, 2, 3, 4), dtype=np.float64)
        return np.asarray(by_gap / by_gap.sum())

    # ------------------------------------------------------------------ what to measure next

    def _shares_after(self, positions: NDArray[np.int64]) -> Floats:
        """The share of each gap's hypotheses under which a commit is after the step, (position, gap)."""
        first, last = np.array(self._gaps).T
        share = np.clip((positions[:, None] - first) / (last - first), 0.0, 1.0)
        share[:, -1] = 0.0
        return np.asarray(share)

    def _bits_of_next(self, positions: NDArray[np.int64]) -> Floats:
        """Mutual information between the place and the next process of each commit."""
        width = float(self._next_values[1] - self._next_values[0])
        before, after = self._next_densities
        state = self._after_jump().sum(axis=3)
        if_before = _weigh(state.sum(axis=1), before, width)
        if_after = _weigh(state, after, width)
        share, gap = self._shares_after(positions), self._gap_probabilities()
        to_after, to_before = gap * share, gap * (1 - share)
        mixed = to_after @ if_after + to_before @ if_before
        conditional = to_after @ _entropy(if_after, width) + to_before @ _entropy(if_before, width)
        return np.maximum(_entropy(mixed, width) - conditional, 0.0)

    def _bits_after_end(self, positions: NDArray[np.int64]) -> Floats:
        """Information in the difference between a process and one of an end of the range just before it."""
        moved = self._shares_after(positions) @ self._gap_probabilities()
        weights = self._weights.sum(axis=(0, 3, 4), dtype=np.float64)
        separations = np.abs(self._grid.sizes)[:, None] / (math.sqrt(2) * self._grid.scales)
        bits = np.zeros(len(positions))
        for separation, weight in zip(separations.ravel(), (weights / weights.sum()).ravel(), strict=True):
            if weight > 1e-3:
                bits += weight * _bits_of_two_points(moved, float(separation))
        jumps = self._weights.sum(axis=(0, 1, 2, 4), dtype=np.float64)
        return np.asarray((1 - float(jumps @ self._jumps[:, 0] / jumps.sum())) * bits)


def compare_two_commits(
    observations: Sequence[Observation],
    base: int,
    head: int,
    *,
    no_step: float = 0.5,
    least_size: float | None = None,
) -> Contrast:
    """The probability that ``head`` differs from ``base``, from their processes alone in the order of time.

    Only a difference of at least ``least_size``, of its sign, counts where it is given.
    """
    positions = {base: 0, head: 1}
    taken = [
        Observation(positions[item.position], item.level)
        for item in observations
        if item.position in positions
    ]
    location = ChangeLocation(1, taken, no_step=no_step, least_size=least_size)
    return Contrast(float(location.probabilities[1]), location.size)


def _weigh(state: Floats, densities: Weights, width: float) -> Floats:
    """The density of the next value under each gap's hypothesis, (gap, value)."""
    flat = state.reshape(len(state), -1)
    mixed = flat @ densities.reshape(flat.shape[1], -1)
    total = np.maximum(mixed.sum(axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return np.asarray(mixed / (total * width), np.float64)


def _entropy(densities: Floats, width: float) -> Floats:
    return np.asarray(-width * (densities * np.log2(np.maximum(densities, 1e-30))).sum(axis=-1))


def _bits_of_two_points(share: Floats, separation: float) -> Floats:
    """Mutual information between a bit that is 1 with probability ``share`` and a normal value of unit spread
    around ``separation`` if it is, else around 0."""
    values = np.linspace(-4.0, separation + 4.0, 24 + math.ceil(4 * min(separation, 30.0)))
    width = float(values[1] - values[0])
    unmoved_density = np.exp(-0.5 * values**2) / math.sqrt(2 * math.pi)
    moved_density = np.exp(-0.5 * (values - separation) ** 2) / math.sqrt(2 * math.pi)
    mixed = share[:, None] * moved_density + (1 - share[:, None]) * unmoved_density
    conditional = share * _entropy(moved_density, width) + (1 - share) * _entropy(unmoved_density, width)
    return np.maximum(_entropy(mixed, width) - conditional, 0.0)
