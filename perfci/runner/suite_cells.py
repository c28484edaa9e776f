"""Cells of a suite: each discovered benchmark at each point of its parameter grid."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from perfci.model import Clock, Metric, NamedValues, PerfciError, cell_name


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


@dataclass(frozen=True, slots=True)
class Cell:
    """One benchmark at one point of its grid: what one process measures."""

    benchmark: str
    param_idx: int | None
    parameters: NamedValues
    timeout_s: float
    setup_cache_key: str | None
    setup_cache_timeout_s: float

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
    timeout_s = benchmark.timeout_s or default_timeout_s
    cache_timeout_s = benchmark.setup_cache_timeout_s or max(timeout_s, 600.0)
    # asv allows fewer names than parameters, and more.
    names = [*benchmark.param_names]
    names += [f"param{i + 1}" for i in range(len(names), len(benchmark.params))]
    for index, values in enumerate(itertools.product(*benchmark.params)):
        parameters = tuple(zip(names, values, strict=False))
        yield Cell(
            benchmark.name,
            index if values else None,
            parameters,
            timeout_s,
            benchmark.setup_cache_key,
            cache_timeout_s,
        )
