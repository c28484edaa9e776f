"""Base class of the benchmark types: skipping, asv's attributes, and the version."""

from __future__ import annotations

import hashlib
import sys
from typing import Any

from asv_runner.benchmarks._base import Benchmark, _get_first_attr
from asv_runner.benchmarks.mark import SkipNotImplemented

METHOD_VERSION = "1"
"""Part of every version, since asv hashes only the author's code: raise it with the method."""


class MetricDeclaration:
    """Attributes that ``perfci run`` reads; those of the author's function or class come first."""

    def __init__(self, metric: str, clock: str) -> None:
        self.metric = metric
        self.clock = clock


class PerfciBenchmark(Benchmark):  # type: ignore[misc]  # asv_runner carries no types
    """A benchmark that measures through ``perfci.bench``, or is skipped with a reason before its setup runs.

    ``skipped`` decides that, and ``setup`` runs once per process. torch and perfci are imported only then:
    whatever fails while asv looks for plugins would make the benchmarks disappear without a word.
    """

    version: str
    type = "perfci"
    unit = "seconds"
    rounds = 2
    metric = "time"
    clock = "wall"

    def __init__(self, name: str, func: Any, attr_sources: list[Any]) -> None:
        kind, unit = self.type, self.unit
        super().__init__(name, func, attr_sources)
        self.type, self.unit = kind, unit
        self.rounds = int(_get_first_attr(attr_sources, "rounds", type(self).rounds))
        if _get_first_attr(attr_sources, "version", None) is None:
            self.version = hashlib.sha256(f"{kind} {METHOD_VERSION}\n{self.version}".encode()).hexdigest()
        self._declaration = MetricDeclaration(self.metric, self.clock)
        self._attr_sources = [*attr_sources, self._declaration]
        self._skip_reason = ""

    def attribute(self, name: str, default: Any) -> Any:
        """What the function, its class, its module or asv's ``-a name=value`` says."""
        return _get_first_attr(self._attr_sources, name, default)

    def repeat_limits(self, min_count: int, max_count: int, max_s: float) -> tuple[int, int, float]:
        """asv's ``repeat``: a number, or (at least, at most, seconds); 0 or absent is the default given."""
        repeat = self.attribute("repeat", 0)
        if isinstance(repeat, int | float):
            return (int(repeat), int(repeat), float("inf")) if repeat else (min_count, max_count, max_s)
        low, high, limit = repeat
        return int(low), int(high), float(limit)

    def skip_reason(self) -> str:
        """Why this machine cannot measure this benchmark, or nothing."""
        return ""

    def do_setup(self) -> bool:
        self._skip_reason = self.skip_reason()
        return False if self._skip_reason else bool(super().do_setup())

    def do_run(self) -> Any:
        if self._skip_reason:
            raise SkipNotImplemented(
                self._skip_reason
            )  # which asv and perfci turn into a skipped cell, not a failure
        return super().do_run()

    def do_teardown(self) -> None:
        if not self._skip_reason:
            super().do_teardown()


def bind_parameters(function: Any, params: tuple[Any, ...]) -> Any:
    """Bind parameters to a function; without any the function itself, which saves a call."""
    return (lambda: function(*params)) if params else function


def print_message(benchmark: PerfciBenchmark, message: str) -> None:
    """Print a line for ``asv run --show-stderr``; perfci keeps it with the process."""
    print(f"{benchmark.name}: {message}", file=sys.stderr)
