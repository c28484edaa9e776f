"""Measure the commits of a range in rounds, as far as the time budget of one call goes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from perfci.measure.cells_within_time_budget import LeftOutCell, TimeBudget
from perfci.measure.measure_and_store_session import MeasurementSession, SessionProgress, SessionScope
from perfci.runner import visit_plan
from perfci.runner.suite_cells import Cell
from perfci.runner.visit_plan import CommitVisit

LONGER_THAN_PLANNED = "what was measured before it took longer than planned; the next call goes on with it"
LATER_ROUND = "a later round, which begins when the one before it is complete"

RENEW_AFTER_S = 30.0
"""Seconds between restarts of the fork servers.

A restart costs about 3 s, so at most a tenth of the time.
"""


@dataclass(slots=True)
class RoundsPlan:
    """What the rounds of a session still lack, and what of it fits into the budget of this call."""

    visits: Sequence[CommitVisit]
    measured: set[tuple[str, str, int | None]]  # sha, cell name and round
    budget: TimeBudget
    left_out: list[LeftOutCell] = field(default_factory=list)

    def list_missing_cells(self, visit: CommitVisit) -> list[Cell]:
        """The cells of a visit that were not measured, in its order."""
        return [cell for cell in visit.cells if (visit.sha, cell.name, visit.round) not in self.measured]

    def list_visits(self, number: int) -> list[CommitVisit]:
        """The visits of one round, in their order."""
        return [visit for visit in self.visits if visit.round == number]

    def choose_cells_of_round(self, number: int, tried: Collection[Cell]) -> Collection[Cell]:
        """Choose cells of a round that fit now; where none does, note those that are left."""
        counts = Counter(
            cell
            for visit in self.list_visits(number)
            for cell in self.list_missing_cells(visit)
            if cell not in tried
        )
        chosen, left_out = self.budget.choose_cells(list(counts.items()))
        if not chosen:
            named = {left.cell for left in self.left_out}
            self.left_out += [left for left in left_out if left.cell not in named]
        return chosen

    def note_unmeasured_cells(self, visits: Sequence[CommitVisit], reason: str) -> None:
        """Note every cell that these visits lack."""
        counts = Counter(cell for visit in visits for cell in self.list_missing_cells(visit))
        named = {left.cell for left in self.left_out}
        self.left_out += [
            LeftOutCell(cell, cell.cost_s * count, reason)
            for cell, count in counts.items()
            if cell not in named
        ]


def measure_commit_rounds(
    session: MeasurementSession,
    scope: SessionScope,
    rounds: int,
    progress: SessionProgress,
    budget: TimeBudget,
) -> Sequence[LeftOutCell]:
    """Visit every commit once per round; a resumed session measures only what it lacks.

    Returns the cells that the budget has no room for.
    """
    visits = list(visit_plan.plan_round_visits(list(scope.commits), scope.cells, rounds, session.seed))
    plan = RoundsPlan(visits, _list_measured_visits(session), budget)
    renewed_at = time.monotonic()
    progress.limit_stage_seconds(budget.remaining_s)
    for number in range(rounds):
        progress.report_with_time_left(f"round {number + 1} of {rounds}")
        if time.monotonic() - renewed_at > RENEW_AFTER_S:
            session.runner.close_fork_servers()
            renewed_at = time.monotonic()
        _measure_round(session, plan, number)
        if any(left.fits_later for left in plan.left_out):
            later = [visit for visit in visits if visit.round is not None and visit.round > number]
            plan.note_unmeasured_cells(later, LATER_ROUND)
            break
    return plan.left_out


def _measure_round(session: MeasurementSession, plan: RoundsPlan, number: int) -> None:
    """Measure what fits of a round, in passes over its commits: cells that end early leave room for more."""
    tried: set[Cell] = set()
    while chosen := plan.choose_cells_of_round(number, tried):
        tried.update(chosen)
        for visit in plan.list_visits(number):
            cells = [cell for cell in plan.list_missing_cells(visit) if cell in chosen]
            if cells and not session.measure_visit(visit, cells, plan.budget.has_room_for):
                plan.measured = _list_measured_visits(session)
                plan.note_unmeasured_cells(plan.list_visits(number), LONGER_THAN_PLANNED)
                return
        plan.measured = _list_measured_visits(session)


def _list_measured_visits(session: MeasurementSession) -> set[tuple[str, str, int | None]]:
    return {
        (sha, series.cell, process.round)
        for sha, rows in session.readings.processes_by_sha.items()
        for series, process in rows
    }
