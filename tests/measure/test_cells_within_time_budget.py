"""What fits into the time of one call, and what is left for another."""

from __future__ import annotations

from perfci.measure.cells_within_time_budget import TimeBudget
from perfci.runner.suite_cells import Cell


def a_cell(name: str, cost_s: float, *, in_default: bool = False) -> Cell:
    return Cell(name, None, (), 60.0, None, 600.0, cost_s=cost_s, in_default=in_default)


CHEAP, DEAR, GUARD, ENDLESS = (
    a_cell("cheap", 1.0),
    a_cell("dear", 5.0),
    a_cell("guard", 6.0, in_default=True),
    a_cell("endless", 90.0),
)


def test_takes_the_default_suite_first_and_then_the_cheap() -> None:
    budget = TimeBudget(10.0, clock=lambda: 0.0)

    chosen, left_out = budget.choose_cells([(DEAR, 1), (ENDLESS, 1), (GUARD, 1), (CHEAP, 1)])

    assert chosen == {GUARD, CHEAP}
    assert [(left.cell, left.fits_later) for left in left_out] == [(DEAR, True), (ENDLESS, False)]
    assert left_out[1].reason == "it takes longer than the whole budget of 10 s"


def test_counts_every_process_that_a_cell_lacks() -> None:
    chosen, left_out = TimeBudget(10.0, clock=lambda: 0.0).choose_cells([(CHEAP, 4), (DEAR, 2)])

    assert chosen == {CHEAP}
    assert [left.cost_s for left in left_out] == [10.0]


def test_time_that_passes_leaves_less_room() -> None:
    now = [100.0]
    budget = TimeBudget(10.0, clock=lambda: now[0])
    assert budget.has_room_for(DEAR)

    now[0] += 6.0

    assert not budget.has_room_for(DEAR)
    assert budget.has_room_for(CHEAP)


def test_everything_fits_without_a_limit() -> None:
    chosen, left_out = TimeBudget().choose_cells([(ENDLESS, 1000)])

    assert (chosen, left_out) == ({ENDLESS}, [])
