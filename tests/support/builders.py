"""Model values for tests: every builder makes something valid, and takes by name only what the story is
about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from perfci.auth.permissions import Actor
from perfci.model import (
    Benchmark,
    ChangePoint,
    Clock,
    Commit,
    Direction,
    Environment,
    Interval,
    Machine,
    Metric,
    Point,
    Process,
    Result,
    Role,
    Run,
    SampleSummary,
    Series,
    Stage,
    Status,
    Variant,
    Verdict,
    VerdictKind,
    freeze_named_values,
)
from perfci.service.audit_context import AuditContext

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
PROJECT = "acme/model"


def a_sha(number: int) -> str:
    """A full sha that shows its number: ``a_sha(7)`` starts with ``00000007``."""
    return f"{number:08x}".ljust(40, "c")


def a_commit(number: int = 1, **changes: Any) -> Commit:
    """The commit with this number on the line, one hour after the one before."""
    values: dict[str, Any] = {
        "sha": a_sha(number),
        "subject": f"Change number {number}",
        "author": "Ada",
        "committed_at": NOON + timedelta(hours=number),
        "parents": (a_sha(number - 1),) if number > 1 else (),
        "branch": "main",
        "position": number,
    }
    return Commit(**(values | changes))


def an_imported_commit(number: int = 1, **changes: Any) -> Commit:
    """A commit as a foreign file knows it: a sha and a date."""
    return Commit(**({"sha": a_sha(number), "committed_at": NOON + timedelta(hours=number)} | changes))


def a_machine(cpu: str = "AMD EPYC", **changes: Any) -> Machine:
    return Machine(**({"cpu": cpu, "cores": 2, "memory_gb": 23} | changes))


def a_variant(**chosen: str) -> Variant:
    return Variant(freeze_named_values(chosen))


def an_environment(**observed: str) -> Environment:
    return Environment(freeze_named_values(observed))


def a_series(
    benchmark: str = "training.Step.time_step",
    metric: str = "time",
    *,
    version: str = "1",
    parameters: Mapping[str, str] | None = None,
    unit: str = "seconds",
    direction: Direction = "lower",
    machine: Machine | None = None,
    variant: Variant | None = None,
    harness: str = "perfci/1",
) -> Series:
    return Series(
        benchmark=Benchmark(benchmark, version),
        parameters=freeze_named_values(parameters or {}),
        metric=Metric(metric, unit, direction),
        machine=machine or a_machine(),
        variant=variant or Variant(),
        harness=harness,
    )


def a_process(*samples: float, **changes: Any) -> Process:
    """A process that ended well with these samples, or with one sample of one second."""
    values: dict[str, Any] = {
        "index": 0,
        "samples": samples or (1.0,),
        "clock": Clock.WALL,
        "round": 0,
        "order": 0,
        "started_at": NOON,
        "duration_s": 1.5,
        "exit_code": 0,
    }
    return Process(**(values | changes))


def a_failed_process(status: Status = Status.FAILED, **changes: Any) -> Process:
    values: dict[str, Any] = {
        "samples": (),
        "status": status,
        "reason": "ValueError: no such layer",
        "exit_code": 1,
        "stderr_tail": "Traceback (most recent call last): ...",
    }
    return a_process(**(values | changes))


def a_pair(pair: int, base: float, head: float) -> list[Process]:
    """One base and one head process measured next to each other."""
    return [
        a_process(base, pair=pair, role=Role.BASE, index=pair, order=0),
        a_process(head, pair=pair, role=Role.HEAD, index=pair, order=1),
    ]


def a_result(series: Series | None = None, *processes: Process, **changes: Any) -> Result:
    values: dict[str, Any] = {"processes": processes or (a_process(),), "status": Status.OK}
    return Result(series or a_series(), **(values | changes))


def a_summary(value: float = 1.0, **changes: Any) -> SampleSummary:
    return SampleSummary(value, **changes)


def a_run(*results: Result, commit: Commit | None = None, session: str = "session-1", **changes: Any) -> Run:
    """A run of the first commit in ``session-1``."""
    values: dict[str, Any] = {
        "project": PROJECT,
        "session": session,
        "commit": commit or a_commit(),
        "machine": a_machine(),
        "environment": an_environment(torch="2.13.0"),
        "variant": Variant(),
        "suite": "benchmarks",
        "harness": "perfci/1",
        "started_at": NOON,
        "results": results,
    }
    return Run(**(values | changes))


def a_point(number: int, *levels: float, **changes: Any) -> Point:
    """One commit of a history, one process for each level."""
    processes = tuple(a_process(level, index=index) for index, level in enumerate(levels))
    values: dict[str, Any] = {"status": Status.OK, "processes": processes}
    return Point(a_commit(number), **(values | changes))


def a_verdict(
    series: Series | None = None, kind: VerdictKind = VerdictKind.REGRESSION, **changes: Any
) -> Verdict:
    values: dict[str, Any] = {
        "stage": Stage.CONFIRMATION,
        "base": a_sha(1),
        "head": a_sha(2),
        "ratio": 1.2,
        "interval": Interval(1.15, 1.25),
        "base_level": 1.0,
        "head_level": 1.2,
        "noise_floor": 0.01,
        "mde": 0.02,
        "pairs": 10,
        "p_value": 0.001,
        "evidence": (1, 2),
    }
    return Verdict(kind, series=series or a_series(), **(values | changes))


def a_change_point(series: Series | None = None, relative_change: float = 0.2, **changes: Any) -> ChangePoint:
    before = changes.get("before", 1.0)
    values: dict[str, Any] = {
        "commit": a_sha(2),
        "last_good": a_sha(1),
        "before": before,
        "after": before * (1 + relative_change),
    }
    return ChangePoint(series or a_series(), **(values | changes))


def a_history(levels: Sequence[float]) -> list[Point]:
    """A history with one process for each commit."""
    return [a_point(number, level) for number, level in enumerate(levels, start=1)]


def acting_as(name: str, at: datetime, request_id: str = "") -> AuditContext:
    """Somebody who changes something."""
    return AuditContext(Actor("user", name), at, request_id)
