"""A small but real project in a real database: forty commits, a step, failures, every verdict word."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

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
    Process,
    Result,
    Run,
    Series,
    Stage,
    Status,
    Variant,
    Verdict,
    VerdictKind,
    freeze_named_values,
)
from perfci.store import Store, open_store
from perfci.store.verdicts_and_change_points import add_verdicts
from perfci.store.writes.find_or_add_rows import upsert_commits
from perfci.store.writes.measured_sessions import find_or_add_run, finish_session, start_session
from tests.support.stored_runs import replace_change_points

PROJECT = "acme/tiny-lm"
COMMITS = 40
STEP, FASTER, FAILED_AT, SUSPECT = 22, 31, 13, 35
NOW = datetime(2026, 4, 12, 12, 14, tzinfo=UTC)
MACHINE = Machine(cpu="AMD EPYC 9354", cores=2, memory_gb=16)
HOSTILE_SUBJECT = "<script>alert(1)</script> & <b>bold</b> “quotes”"

SUBJECTS = (
    "Warm the tokenizer cache once",
    "Fuse the optimizer step",
    "Document the sampling options",
    "Drop a needless copy",
    "Read shards in order",
    "Raise the default context",
    "Tidy the training loop",
    "Use scaled dot product attention",
    "Log the learning rate",
    "Checkpoint every second block",
)


def a_series(
    name: str,
    metric: str = "cpu_time",
    unit: str = "seconds",
    direction: Direction = "lower",
    **parameters: object,
) -> Series:
    return Series(
        Benchmark(name, "1"), freeze_named_values(parameters), Metric(metric, unit, direction), MACHINE
    )


STEP_TIME = a_series("train.Step.time_step", batch=8, dtype="'bf16'")
STEP_WALL = a_series("train.Step.time_step", "time", batch=8, dtype="'bf16'")
STEP_FP32 = a_series("train.Step.time_step", batch=8, dtype="'fp32'")
GENERATE = a_series("serve.Generate.time_token")
MEMORY = a_series("train.Step.peakmem_step", "peak_memory", "bytes")
TOKENS = a_series("serve.Generate.track_throughput", "throughput", "tokens/s", "higher")
FLOPS = a_series("train.Step.track_flops", "flops", "count")
NEVER_MEASURED = a_series("train.Step.time_compiled")


def a_metric(
    metric: str, unit: str = "seconds", direction: Direction = "lower", *, precision: str = "'bf16'"
) -> Series:
    """One of the many metrics that a process of one benchmark gives."""
    return a_series("models.Tiny.measure_training", metric, unit, direction, precision=precision, batch=4)


LOSS_CPU, LOSS_WALL = a_metric("cpu_step_time"), a_metric("step_time")
STALL = a_metric("data_stall", "ratio")
STATE_BYTES = a_metric("optimizer_state_bytes", "bytes")
MFU, ALLOCATED = a_metric("mfu", "ratio", "higher"), a_metric("peak_allocated_bytes", "bytes")
FP16 = [a_metric(metric, precision="'fp16'") for metric in ("step_time", "forward_time", "backward_time")]
NO_ALLOCATOR = "the CPU has no caching allocator to ask"
EMULATED = "this CPU computes in float16 only by emulation: its timing is meaningless"
UNAVAILABLE = {MFU: "the peak of this CPU is not known", ALLOCATED: NO_ALLOCATOR} | dict.fromkeys(
    FP16, EMULATED
)
LEVELS = {
    STEP_TIME: 0.0124,
    STEP_WALL: 0.0131,
    STEP_FP32: 0.0207,
    GENERATE: 0.00312,
    MEMORY: 412e6,
    TOKENS: 8150.0,
    FLOPS: 48_201_728.0,
    STALL: 0.194,
    LOSS_WALL: 0.0421,
    STATE_BYTES: 8_388_608.0,
    LOSS_CPU: 0.0398,
}
CLOCKS = {
    STEP_WALL: Clock.WALL,
    MEMORY: Clock.EXACT,
    FLOPS: Clock.EXACT,
    TOKENS: Clock.VALUE,
    STALL: Clock.INFORMATIONAL,
    LOSS_WALL: Clock.WALL,
    STATE_BYTES: Clock.EXACT,
}


def a_commit(number: int) -> Commit:
    sha = f"{random.Random(number).getrandbits(160):040x}"
    subject = HOSTILE_SUBJECT if number == STEP + 1 else SUBJECTS[number % len(SUBJECTS)]
    moment = datetime(2026, 3, 2, 9, tzinfo=UTC) + timedelta(days=number, hours=number % 5)
    return Commit(sha, subject, "Ada Lovelace", moment, branch="main", position=number)


def level(series: Series, number: int) -> float:
    """Where a series stands at a commit: one regression in the training step, one improvement in
    generation.
    """
    by = 1.0
    if series in (STEP_TIME, STEP_WALL) and number >= STEP:
        by = 1.183
    if series == TOKENS and number >= STEP:
        by = 1.12
    if series == GENERATE and number >= FASTER:
        by = 0.81
    if series == MEMORY and number >= SUSPECT:
        by = 1.09
    return LEVELS[series] * by


def a_store(folder: Path) -> Store:
    """An empty database of its own."""
    return open_store(f"sqlite:///{folder}/perfci.db", create=True)


def fill(store: Store, commits: int = COMMITS) -> None:
    """Store the history and everything that was decided about it."""
    with store.begin() as tx:
        upsert_commits(tx, PROJECT, [a_commit(number) for number in range(commits)])
        start_session(tx, PROJECT, "history-1", "history", "spec", 7, 5, NOW - timedelta(hours=3))
        for number in range(commits):
            find_or_add_run(tx, a_run(number))
        finish_session(tx, "history-1", NOW - timedelta(minutes=14))
        start_session(tx, PROJECT, "pairs-1", "compare", "spec-2", 7, 0, NOW - timedelta(hours=2))
        add_verdicts(tx, PROJECT, "pairs-1", verdicts(), NOW - timedelta(minutes=20))
        for series, commit, last_good, rel in (
            (MEMORY, SUSPECT, SUSPECT - 3, 0.09),
            (STEP_WALL, STEP, STEP - 1, 0.183),
        ):
            before = LEVELS[series]
            shas = a_commit(commit).sha, a_commit(last_good).sha
            change = ChangePoint(series, *shas, before, before * (1 + rel), noise=0.01, p_value=1e-12)
            replace_change_points(tx, PROJECT, series, [change])


def a_run(number: int) -> Run:
    noise = random.Random(1000 + number)
    started = NOW - timedelta(hours=3) + timedelta(minutes=4 * number)
    results = tuple(
        a_result(series, number, noise)
        for series in LEVELS
        if not (series == TOKENS and number == COMMITS - 1)
    )
    skipped = tuple(map(a_skipped_result, UNAVAILABLE))
    torch = "2.12.1" if number < STEP else "2.13.0"
    return Run(
        project=PROJECT,
        session="history-1",
        commit=a_commit(number),
        machine=MACHINE,
        environment=Environment(
            freeze_named_values({"torch": torch, "kernel": "6.1.0", "governor": "performance"})
        ),
        variant=Variant(),
        suite="benchmarks",
        harness="1",
        started_at=started,
        finished_at=started + timedelta(minutes=3),
        results=results + skipped,
    )


def a_result(series: Series, number: int, noise: random.Random) -> Result:
    if series == STEP_FP32 and number in (FAILED_AT, FAILED_AT + 1, COMMITS - 1):
        reason = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512 MiB <b>at once</b>"
        return Result(series, Status.OOM, reason=reason)
    clock = CLOCKS.get(series, Clock.CPU)
    spread = 0.0 if series in (FLOPS, STATE_BYTES) else 0.002 if clock is Clock.EXACT else 0.011
    processes = tuple(
        Process(
            index,
            samples=tuple(level(series, number) * noise.gauss(1, spread) for _ in range(4)),
            clock=clock,
            round=index,
            started_at=NOW - timedelta(hours=3),
        )
        for index in range(5)
    )
    return Result(series, Status.OK, processes)


def a_skipped_result(series: Series) -> Result:
    reason = UNAVAILABLE[series]
    return Result(
        series, Status.SKIPPED, (Process(0, status=Status.SKIPPED, round=0, reason=reason),), reason=reason
    )


def verdicts() -> list[Verdict]:
    """The step with a verdict of every word beside it, and the improvement later on."""
    nothing = a_series("serve.Generate.time_first_token")
    gone, broken = NEVER_MEASURED, a_series("serve.Generate.time_batch", size=64)
    return [
        a_verdict(STEP_TIME, STEP, VerdictKind.REGRESSION, 1.183, (1.159, 1.208)),
        a_verdict(MEMORY, STEP, VerdictKind.UNCHANGED, 1.001, (0.998, 1.003)),
        a_verdict(FLOPS, STEP, VerdictKind.UNCHANGED, 1.0, (1.0, 1.0)),
        a_verdict(STEP_FP32, STEP, VerdictKind.INCONCLUSIVE, 1.031, (0.988, 1.075), pairs_to_decide=14),
        a_verdict(TOKENS, STEP, VerdictKind.IMPROVEMENT, 1.12, (1.09, 1.15)),
        a_verdict(
            nothing,
            STEP,
            VerdictKind.NOT_COMPARABLE,
            reason="torch changed from 2.12.1 to 2.13.0 between the runs",
        ),
        a_verdict(gone, STEP, VerdictKind.MISSING, reason="the benchmark is new at head"),
        a_verdict(
            broken,
            STEP,
            VerdictKind.FAILED,
            reason="RuntimeError: the size of tensor a (64) must match tensor b (8)",
        ),
        a_verdict(GENERATE, FASTER, VerdictKind.IMPROVEMENT, 0.81, (0.79, 0.83)),
        a_verdict(MEMORY, SUSPECT, VerdictKind.REGRESSION, 1.09, (1.05, 1.13), stage=Stage.SCREENING),
    ]


def a_verdict(
    series: Series,
    head: int,
    kind: VerdictKind,
    ratio: float | None = None,
    interval: tuple[float, float] | None = None,
    *,
    stage: Stage = Stage.CONFIRMATION,
    pairs_to_decide: int | None = None,
    reason: str = "",
) -> Verdict:
    base_level = LEVELS.get(series) if ratio is not None else None
    return Verdict(
        kind,
        stage,
        series,
        a_commit(head - 1).sha,
        a_commit(head).sha,
        ratio,
        Interval(*interval) if interval else None,
        base_level,
        base_level * ratio if base_level is not None and ratio is not None else None,
        0.012 if ratio is not None else None,
        0.021 if ratio is not None else None,
        10 if ratio is not None else 0,
        pairs_to_decide,
        1e-13 if kind in (VerdictKind.REGRESSION, VerdictKind.IMPROVEMENT) else None,
        reason=reason,
    )
