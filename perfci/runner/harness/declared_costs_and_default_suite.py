"""What a suite declares for the plan of a run: the cost of each cell, and which cells are of the default
suite.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterator, Mapping
from typing import Any


def declared_costs(benchmark: Any) -> list[float]:
    """Seconds that each cell of the grid takes, by ``cost_s``; empty where the benchmark declares none.

    ``cost_s`` is a number, or a function of the parameters by name. Raises ``ValueError`` for anything else.
    """
    cost = read_benchmark_attribute(benchmark, "cost_s")
    if cost is None:
        return []
    costs = [cost(point) if callable(cost) else cost for point in grid_points(benchmark)]
    if not all(isinstance(seconds, int | float) and seconds > 0 for seconds in costs):
        raise ValueError(
            f"{benchmark.name}: cost_s gives {costs!r}; positive seconds, or a function of the parameters "
            "by name that returns them, were expected"
        )
    return [float(seconds) for seconds in costs]


def default_suite_cells(benchmark: Any) -> list[bool]:
    """Whether each cell of the grid is of the default suite, by ``default_suite``; all are by default.

    ``default_suite`` is True, False, or a mapping of parameters to the values that are of it. Raises
    ``ValueError`` for a parameter or a value that the grid lacks.
    """
    chosen = read_benchmark_attribute(benchmark, "default_suite")
    points = list(grid_points(benchmark))
    if chosen is None or isinstance(chosen, bool):
        return [chosen is not False] * len(points)
    if not isinstance(chosen, Mapping):
        raise ValueError(
            f"{benchmark.name}: default_suite is {chosen!r}; True, False or a mapping of parameters to "
            "values was expected"
        )
    for name, values in chosen.items():
        check_grid_has_values(benchmark.name, points, name, values)
    return [all(point[name] in values for name, values in chosen.items()) for point in points]


def check_grid_has_values(benchmark: str, points: list[dict[str, Any]], name: str, values: Any) -> None:
    names = list(points[0])
    if name not in names:
        close = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"the benchmark has {', '.join(names) or 'none'}"
        raise ValueError(f"{benchmark}: default_suite names the unknown parameter {name!r}; {hint}")
    grid = [point[name] for point in points]
    lacking = [value for value in values if value not in grid]
    if lacking:
        raise ValueError(f"{benchmark}: default_suite names {name} = {lacking[0]!r}, which the grid lacks")


def grid_points(benchmark: Any) -> Iterator[dict[str, Any]]:
    """Every point of the grid by name, the last parameter fastest as in asv."""
    # asv allows fewer names than parameters.
    names = [str(name) for name in benchmark.param_names]
    names += [f"param{k + 1}" for k in range(len(names), len(benchmark._params))]
    for values in itertools.product(*benchmark._params):
        yield dict(zip(names, values, strict=False))


def read_benchmark_attribute(benchmark: Any, name: str) -> Any:
    """An attribute of the function, else of its class, else of its module."""
    candidates = (getattr(source, name, None) for source in benchmark._attr_sources)
    return next((value for value in candidates if value is not None), None)
