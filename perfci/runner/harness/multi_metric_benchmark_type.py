"""The benchmark type of perfci: a ``measure_*`` function runs once and gives several metrics.

A module of its own, since its base class imports asv_runner, which the harness does only after the preload.
"""

from __future__ import annotations

import re
from typing import Any

from asv_runner.benchmarks import benchmark_types
from asv_runner.benchmarks._base import Benchmark


class MeasureBenchmark(Benchmark):  # type: ignore[misc]
    """asv benchmark type for ``measure_*``; ``do_run`` returns the report that ``@metrics`` builds."""

    name_regex = re.compile("^(Measure[A-Z_].+)|(measure_.+)$")

    def __init__(self, name: str, func: Any, attr_sources: list[Any]) -> None:
        super().__init__(name, func, attr_sources)
        self.type = "measure"
        self.declared_metrics: tuple[Any, ...] = tuple(getattr(func, "metrics", ()))

    def run(self, *parameters: Any) -> Any:
        return self.func(*parameters)


def register_measure_type() -> None:
    """Let asv's discovery fall back on this type, in this process only: plain asv does not know it."""
    if MeasureBenchmark not in benchmark_types:
        benchmark_types.append(MeasureBenchmark)
