"""Where the levels of lines move, one point after the other or all at once: the same answer either way.

Segmentation proposes, proof disposes. What was found is kept with the line: a line that grew is looked at again from
its first point that changed, and any other is not looked at. Where the line's own noise is read anew, its whole past is
judged anew with it; that is rare (``lines.SIGMA_STEP``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from perfci.stats import preprocessing
from perfci.stats.boundary_pruning import Step, prove
from perfci.stats.boundary_test import Proofs, Trial
from perfci.stats.location import Floats
from perfci.stats.preprocessing import Line
from perfci.stats.segmentation import EMPTY, Partition, extend

MIN_POINTS = 8
"""A shorter history gets no verdict (DESIGN 6): three points a side leave nothing to tell noise from level."""

AT_ONCE = 1024
"""Lines whose intermediate numbers are held at the same time: some tens of megabytes of lines of 500 points."""


@dataclass(frozen=True, slots=True)
class Growing:
    """A line, the moves of its level by at least ``bar`` (0 means every move), and what was needed to find them."""

    values: Floats
    bar: float = 0.05
    steps: tuple[Step, ...] = ()
    _line: Line | None = None
    _partition: Partition = EMPTY
    _proofs: Proofs = field(default_factory=Proofs)

    @classmethod
    def of(cls, values: Sequence[float] = (), bar: float = 0.05) -> Growing:
        return grow([cls(np.empty(0), bar)], [values])[0]

    @property
    def moves(self) -> list[tuple[int, float]]:
        """The (index, after/before - 1) of every move."""
        return [(step.index, math.expm1(step.size)) for step in self.steps]

    def append(self, value: float) -> Growing:
        return grow([self], [np.append(self.values, value)])[0]

    def insert(self, index: int, value: float) -> Growing:
        """The line with a point that was measured later than those that follow it."""
        return grow([self], [np.insert(self.values, index, value)])[0]


def detect(values: Sequence[float], min_effect: float = 0.05) -> list[tuple[int, float]]:
    """The (index, after/before - 1) of every lasting move of at least ``min_effect``; 0 means every move."""
    return detect_many([values], min_effect)[0]


def detect_many(series: Sequence[Sequence[float]], min_effect: float = 0.05) -> list[list[tuple[int, float]]]:
    """The same for many series at once; each stands alone, together they are only faster."""
    nothing, found = Growing(np.empty(0), min_effect), []
    for start in range(0, len(series), AT_ONCE):
        some = series[start : start + AT_ONCE]
        found += [line.moves for line in grow([nothing] * len(some), some)]
    return found


def grow(known: Sequence[Growing], values: Sequence[Sequence[float] | Floats]) -> list[Growing]:
    """Each known line as it is now: longer, shorter or corrected; only what changed is looked at."""
    now = [_checked(one) for one in values]
    same = [_same(old.values, new) for old, new in zip(known, now, strict=True)]
    grown = [Growing(new, old.bar) if len(new) < MIN_POINTS else old for old, new in zip(known, now, strict=True)]
    changed = [k for k, new in enumerate(now) if len(new) >= MIN_POINTS and not _is(known[k].values, new, same[k])]
    read = preprocessing.read([now[k] for k in changed], [(known[k]._line, same[k]) for k in changed])
    valid = [_valid(known[k]._line, line, same[k]) for k, line in zip(changed, read, strict=True)]
    partitions = _partitions([known[k]._partition for k in changed], read, valid)
    for k, line, kept, partition in zip(changed, read, valid, partitions, strict=True):
        old = known[k]
        trial = Trial(line.logs, partition.sums, line.sigma, old.bar, old._proofs, same[k] if kept else 0)
        steps = prove(trial, partition.boundaries)
        grown[k] = Growing(now[k], old.bar, steps, line, partition, trial.used)
    return grown


def _checked(values: Sequence[float] | Floats) -> Floats:
    line = np.array(values, dtype=float)
    if line.ndim != 1 or not np.isfinite(line).all():
        at = int(np.argmin(np.isfinite(line))) if line.ndim == 1 else 0
        found = f"{line[at]} at point {at}" if line.ndim == 1 else f"{line.ndim} dimensions"
        raise ValueError(f"expected a line of finite numbers, found {found}; leave out what was not measured")
    return line


def _same(old: Floats, new: Floats) -> int:
    """How many first points are the same."""
    size = min(len(old), len(new))
    other = old[:size] != new[:size]
    return int(other.argmax()) if other.any() else size


def _is(old: Floats, new: Floats, same: int) -> bool:
    return same == len(old) == len(new)


def _valid(old: Line | None, new: Line, same: int) -> int:
    """For how many first points all that segmentation looks at is the same: none if they are read in other units."""
    if old is None or (old.sigma, old.unit) != (new.sigma, new.unit):
        return 0
    return preprocessing.untouched(same, preprocessing.CLIP_REACH)


def _partitions(known: Sequence[Partition], read: Sequence[Line], valid: Sequence[int]) -> list[Partition]:
    more: dict[int, Floats] = {}
    for together in preprocessing.alike([(line.points, valid[k]) for k, line in enumerate(read)]):
        more |= zip(together, preprocessing.clipped([read[k] for k in together], valid[together[0]]), strict=True)
    return extend(
        [partition.of_the_first(valid[k]) for k, partition in enumerate(known)], [more[k] for k in range(len(read))]
    )
