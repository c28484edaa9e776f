"""The dots of a trend: commits with their values, as columns, and each as one value once it is looked at."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import overload

import numpy as np
from numpy.typing import NDArray

from perfci.model import Commit, Status

MEASURED, FAILED, SKIPPED = range(3)
"""Commits of different kinds are never one dot."""

Places = NDArray[np.int64]
"""Places in a history, oldest first."""


@dataclass(frozen=True, slots=True)
class Dot:
    """One commit, or several merged neighbours: the level and the interquartile range of its processes.

    An ``invalid`` one was marked so: it is shown, with who marked it and why as its reason.
    """

    index: int
    commit: Commit
    status: Status
    level: float | None = None
    lo: float | None = None
    hi: float | None = None
    processes: int = 0
    reason: str = ""
    merged: int = 1
    invalid: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class DotColumns:
    """What charts compute with of dots, in their order.

    ``indexes`` are their places in the history; ``levels``, ``lows`` and ``highs`` are NaN where there is no
    value, and ``kinds`` say whether it failed or was skipped.
    """

    indexes: Places
    commits: Sequence[Commit]
    levels: NDArray[np.float64]
    lows: NDArray[np.float64]
    highs: NDArray[np.float64]
    kinds: NDArray[np.integer]
    processes: NDArray[np.integer]
    merged: NDArray[np.integer]

    @classmethod
    def read(cls, dots: Sequence[Dot]) -> DotColumns:
        """Read the columns of dots; those of lazy ones exist."""
        if isinstance(dots, LazyDots):
            return dots.columns
        return cls(
            np.array([dot.index for dot in dots], np.int64),
            [dot.commit for dot in dots],
            _read_values(dot.level for dot in dots),
            _read_values(dot.lo for dot in dots),
            _read_values(dot.hi for dot in dots),
            np.array([classify_point(dot.level is not None, dot.status) for dot in dots], np.int64),
            np.array([dot.processes for dot in dots], np.int64),
            np.array([dot.merged for dot in dots], np.int64),
        )

    def __len__(self) -> int:
        return len(self.indexes)

    def take(self, numbers: Places) -> DotColumns:
        """The columns of some dots."""
        return DotColumns(
            self.indexes[numbers],
            [self.commits[number] for number in numbers.tolist()],
            self.levels[numbers],
            self.lows[numbers],
            self.highs[numbers],
            self.kinds[numbers],
            self.processes[numbers],
            self.merged[numbers],
        )


def _read_values(values: Iterable[float | None]) -> NDArray[np.float64]:
    return np.array([math.nan if value is None else value for value in values], np.float64)


class LazyDots(Sequence[Dot]):
    """Dots that are built when they are looked at: of a history of thousands a chart shows some hundred.

    ``build`` makes the dot of a number.
    """

    def __init__(self, columns: DotColumns, build: Callable[[int], Dot]) -> None:
        self.columns, self._build = columns, build

    def __len__(self) -> int:
        return len(self.columns)

    @overload
    def __getitem__(self, number: int) -> Dot: ...

    @overload
    def __getitem__(self, number: slice) -> LazyDots: ...

    def __getitem__(self, number: int | slice) -> Dot | LazyDots:
        if isinstance(number, slice):
            return self.take(np.arange(len(self))[number])
        return self._build(range(len(self))[number])

    def __iter__(self) -> Iterator[Dot]:
        return map(self._build, range(len(self)))

    def take(self, numbers: Places) -> LazyDots:
        """Some of the dots."""
        chosen, build = numbers.tolist(), self._build
        return LazyDots(self.columns.take(numbers), lambda number: build(chosen[number]))

    def renumber(self, indexes: Places) -> LazyDots:
        """The same dots at other places of the history."""
        build = self._build
        return LazyDots(
            replace(self.columns, indexes=indexes),
            lambda number: replace(build(number), index=int(indexes[number])),
        )


def take_dots(dots: Sequence[Dot], numbers: Places) -> Sequence[Dot]:
    """Some of the dots of a trend."""
    if len(numbers) == len(dots):
        return dots
    return dots.take(numbers) if isinstance(dots, LazyDots) else tuple(dots[number] for number in numbers)


def clip_dots(dots: Sequence[Dot], start: int, end: int) -> Sequence[Dot]:
    """The dots between two numbers, their places counted from the first."""
    if isinstance(dots, LazyDots):
        clipped = dots[start:end]
        return clipped.renumber(clipped.columns.indexes - start)
    return tuple(replace(dot, index=dot.index - start) for dot in dots[start:end])


def merge_dots(dots: Sequence[Dot], groups: Sequence[Places]) -> LazyDots:
    """Merge each group of neighbours into one dot: the median of their levels, with the whole spread.

    ``groups`` are numbers of dots; those of a group have a level all, or none.
    """
    columns, middles = DotColumns.read(dots), [int(group[len(group) // 2]) for group in groups]
    merged = _merge_columns(columns, groups, middles)

    def build(number: int) -> Dot:
        dot, count = dots[middles[number]], len(groups[number])
        if count == 1:
            return dot
        dot = replace(dot, processes=int(merged.processes[number]), merged=count)
        if dot.level is None:
            return dot
        level, lo, hi = merged.levels[number], merged.lows[number], merged.highs[number]
        return replace(dot, level=float(level), lo=float(lo), hi=float(hi))

    return LazyDots(merged, build)


def _merge_columns(columns: DotColumns, groups: Sequence[Places], middles: Sequence[int]) -> DotColumns:
    taken = columns.take(np.array(middles, np.int64))
    sizes = np.array([len(group) for group in groups], np.int64)
    if sizes.max(initial=1) == 1:
        return taken
    members, starts = np.concatenate(groups), np.cumsum(sizes) - sizes
    levels = columns.levels[members]
    ordered = levels[np.lexsort((levels, np.repeat(np.arange(len(groups)), sizes)))]
    lower, upper = ordered[starts + (sizes - 1) // 2], ordered[starts + sizes // 2]
    return replace(
        taken,
        levels=np.where(sizes % 2, lower, (lower + upper) / 2),
        lows=np.minimum.reduceat(columns.lows[members], starts),
        highs=np.maximum.reduceat(columns.highs[members], starts),
        processes=np.add.reduceat(columns.processes[members], starts),
        merged=np.where(sizes == 1, taken.merged, sizes),
    )


def classify_point(has_level: bool, status: Status) -> int:
    """The kind of a commit in a chart."""
    if has_level:
        return MEASURED
    return SKIPPED if status is Status.SKIPPED else FAILED


def merge_neighbours(kinds: NDArray[np.integer], unmerged: Collection[int], max_groups: int) -> list[Places]:
    """Group the places of a history, so that about ``max_groups`` of each kind are left.

    Places in ``unmerged`` are groups of their own. Groups are in the order of their middle places, which is
    where they are drawn.
    """
    count = len(kinds)
    if count <= max_groups:
        return list(np.arange(count)[:, np.newaxis])
    keys = (np.arange(count) // math.ceil(count / max_groups)) * (SKIPPED + 1) + kinds
    alone = np.fromiter(unmerged, np.int64)
    keys[alone] = -1 - alone
    order = np.argsort(keys, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(keys[order])) + 1)
    return sorted(groups, key=lambda group: int(group[len(group) // 2]))
