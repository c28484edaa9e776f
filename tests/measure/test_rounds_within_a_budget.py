"""Rounds that are measured within a budget, call after call: all of it, each process once, and in time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from perfci.measure.cells_within_time_budget import TimeBudget
from perfci.measure.commit_ranges.measure_commit_rounds import measure_commit_rounds
from perfci.measure.measure_and_store_session import SessionReadings, SessionScope
from perfci.model import Process
from perfci.runner.cell_outcomes import Discovery
from perfci.runner.suite_cells import Cell
from perfci.runner.visit_plan import CommitVisit
from tests.support.builders import a_commit, a_series


class PretendedSession:
    """A session on a clock of its own, whose cells take ``factor`` times what they say."""

    def __init__(self, factor: float) -> None:
        self.now, self.factor, self.seed = 0.0, factor, 7
        self.readings = SessionReadings()
        self.runner = SimpleNamespace(close_fork_servers=lambda: None)

    def measure_visit(
        self, visit: CommitVisit, cells: Sequence[Cell], has_room_for: Callable[[Cell], bool]
    ) -> bool:
        for cell in cells:
            if not has_room_for(cell):
                return False
            self.now += self.factor * cell.cost_s
            process = Process(index=0, samples=(1.0,), round=visit.round)
            row_id = len(self.readings)
            self.readings.add_process(visit.sha, row_id, a_series(cell.benchmark, parameters={}), process)
        return True

    @property
    def measured(self) -> list[tuple[str, str, Any]]:
        rows = self.readings.processes_by_sha.items()
        return [(sha, series.cell, process.round) for sha, of_sha in rows for series, process in of_sha]


def a_cell(number: int, cost_s: float, *, in_default: bool) -> Cell:
    return Cell(f"suite.track_{number}", None, (), 60.0, None, 600.0, cost_s=cost_s, in_default=in_default)


cell_plans = st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=5)


@settings(deadline=None, max_examples=40)
@given(
    cell_plans, st.integers(1, 3), st.integers(1, 3), st.integers(20, 60), st.sampled_from([0.5, 1.0, 2.0])
)
def test_every_process_is_measured_once_and_no_call_overruns_by_more_than_a_cell(
    plan: list[tuple[int, bool]], commits: int, rounds: int, budget_s: int, factor: float
) -> None:
    cells = [a_cell(k, float(cost_s), in_default=guard) for k, (cost_s, guard) in enumerate(plan)]
    shas = {a_commit(number).sha: a_commit(number) for number in range(1, commits + 1)}
    scope = SessionScope(shas, Discovery({}, ()), tuple(cells))
    session = PretendedSession(factor)
    progress = SimpleNamespace(
        report_with_time_left=lambda line: None, limit_stage_seconds=lambda seconds: None
    )

    for _ in range(1000):
        started_s = session.now
        budget = TimeBudget(float(budget_s), clock=lambda: session.now)
        left_out = measure_commit_rounds(session, scope, rounds, progress, budget)  # type: ignore[arg-type]
        assert session.now - started_s <= budget_s + factor * 9
        if not any(left.fits_later for left in left_out):
            break

    never = {left.cell.name for left in left_out}
    expected = {
        (sha, cell.name, number)
        for sha in shas
        for cell in cells
        if cell.name not in never
        for number in range(rounds)
    }
    assert len(session.measured) == len(set(session.measured))
    assert set(session.measured) >= expected
    assert all(cell.cost_s * commits > budget_s for cell in cells if cell.name in never)


def test_cells_that_end_early_leave_room_for_others() -> None:
    cells = [a_cell(k, 4.0, in_default=False) for k in range(10)]
    commit = a_commit()
    session = PretendedSession(factor=0.25)
    progress = SimpleNamespace(
        report_with_time_left=lambda line: None, limit_stage_seconds=lambda seconds: None
    )
    scope = SessionScope({commit.sha: commit}, Discovery({}, ()), tuple(cells))

    budget = TimeBudget(10.0, clock=lambda: session.now)
    left_out = measure_commit_rounds(session, scope, 1, progress, budget)  # type: ignore[arg-type]

    assert len(session.measured) == 7
    assert len(left_out) == 3
    assert session.now == 7.0
