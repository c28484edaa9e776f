"""What a comparison asks: is one cell different at two commits, or are two cells of one commit different?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from perfci.measure.measurement_session import Session
from perfci.model import Measured, Role, Series
from perfci.runner import visit_plan
from perfci.runner.frozen_suite import Cell


@dataclass(frozen=True, slots=True)
class Question:
    """Is this cell at the head different from the base?

    The base is the same cell at another commit; or ``base_cell``, one of the same benchmark at the same commit, with
    another value of a parameter. ``beside`` are then the cells that a round measures next to each other, first the one
    that all others stem from.
    """

    base: str
    head: str
    cell: Cell
    base_cell: Cell | None = None
    beside: tuple[Cell, ...] = ()

    def readings(self, session: Session) -> dict[str, list[Measured]]:
        """What both sides gave, by commit. Of two cells both are told as the head's, each process in its role here."""
        if self.base_cell is None:
            return {sha: list(session.readings(sha, self.cell)) for sha in (self.base, self.head)}
        sides = ((self.base_cell, Role.BASE), (self.cell, Role.HEAD))
        return {
            self.head: [
                (replace(series, parameters=self.cell.parameters), replace(process, role=role))
                for cell, role in sides
                for series, process in session.readings(self.head, cell)
            ]
        }

    def evidence(self, session: Session, series: Series) -> tuple[int, ...]:
        """The stored processes of both sides."""
        parameters = series.parameters if self.base_cell is None else self.base_cell.parameters
        sides = ((self.base, replace(series, parameters=parameters)), (self.head, series))
        return tuple(row_id for side in sides for row_id in session.evidence.get(side, ()))


def visits(asked: Sequence[Question], number: int, seed: int) -> Sequence[visit_plan.Visit]:
    """One more pair of questions that are all about the same commits, or all about variants of one."""
    base, head = asked[0].base, asked[0].head
    if asked[0].base_cell is None:
        return visit_plan.pair(base, head, [question.cell for question in asked], number, 2 * number, seed)
    groups: dict[Cell, dict[Cell, None]] = {}
    for question in asked:
        groups.setdefault(question.beside[0], {}).update(dict.fromkeys(question.beside))
    return (visit_plan.lineup(head, [tuple(group) for group in groups.values()], number, 2 * number, seed),)
