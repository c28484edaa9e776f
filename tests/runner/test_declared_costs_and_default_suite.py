"""What a suite declares for the plan of a run, and the timeouts that follow from it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from perfci.runner.harness.declared_costs_and_default_suite import declared_costs, default_suite_cells
from perfci.runner.suite_cells import (
    Cell,
    CostSource,
    DiscoveredBenchmark,
    apply_measured_costs,
    expand_cells,
)


def a_benchmark(params: dict[str, list[Any]], **declared: Any) -> Any:
    """A benchmark as asv builds it, with the function, its class and its module as sources."""
    sources = [SimpleNamespace(), SimpleNamespace(**declared), SimpleNamespace()]
    return SimpleNamespace(
        name="suite.Model.measure_all",
        _attr_sources=sources,
        _params=list(params.values()),
        param_names=list(params),
    )


GRID: dict[str, list[Any]] = {"length": [128, 512], "precision": ["fp32", "bf16"]}


def test_a_cost_may_be_a_number_or_follow_the_parameters() -> None:
    assert declared_costs(a_benchmark(GRID)) == []
    assert declared_costs(a_benchmark(GRID, cost_s=3)) == [3.0] * 4
    assert declared_costs(a_benchmark(GRID, cost_s=lambda p: p["length"] / 64)) == [2.0, 2.0, 8.0, 8.0]
    assert declared_costs(a_benchmark({}, cost_s=1.5)) == [1.5]


@pytest.mark.parametrize("cost", [0, -1, "long", lambda p: None])
def test_a_cost_that_is_no_number_of_seconds_is_an_error(cost: Any) -> None:
    with pytest.raises(ValueError, match=r"suite.Model.measure_all: cost_s gives .* positive seconds"):
        declared_costs(a_benchmark(GRID, cost_s=cost))


def test_cells_are_of_the_default_suite_unless_it_is_declared_otherwise() -> None:
    assert default_suite_cells(a_benchmark(GRID)) == [True] * 4
    assert default_suite_cells(a_benchmark(GRID, default_suite=False)) == [False] * 4
    assert default_suite_cells(a_benchmark({}, default_suite=True)) == [True]
    chosen = {"length": [512], "precision": ["bf16"]}
    assert default_suite_cells(a_benchmark(GRID, default_suite=chosen)) == [False, False, False, True]


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"precison": ["bf16"]}, "unknown parameter 'precison'; did you mean 'precision'"),
        ({"precision": ["int4"]}, "names precision = 'int4', which the grid lacks"),
        ("bf16", "True, False or a mapping of parameters to values was expected"),
    ],
)
def test_a_wrong_choice_of_the_default_suite_is_an_error(chosen: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        default_suite_cells(a_benchmark(GRID, default_suite=chosen))


def cells_of(timeout_s: float | None = None, costs_s: tuple[float, ...] = ()) -> list[Cell]:
    benchmark = DiscoveredBenchmark(
        "suite.time_it", "1", "time", (), ("size",), (("1", "2"),), timeout_s, None, None, costs_s
    )
    return expand_cells([benchmark], "", 60.0)


def test_timeouts_follow_from_declared_costs() -> None:
    assert [(cell.timeout_s, cell.cost_source) for cell in cells_of()] == [(60.0, CostSource.ASSUMED)] * 2
    assert [cell.timeout_s for cell in cells_of(costs_s=(2.0, 700.0))] == [60.0, 3500.0]
    assert [cell.timeout_s for cell in cells_of(timeout_s=600.0, costs_s=(2.0, 700.0))] == [600.0, 3500.0]


def test_measured_costs_replace_declared_ones_and_never_shorten_a_timeout() -> None:
    measured_s = {("suite.time_it", (("size", "1"),)): 40.0}

    first, second = apply_measured_costs(cells_of(costs_s=(2.0, 700.0)), measured_s)

    assert (first.cost_s, first.cost_source, first.timeout_s) == (40.0, CostSource.MEASURED, 200.0)
    assert (second.cost_s, second.cost_source, second.timeout_s) == (700.0, CostSource.DECLARED, 3500.0)


def test_a_timeout_declared_by_hand_is_not_raised_by_what_was_measured() -> None:
    measured_s = {("suite.time_it", (("size", "1"),)): 40.0}

    assert apply_measured_costs(cells_of(timeout_s=90.0), measured_s)[0].timeout_s == 90.0
