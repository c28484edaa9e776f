"""In which order everything is measured: seeded, so that a session can be resumed and replayed exactly."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from perfci.model import Role
from perfci.runner.suite import Cell


@dataclass(frozen=True, slots=True)
class Visit:
    """One commit visited once: which cells, in which order, and for which round or side of a pair."""

    sha: str
    cells: tuple[Cell, ...]
    order: int
    role: Role = Role.HISTORY
    round: int | None = None
    pair: int | None = None


def rounds(shas: Sequence[str], cells: Sequence[Cell], count: int, seed: int) -> Iterator[Visit]:
    """Visit every commit once per round in random order, every cell once per visit in random order.

    Measuring commit after commit confounds the range with the machine's mood; in rounds a slow spell hits every
    commit alike.
    """
    for number in range(count):
        dice = random.Random(f"{seed}/round/{number}")
        for place, sha in enumerate(dice.sample(shas, len(shas))):
            yield Visit(sha, _shuffled(dice, cells), number * len(shas) + place, round=number)


def pair(base: str, head: str, cells: Sequence[Cell], number: int, order: int, seed: int) -> tuple[Visit, Visit]:
    """Measure base and head next to each other, in random order (A B or B A) but with the cells in the same order."""
    dice = random.Random(f"{seed}/pair/{base}/{head}/{number}")
    shuffled = _shuffled(dice, cells)
    sides = [(base, Role.BASE), (head, Role.HEAD)]
    dice.shuffle(sides)
    first, second = (Visit(sha, shuffled, order + place, role, pair=number) for place, (sha, role) in enumerate(sides))
    return first, second


def _shuffled(dice: random.Random, cells: Sequence[Cell]) -> tuple[Cell, ...]:
    return tuple(dice.sample(cells, len(cells)))
