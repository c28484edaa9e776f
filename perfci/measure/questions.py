"""What a comparison asks: is one cell different at two commits, or are two cells of one commit different?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from perfci.measure.measurement_session import MeasurementSession
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
    round_cells: tuple[Cell, ...] = ()

    def collect_processes(self, session: MeasurementSession) -> dict[str, list[Measured]]:
        """What both sides gave, by commit. Of two cells both are told as the head's, each process in its role here."""
        if self.base_cell is None:
            return {sha: list(session.get_cell_processes(sha, self.cell)) for sha in (self.base, self.head)}
        sides = ((self.base_cell, Role.BASE), (self.cell, Role.HEAD))
        return {
            self.head: [
                (replace(series, parameters=self.cell.parameters), replace(process, role=role))
                for cell, role in sides
                for series, process in session.get_cell_processes(self.head, cell)
            ]
        }

    def collect_evidence(self, session: MeasurementSession, series: Series) -> tuple[int, ...]:
        """The stored processes of both sides."""
        parameters = series.parameters if self.base_cell is None else self.base_cell.parameters
        sides = ((self.base, replace(series, parameters=parameters)), (self.head, series))
        return tuple(row_id for side in sides for row_id in session.row_ids.get(side, ()))


def plan_visits(questions: Sequence[Question], number: int, seed: int) -> Sequence[visit_plan.CommitVisit]:
    """One more pair of questions that are all about the same commits, or all about variants of one."""
    base, head = questions[0].base, questions[0].head
    if questions[0].base_cell is None:
        return visit_plan.plan_pair(
            base, head, [question.cell for question in questions], number, 2 * number, seed
        )
    groups: dict[Cell, dict[Cell, None]] = {}
    for question in questions:
        groups.setdefault(question.round_cells[0], {}).update(dict.fromkeys(question.round_cells))
    return (
        visit_plan.plan_variant_visit(
            head, [tuple(group) for group in groups.values()], number, 2 * number, seed
        ),
    )
