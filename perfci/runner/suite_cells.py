"""Cells of a suite: each discovered benchmark at each point of its parameter grid."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from perfci.model import Clock, Metric, NamedValues, PerfciError, cell_name

ASSUMED_COST_S = 5.0
"""Cost of a cell that declares none and was never measured: asv's own timing takes about as long."""

TIMEOUT_FACTOR = 5.0
"""A cell may take this many times its cost: a busy neighbour makes it three times as long."""


class CostSource(StrEnum):
    """Where the cost of a cell comes from."""

    MEASURED = "measured"  # by earlier runs on this machine
    DECLARED = "declared"
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True)
class DeclaredMetric:
    """A metric that a benchmark declares; ``clock`` is its expected clock."""

    metric: Metric
    clock: Clock


@dataclass(frozen=True, slots=True)
class DiscoveredBenchmark:
    """One benchmark as the discovery found it at one commit."""

    name: str
    version: str
    type: str
    metrics: tuple[DeclaredMetric, ...]
    param_names: tuple[str, ...]
    params: tuple[tuple[str, ...], ...]
    timeout_s: float | None
    setup_cache_key: str | None
    setup_cache_timeout_s: float | None
    costs_s: tuple[float, ...] = ()  # by cell of the grid; empty where none is declared
    in_default: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True)
class Cell:
    """One benchmark at one point of its grid: what one process measures.

    ``cost_s`` are the seconds that one process is expected to take; it may take ``timeout_s``.
    """

    benchmark: str
    param_idx: int | None
    parameters: NamedValues
    timeout_s: float
    setup_cache_key: str | None
    setup_cache_timeout_s: float
    cost_s: float = ASSUMED_COST_S
    cost_source: CostSource = CostSource.ASSUMED
    in_default: bool = True
    limits_itself: bool = False  # its timeout was declared by hand

    @property
    def name(self) -> str:
        return cell_name(self.benchmark, self.parameters)


def parse_benchmarks(messages: Iterable[Mapping[str, Any]]) -> dict[str, DiscoveredBenchmark]:
    """Parse the harness's descriptions of benchmarks, by name."""
    return {
        message["name"]: DiscoveredBenchmark(
            name=message["name"],
            version=str(message["version"]),
            type=message["type"],
            metrics=tuple(
                DeclaredMetric(Metric(row["name"], row["unit"], row["direction"]), Clock(row["clock"]))
                for row in message["metrics"]
            ),
            param_names=tuple(message["param_names"]),
            params=tuple(tuple(values) for values in message["params"]),
            timeout_s=message["timeout_s"],
            setup_cache_key=message["setup_cache_key"],
            setup_cache_timeout_s=message["setup_cache_timeout_s"],
            costs_s=tuple(message["costs_s"]),
            in_default=tuple(message["in_default"]),
        )
        for message in messages
    }


def expand_cells(benchmarks: Iterable[DiscoveredBenchmark], pattern: str, timeout_s: float) -> list[Cell]:
    """Expand benchmarks over their grids (last parameter fastest, as in asv); keep matching cells."""
    try:
        matcher = re.compile(pattern)
    except re.error as error:
        raise PerfciError(f"--bench {pattern!r} is no regular expression: {error}") from None
    cells = [cell for benchmark in benchmarks for cell in _expand_grid(benchmark, timeout_s)]
    return [cell for cell in cells if matcher.search(cell.name)]


def _expand_grid(benchmark: DiscoveredBenchmark, default_timeout_s: float) -> Iterator[Cell]:
    # asv allows fewer names than parameters, and more.
    names = [*benchmark.param_names]
    names += [f"param{i + 1}" for i in range(len(names), len(benchmark.params))]
    for index, values in enumerate(itertools.product(*benchmark.params)):
        declared_s = benchmark.costs_s[index] if benchmark.costs_s else None
        timeout_s = benchmark.timeout_s or default_timeout_s
        if declared_s is not None:
            timeout_s = max(timeout_s, TIMEOUT_FACTOR * declared_s)
        yield Cell(
            benchmark.name,
            index if values else None,
            tuple(zip(names, values, strict=False)),
            timeout_s,
            benchmark.setup_cache_key,
            benchmark.setup_cache_timeout_s or max(timeout_s, 600.0),
            cost_s=declared_s or ASSUMED_COST_S,
            cost_source=CostSource.DECLARED if declared_s else CostSource.ASSUMED,
            in_default=benchmark.in_default[index] if benchmark.in_default else True,
            limits_itself=benchmark.timeout_s is not None,
        )


def apply_measured_costs(
    cells: Iterable[Cell], measured_s: Mapping[tuple[str, NamedValues], float]
) -> list[Cell]:
    """Plan with what earlier runs measured: costs, and the timeouts that follow from them.

    A timeout grows with a cost and never shrinks; one that was declared by hand stays.
    """
    return [_apply_measured_cost(cell, measured_s.get((cell.benchmark, cell.parameters))) for cell in cells]


def _apply_measured_cost(cell: Cell, measured_s: float | None) -> Cell:
    if measured_s is None:
        return cell
    allowed_s = cell.timeout_s if cell.limits_itself else max(cell.timeout_s, TIMEOUT_FACTOR * measured_s)
    return replace(cell, cost_s=measured_s, cost_source=CostSource.MEASURED, timeout_s=allowed_s)


def select_default_suite(cells: Sequence[Cell]) -> list[Cell]:
    """The cells that guard every commit: those that the suite declares so, all where it declares nothing."""
    return [cell for cell in cells if cell.in_default]
