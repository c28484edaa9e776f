"""Plan the order of visits and cells: seeded, so that a session can be resumed and replayed exactly."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from perfci.model import Role
from perfci.runner.suite_cells import Cell


@dataclass(frozen=True, slots=True)
class CommitVisit:
    """One commit visited once: which cells, in which order, and for which round or side of a pair."""

    sha: str
    cells: tuple[Cell, ...]
    order: int
    role: Role = Role.HISTORY
    round: int | None = None
    pair: int | None = None
    base_cells: tuple[Cell, ...] = ()
    variant_groups: tuple[tuple[Cell, ...], ...] = ()  # variants, by benchmark

    def role_of_cell(self, cell: Cell) -> Role:
        """Where the sides are cells of one commit, those that others are compared with are the base."""
        return Role.BASE if cell in self.base_cells else self.role


def plan_round_visits(
    shas: Sequence[str], cells: Sequence[Cell], count: int, seed: int
) -> Iterator[CommitVisit]:
    """Visit every commit once per round in random order, every cell once per visit in random order.

    Measuring commit after commit confounds the range with the machine's drift; in rounds a slow spell hits
    every commit alike.
    """
    for number in range(count):
        generator = random.Random(f"{seed}/round/{number}")
        for place, sha in enumerate(generator.sample(shas, len(shas))):
            yield CommitVisit(sha, _shuffle(generator, cells), number * len(shas) + place, round=number)


def plan_pair_visits(
    base: str, head: str, cells: Sequence[Cell], number: int, order: int, seed: int
) -> tuple[CommitVisit, CommitVisit]:
    """Measure base and head next to each other, in random order (A B or B A), cells in equal order."""
    generator = random.Random(f"{seed}/pair/{base}/{head}/{number}")
    shuffled = _shuffle(generator, cells)
    sides = [(base, Role.BASE), (head, Role.HEAD)]
    generator.shuffle(sides)
    first, second = (
        CommitVisit(sha, shuffled, order + place, role, pair=number)
        for place, (sha, role) in enumerate(sides)
    )
    return first, second


def plan_variant_comparison(
    sha: str, variant_groups: Sequence[Sequence[Cell]], number: int, order: int, seed: int
) -> CommitVisit:
    """Measure the variants of each benchmark of one commit next to each other, all in random order.

    Each group holds the variants of one benchmark, the first of which is the base. One visit imports the
    commit once, so that all variants of a round share one layout of memory.
    """
    # The seed text is stored history: another one would replay old sessions in another order.
    generator = random.Random(f"{seed}/lineup/{sha}/{number}")
    groups = generator.sample(variant_groups, len(variant_groups))
    beside = tuple(_shuffle(generator, group) for group in groups)
    cells = tuple(cell for group in beside for cell in group)
    bases = tuple(group[0] for group in groups)
    return CommitVisit(sha, cells, order, Role.HEAD, pair=number, base_cells=bases, variant_groups=beside)


def _shuffle(generator: random.Random, cells: Sequence[Cell]) -> tuple[Cell, ...]:
    return tuple(generator.sample(cells, len(cells)))
