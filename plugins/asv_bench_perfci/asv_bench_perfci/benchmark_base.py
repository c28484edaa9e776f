"""What the types share: where they are skipped, asv's attribute names, and a version that knows how they measure."""

from __future__ import annotations

import hashlib
import sys
from typing import Any

from asv_runner.benchmarks._base import Benchmark, _get_first_attr
from asv_runner.benchmarks.mark import SkipNotImplemented

METHOD = "1"
"""Part of every version, since asv hashes only the author's code: raise it when numbers are taken in another way."""


class Declared:
    """Attributes that ``perfci run`` asks a benchmark for; a function or class that has its own comes first."""

    def __init__(self, metric: str, clock: str) -> None:
        self.metric = metric
        self.clock = clock


class PerfciBenchmark(Benchmark):  # type: ignore[misc]  # asv_runner carries no types
    """A benchmark that measures through ``perfci.bench``, or is skipped with a reason before its setup runs.

    ``skipped`` decides that, and ``setup`` runs once per process. torch and perfci are imported only then: whatever
    fails while asv looks for plugins would make the benchmarks disappear without a word.
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
            self.version = hashlib.sha256(f"{kind} {METHOD}\n{self.version}".encode()).hexdigest()
        self._declared = Declared(self.metric, self.clock)
        self._attr_sources = [*attr_sources, self._declared]
        self._why_skipped = ""

    def attribute(self, name: str, default: Any) -> Any:
        """What the function, its class, its module or asv's ``-a name=value`` says."""
        return _get_first_attr(self._attr_sources, name, default)

    def repeats(self, least: int, most: int, seconds: float) -> tuple[int, int, float]:
        """asv's ``repeat``: a number, or (at least, at most, seconds); 0 or absent is the default given."""
        repeat = self.attribute("repeat", 0)
        if isinstance(repeat, int | float):
            return (int(repeat), int(repeat), float("inf")) if repeat else (least, most, seconds)
        low, high, limit = repeat
        return int(low), int(high), float(limit)

    def skipped(self) -> str:
        """Why this machine cannot measure this benchmark, or nothing."""
        return ""

    def do_setup(self) -> bool:
        self._why_skipped = self.skipped()
        return False if self._why_skipped else bool(super().do_setup())

    def do_run(self) -> Any:
        if self._why_skipped:
            raise SkipNotImplemented(self._why_skipped)  # which asv and perfci turn into a skipped cell, not a failure
        return super().do_run()

    def do_teardown(self) -> None:
        if not self._why_skipped:
            super().do_teardown()


def bound(function: Any, params: tuple[Any, ...]) -> Any:
    """The function as a call without arguments; the bare one where there are none, which costs a call less."""
    return (lambda: function(*params)) if params else function


def tell(benchmark: PerfciBenchmark, line: str) -> None:
    """A line in the benchmark's output: ``asv run --show-stderr`` prints it, perfci keeps it with the process."""
    print(f"{benchmark.name}: {line}", file=sys.stderr)
