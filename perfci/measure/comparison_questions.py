"""Questions of a comparison: does a cell differ between two commits, or do two cells of one commit?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from perfci.measure.measure_and_store_session import SessionReadings
from perfci.model import Measured, Role, Series
from perfci.runner import visit_plan
from perfci.runner.suite_cells import Cell


@dataclass(frozen=True, slots=True)
class ComparisonQuestion:
    """Is this cell at the head different from the base?

    The base is the same cell at another commit; or ``base_cell``, one of the same benchmark at the same
    commit, with another value of a parameter. ``round_cells`` are then the cells that a round measures next
    to each other, the baseline of all others first.
    """

    base: str
    head: str
    cell: Cell
    base_cell: Cell | None = None
    round_cells: tuple[Cell, ...] = ()

    def collect_processes(self, readings: SessionReadings) -> dict[str, list[Measured]]:
        """Collect the processes of both sides, by commit.

        Two cells of one commit are both listed under the head and its parameters, each process with its
        role here.
        """
        if self.base_cell is None:
            return {sha: list(readings.get_cell_processes(sha, self.cell)) for sha in (self.base, self.head)}
        sides = ((self.base_cell, Role.BASE), (self.cell, Role.HEAD))
        return {
            self.head: [
                (replace(series, parameters=self.cell.parameters), replace(process, role=role))
                for cell, role in sides
                for series, process in readings.get_cell_processes(self.head, cell)
            ]
        }

    def collect_process_row_ids(self, readings: SessionReadings, series: Series) -> list[int]:
        """Collect the stored processes of both sides, each once: an A/A run has one commit on both."""
        parameters = series.parameters if self.base_cell is None else self.base_cell.parameters
        base_ids = readings.get_process_row_ids(self.base, replace(series, parameters=parameters))
        return list(dict.fromkeys((*base_ids, *readings.get_process_row_ids(self.head, series))))


def plan_question_pair_visits(
    questions: Sequence[ComparisonQuestion], number: int, seed: int
) -> Sequence[visit_plan.CommitVisit]:
    """Plan one more pair of questions that share their commits, or are about variants of one commit."""
    base, head = questions[0].base, questions[0].head
    order = 2 * number  # a pair takes two places in the order of visits
    if questions[0].base_cell is None:
        cells = [question.cell for question in questions]
        return visit_plan.plan_pair_visits(base, head, cells, number, order, seed)
    cells_by_baseline: dict[Cell, dict[Cell, None]] = {}
    for question in questions:
        group = cells_by_baseline.setdefault(question.round_cells[0], {})
        group.update(dict.fromkeys(question.round_cells))
    groups = [tuple(cells) for cells in cells_by_baseline.values()]
    return (visit_plan.plan_variant_comparison(head, groups, number, order, seed),)
