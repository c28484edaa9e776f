"""A check: what perfci says on a GPU, what says it independently, and how far apart they may be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check saw, in words with its figures, and whether that is within its limit."""

    figures: str
    holds: bool


@dataclass(frozen=True, slots=True)
class GpuCheck:
    """One row of docs/studies/gpu.md. ``run`` may raise: the row then says why there is no figure."""

    name: str
    limit: str
    independent_way: str
    run: Callable[[], CheckResult]


@dataclass(frozen=True, slots=True)
class CheckGroup:
    """Checks that share a process, which is killed after ``timeout_s``; what was done by then counts."""

    name: str
    timeout_s: float
    checks: Sequence[GpuCheck]


def compare_figures(ours: float, theirs: float, limit: float, unit: str = "") -> CheckResult:
    """Hold two figures against each other; ``limit`` is a relative difference."""
    difference = ours / theirs - 1
    shown = f"{ours:.5g} {unit}".strip(), f"{theirs:.5g} {unit}".strip()
    return CheckResult(f"{shown[0]} against {shown[1]}, {difference:+.2%}", abs(difference) <= limit)


def join_results(results: Sequence[tuple[str, CheckResult]]) -> CheckResult:
    """Several figures of one check, each with its name: all have to hold."""
    figures = "; ".join(f"{name} {result.figures}" for name, result in results)
    return CheckResult(figures, bool(results) and all(result.holds for _, result in results))
