"""Build series, points, histories and verdicts to report on, with only what matters spelled out."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

from perfci.model import (
    Benchmark,
    Clock,
    Commit,
    Direction,
    Interval,
    Machine,
    Metric,
    Point,
    Process,
    Series,
    Stage,
    Status,
    Verdict,
    VerdictKind,
    freeze_named_values,
)

EXPECTED = Path(__file__).parents[1] / "report" / "expected"
FIRST_DAY = datetime(2026, 3, 2, 9, tzinfo=UTC)


def a_series(
    name: str = "train.time_step",
    unit: str = "seconds",
    metric: str = "cpu_time",
    direction: Direction = "lower",
    **parameters: object,
) -> Series:
    machine = Machine(cpu="AMD EPYC", cores=2, memory_gb=16)
    return Series(
        Benchmark(name, "1"), freeze_named_values(parameters), Metric(metric, unit, direction), machine
    )


def a_commit(number: int) -> Commit:
    moment = FIRST_DAY + timedelta(days=number)
    return Commit(f"{number:04x}" * 10, f"Change number {number}", "Ada", moment, position=number)


def a_point(number: int, *levels: float) -> Point:
    processes = tuple(Process(k, samples=(level,), clock=Clock.WALL) for k, level in enumerate(levels))
    return Point(a_commit(number), Status.OK, processes)


def a_failure(number: int, status: Status = Status.OOM, reason: str = "CUDA out of memory") -> Point:
    return Point(a_commit(number), status, reason=reason)


def a_history(
    count: int = 30, *, step_at: int = 18, factor: float = 1.183, start: float = 0.0124, seed: int = 1
) -> list[Point]:
    noise = random.Random(seed)
    levels = [start * (factor if number >= step_at else 1) for number in range(count)]
    return [a_point(k, *(level * noise.gauss(1, 0.008) for _ in range(5))) for k, level in enumerate(levels)]


def a_verdict(
    kind: VerdictKind = VerdictKind.REGRESSION,
    ratio: float | None = 1.183,
    interval: tuple[float, float] | None = (1.159, 1.208),
    *,
    series: Series | None = None,
    stage: Stage = Stage.CONFIRMATION,
    base: int = 17,
    head: int = 18,
    levels: tuple[float | None, float | None] = (0.0124, 0.0147),
    noise_floor: float | None = 0.012,
    mde: float | None = 0.021,
    pairs: int = 10,
    pairs_to_decide: int | None = None,
    reason: str = "",
) -> Verdict:
    return Verdict(
        kind,
        stage,
        series or a_series(),
        a_commit(base).sha,
        a_commit(head).sha,
        ratio,
        Interval(*interval) if interval else None,
        *levels,
        noise_floor,
        mde,
        pairs,
        pairs_to_decide,
        reason=reason,
    )


def one_verdict_per_kind() -> list[Verdict]:
    """Build a comparison with one verdict of each kind."""
    nothing = {"ratio": None, "interval": None, "noise_floor": None, "mde": None, "pairs": 0}
    memory = a_series("memory.peakmem_step", "bytes", "peak_memory")
    data = a_series("train.time_data")
    tokens = a_series("serve.track_tokens", "tokens/s", "throughput", "higher", batch=8)
    return [
        a_verdict(series=a_series(batch=8, dtype="'bf16'")),
        a_verdict(
            VerdictKind.IMPROVEMENT,
            0.8,
            (0.78, 0.83),
            series=memory,
            levels=(1.5 * 2**30, 1.2 * 2**30),
            mde=0.03,
        ),
        a_verdict(VerdictKind.UNCHANGED, 1.003, (0.991, 1.014), series=data, levels=(0.002, 0.002006)),
        a_verdict(
            VerdictKind.INCONCLUSIVE,
            0.969,
            (0.925, 1.012),
            series=tokens,
            levels=(8123.4, 7871.6),
            mde=0.061,
            pairs_to_decide=14,
        ),
        a_verdict(
            VerdictKind.NOT_COMPARABLE,
            series=a_series("serve.time_first_token"),
            levels=(0.031, 0.04),
            reason="the driver changed from 550 to 560",
            **nothing,
        ),
        a_verdict(
            VerdictKind.MISSING,
            series=a_series("serve.time_new"),
            levels=(None, 0.0031),
            reason="the benchmark is new at head",
            **nothing,
        ),
        a_verdict(
            VerdictKind.FAILED,
            series=a_series("train.time_compiled"),
            levels=(0.0093, None),
            reason="RuntimeError: @team broke | `it`",
            **nothing,
        ),
    ]
