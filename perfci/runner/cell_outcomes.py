"""Outcomes of cells and of the discovery of a suite, parsed from the harness's messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from perfci.model import ALTERNATING_FLAG, Clock, Status
from perfci.runner.suite_cells import Cell, DiscoveredBenchmark


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
        return (
            f"{self.owner}: no {', '.join(others)}{' or ' * bool(others)}{last} metrics, "
            f"because {self.reason}"
        )


@dataclass(frozen=True, slots=True)
class Discovery:
    """Benchmarks found by importing the suite at a commit, modules that failed, and metrics that are
    omitted.
    """

    benchmarks: dict[str, DiscoveredBenchmark]
    errors: tuple[tuple[str, str], ...]
    omissions: tuple[Omission, ...] = ()


def parse_omissions(messages: Sequence[Mapping[str, str]]) -> tuple[Omission, ...]:
    """Merge the metrics that a class omits for one reason into one omission."""
    metrics_by_reason: dict[tuple[str, str], list[str]] = {}
    for omission in messages:
        metrics_by_reason.setdefault((omission["owner"], omission["reason"]), []).append(
            omission["omitted_metrics"]
        )
    return tuple(
        Omission(owner, tuple(names), reason) for (owner, reason), names in metrics_by_reason.items()
    )


def parse_outcome(cell: Cell, message: Mapping[str, Any]) -> CellOutcome:
    """Parse the harness's report of one cell."""
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
    """Build the outcome of a cell that did not run."""
    return CellOutcome(cell, status, reason, (), datetime.now(UTC), 0.0, 0.0, None, stderr_tail, ())
