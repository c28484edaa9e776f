"""Why a benchmark got slower, as values: what grew, where, and how much of the slowdown that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from perfci.model import EnvironmentChange
from perfci.verdicts.explain.call_profile import SourceLine


class Conclusion(StrEnum):
    """How far two profiles explain a slowdown."""

    EXPLAINED = "explained"
    PARTLY = "partly explained"
    COUNTED = "counted"
    """Exact counts that are stored differ, and nothing was profiled."""
    MACHINE = "machine"
    """The lines that do the same work as before got slower."""
    NOT_SHOWN = "not shown"
    """The profiled calls did not get slower."""
    NOT_EXPLAINED = "not explained"


class CauseKind(StrEnum):
    """What makes a line take longer."""

    CHANGED_CODE = "changed code"
    MORE_WORK = "more work"
    """The line is as it was, but runs other operators, or on other inputs."""
    GRAPH_BREAK = "graph break"
    SLOWER = "slower"
    """The line is as it was and runs no operator: what it calls got slower."""


@dataclass(frozen=True, slots=True)
class CodeLine:
    """A line with its text and the function that holds it; ``is_gone`` where it is one of the base."""

    path: str
    number: int
    text: str
    function: str = ""
    is_gone: bool = False

    @property
    def place(self) -> SourceLine:
        return self.path, self.number


@dataclass(frozen=True, slots=True)
class Cause:
    """What accounts for ``share`` of the slowdown, a ratio, between ``share_lo`` and ``share_hi``.

    ``changed`` are lines of the difference that may be behind a line that is as it was.
    """

    kind: CauseKind
    phase: str
    operator: str
    line: CodeLine
    seconds: float
    share: float
    share_lo: float
    share_hi: float
    changed: tuple[CodeLine, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class GrowthRow:
    """Seconds and calls in one call of the benchmark, on both sides; calls are None of what is sampled."""

    name: str
    base_s: float
    head_s: float
    base_calls: float | None = None
    head_calls: float | None = None

    @property
    def grown_s(self) -> float:
        return self.head_s - self.base_s


@dataclass(frozen=True, slots=True)
class CountChange:
    """An exact count that is stored for both commits, and differs."""

    metric: str
    unit: str
    base: float
    head: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """What two profiles, or stored counts, say about a slowdown.

    ``base_s`` and ``head_s`` are those of one profiled call; ``slower_machine`` by which factor the lines
    that do the same work took longer.
    """

    conclusion: Conclusion
    base_s: float = 0.0
    head_s: float = 0.0
    processes: int = 0
    slower_machine: float = 1.0
    same_work_share: float = 0.0
    expected_change: float | None = None
    causes: tuple[Cause, ...] = ()
    phases: tuple[GrowthRow, ...] = ()
    operators: tuple[GrowthRow, ...] = ()
    kernels: tuple[GrowthRow, ...] = ()
    lines: tuple[GrowthRow, ...] = ()
    counts: tuple[CountChange, ...] = ()
    environment: tuple[EnvironmentChange, ...] = ()
    changed: Sequence[CodeLine] = ()

    @property
    def change(self) -> float:
        """By how much the profiled calls took longer, a ratio less one."""
        return self.head_s / self.base_s - 1 if self.base_s else 0.0
