"""Orders of measurement: complete, random, and the same again from the same seed."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from perfci.model import Role
from perfci.runner import visit_plan
from perfci.runner.suite_cells import Cell

CELLS = [Cell(name, None, (), 60.0, None, 600.0) for name in ("train", "generate", "memory")]


@settings(deadline=None, derandomize=True, max_examples=30)
@given(commits=st.integers(1, 8), rounds=st.integers(1, 5), seed=st.integers(0, 2**32))
def test_every_round_visits_every_commit_and_cell_once(commits: int, rounds: int, seed: int) -> None:
    shas = [f"{n:040x}" for n in range(commits)]

    visits = list(visit_plan.plan_round_visits(shas, CELLS, rounds, seed))

    assert [v.order for v in visits] == list(range(commits * rounds))
    for number in range(rounds):
        of_round = [v for v in visits if v.round == number]
        assert sorted(v.sha for v in of_round) == shas
        assert all(sorted(c.name for c in v.cells) == ["generate", "memory", "train"] for v in of_round)
    assert visits == list(visit_plan.plan_round_visits(shas, CELLS, rounds, seed))


def test_rounds_differ_in_their_order() -> None:
    shas = [f"{n:040x}" for n in range(12)]

    visits = list(visit_plan.plan_round_visits(shas, CELLS, 4, seed=1))

    orders = {tuple(v.sha for v in visits if v.round == number) for number in range(4)}
    assert len(orders) == 4


def test_pairs_alternate_at_random_with_equal_cells_on_both_sides() -> None:
    pairs = [
        visit_plan.plan_pair_visits("a" * 40, "b" * 40, CELLS, number, 2 * number, seed=5)
        for number in range(40)
    ]

    firsts = [first.role for first, _ in pairs]
    assert 10 < firsts.count(Role.BASE) < 30
    assert all(first.cells == second.cells and first.pair == second.pair for first, second in pairs)
    assert all({first.role, second.role} == {Role.BASE, Role.HEAD} for first, second in pairs)


def test_a_round_of_variants_keeps_each_benchmarks_together_in_random_order() -> None:
    groups = [tuple(replace(cell, parameters=(("attn", value),)) for value in "abc") for cell in CELLS]

    visits = [
        visit_plan.plan_variant_comparison("a" * 40, groups, number, number, seed=7) for number in range(40)
    ]

    assert visits[3] == visit_plan.plan_variant_comparison("a" * 40, groups, 3, 3, seed=7)
    assert all(
        {cell.benchmark for cell in visit.cells[start : start + 3]} == {visit.cells[start].benchmark}
        for visit in visits
        for start in (0, 3, 6)
    )
    assert len({visit.cells[:3] for visit in visits}) > 12
    assert [visits[0].role_of_cell(cell) for cell in groups[0]] == [Role.BASE, Role.HEAD, Role.HEAD]
