"""Plan which cells fit into the time of one call, and name those that are left for another."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from perfci.number_format import format_duration
from perfci.runner.suite_cells import Cell


@dataclass(frozen=True, slots=True)
class LeftOutCell:
    """A cell that this call does not measure, and why; ``cost_s`` of all its processes that are missing.

    ``fits_later`` says that another call with the same budget measures it.
    """

    cell: Cell
    cost_s: float
    reason: str
    fits_later: bool = True


@dataclass
class TimeBudget:
    """The seconds that one call may measure, from the moment this is made; without a limit by default."""

    total_s: float = math.inf
    clock: Callable[[], float] = time.monotonic
    started_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.started_s = self.clock()

    @property
    def remaining_s(self) -> float:
        """Seconds that are left."""
        return self.total_s - (self.clock() - self.started_s)

    @property
    def deadline(self) -> float | None:
        """The moment on the clock at which it ends; None without a limit."""
        return None if math.isinf(self.total_s) else self.started_s + self.total_s

    def has_room_for(self, cell: Cell) -> bool:
        """Whether a process of this cell is expected to end in time."""
        return cell.cost_s <= self.remaining_s

    def choose_cells(self, missing: Sequence[tuple[Cell, int]]) -> tuple[Collection[Cell], list[LeftOutCell]]:
        """Choose from the cells of a round, each with the number of processes that it still lacks.

        Cells of the default suite come first, then the cheap ones, so that a call covers as many as it can.
        Either all processes of a cell fit or none is begun: its commits are compared with each other.
        """
        chosen: set[Cell] = set()
        left_out = []
        remaining_s = self.remaining_s
        for cell, count in sorted(missing, key=lambda entry: (not entry[0].in_default, entry[0].cost_s)):
            cost_s = cell.cost_s * count
            if cost_s <= remaining_s:
                chosen.add(cell)
                remaining_s -= cost_s
            else:
                left_out.append(self._leave_out(cell, cost_s))
        return chosen, left_out

    def _leave_out(self, cell: Cell, cost_s: float) -> LeftOutCell:
        if cost_s <= self.total_s:
            return LeftOutCell(cell, cost_s, "it fits into the next call with this budget")
        reason = f"it takes longer than the whole budget of {format_duration(self.total_s)}"
        return LeftOutCell(cell, cost_s, reason, fits_later=False)
