"""Profile of the calls of one process: time by phase and open lines, operators by line, sources."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field

SourceLine = tuple[str, int]
"""A path from the root of the repository, and a line number."""


@dataclass(frozen=True, slots=True)
class StackTime:
    """Seconds of one call with these lines open, the outermost first, in one phase.

    Where a backward pass computes the gradient of a line, the lines of the forward pass follow those that
    started the backward pass.
    """

    phase: str
    lines: tuple[SourceLine, ...]
    cpu_s: float
    wall_s: float


@dataclass(frozen=True, slots=True)
class OperatorCalls:
    """How often one call runs an operator on inputs of these formats and shapes, at these lines."""

    phase: str
    lines: tuple[SourceLine, ...]
    name: str
    inputs: str
    calls: float
    seconds: float


@dataclass(frozen=True, slots=True)
class GraphBreak:
    """Why dynamo gave code back to Python, and the lines that were open, the outermost first."""

    reason: str
    lines: tuple[SourceLine, ...]


@dataclass(frozen=True, slots=True)
class TableRow:
    """An operator or kernel of torch's profiler: seconds of its own and calls, in one call."""

    name: str
    seconds: float
    calls: float


@dataclass(frozen=True, slots=True)
class CallProfile:
    """What one process spent its calls on; ``calls_s`` are CPU and wall seconds of each call.

    ``sources`` are the files of the project that the process imported, by path.
    """

    stacks: tuple[StackTime, ...]
    operator_calls: tuple[OperatorCalls, ...]
    calls_s: tuple[tuple[float, float], ...]
    sources: Mapping[str, str]
    graph_breaks: tuple[GraphBreak, ...] = ()
    operators: tuple[TableRow, ...] = ()
    kernels: tuple[TableRow, ...] = ()
    device: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def cpu_s(self) -> float:
        """CPU seconds of a call, the median."""
        return statistics.median(cpu for cpu, _ in self.calls_s)

    @property
    def wall_s(self) -> float:
        """Wall seconds of a call, the median."""
        return statistics.median(wall for _, wall in self.calls_s)
