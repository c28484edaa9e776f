"""How one fresh process of one cell ended, and what a commit's import of the suite found, as model values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from perfci.model import ALTERNATING_FLAG, Clock, Status
from perfci.runner.frozen_suite import Cell, DiscoveredBenchmark


@dataclass(frozen=True, slots=True)
class MeasuredMetric:
    """The samples of one metric that one process gave, or why it gave none (``status`` skipped)."""

    name: str
    unit: str
    direction: Literal["lower", "higher"]
    clock: Clock
    number: int
    samples: tuple[float, ...]
    status: Status = Status.OK
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CellOutcome:
    """How one fresh process of one cell ended. ``work_s`` is what setup, run and teardown took inside it."""

    cell: Cell
    status: Status
    reason: str
    metrics: tuple[MeasuredMetric, ...]
    started_at: datetime
    duration_s: float
    work_s: float
    exit_code: int | None
    stderr_tail: str
    flags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Omission:
    """Groups of metrics that a class of the suite does not give, and why."""

    owner: str
    omitted_metrics: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        *others, last = self.omitted_metrics
        return f"{self.owner}: no {', '.join(others)}{' or ' * bool(others)}{last} metrics, because {self.reason}"


@dataclass(frozen=True, slots=True)
class Discovery:
    """What a commit's import of the suite found, which of its modules failed, and what its classes leave out."""

    benchmarks: dict[str, DiscoveredBenchmark]
    errors: tuple[tuple[str, str], ...]
    omissions: tuple[Omission, ...] = ()


def parse_omissions(messages: Sequence[Mapping[str, str]]) -> tuple[Omission, ...]:
    """One for all that a class leaves out for the same reason."""
    together: dict[tuple[str, str], list[str]] = {}
    for note in messages:
        together.setdefault((note["owner"], note["reason"]), []).append(note["omitted_metrics"])
    return tuple(Omission(owner, tuple(omits), reason) for (owner, reason), omits in together.items())


def parse_outcome(cell: Cell, message: Mapping[str, Any]) -> CellOutcome:
    interleaved = (ALTERNATING_FLAG,) if message["interleaved"] else ()
    return CellOutcome(
        cell=cell,
        status=Status(message["status"]),
        reason=message["reason"],
        metrics=tuple(_parse_metric(metric) for metric in message["metrics"]),
        started_at=datetime.fromtimestamp(message["started_at"], UTC),
        duration_s=message["duration_s"],
        work_s=message["work_s"],
        exit_code=message["exit_code"],
        stderr_tail=message["stderr_tail"],
        flags=(*message["flags"], *interleaved),
    )


def _parse_metric(message: Mapping[str, Any]) -> MeasuredMetric:
    return MeasuredMetric(
        name=message["name"],
        unit=message["unit"],
        direction=message["direction"],
        clock=Clock(message["clock"]),
        number=message["number"],
        samples=tuple(message["samples"]),
        status=Status(message["status"]),
        reason=message["reason"],
    )


def build_failed_outcome(
    cell: Cell, reason: str, status: Status = Status.FAILED, stderr_tail: str = ""
) -> CellOutcome:
    return CellOutcome(cell, status, reason, (), datetime.now(UTC), 0.0, 0.0, None, stderr_tail, ())
