"""Run a user's own script and store its steps as a run of the commit that is checked out."""

from __future__ import annotations

import math
import secrets
import shlex
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from perfci.config import Config
from perfci.formats.training_step_log import StepLog, TrainingStep, read_step_log
from perfci.history.series_histories import update_change_points, update_result_summaries
from perfci.model import (
    Benchmark,
    ChangePoint,
    Clock,
    Commit,
    Metric,
    NamedValues,
    Process,
    Run,
    Series,
    Status,
    Variant,
)
from perfci.project_policies import build_policy
from perfci.runner.machine_and_environment import describe_environment, describe_machine
from perfci.runner.user_script import Script, ScriptResult, read_interpreter_versions, run_script
from perfci.stats.warmup_length import MIN_WARMUP_SAMPLES, WARMUP_SIGMAS, warmup_length
from perfci.store import Store
from perfci.store.queries.series_commits_machines import load_project_series
from perfci.store.writes.measured_sessions import (
    add_process_measurements,
    find_or_add_run,
    finish_session,
    start_session,
)
from perfci.verdicts.process_levels import process_level

HARNESS = "wrap-1"
"""Version of this harness, part of every series: it changes with the warm-up rule."""

STEPS_VARIABLE = "PERFCI_STEPS"
"""The environment variable that names the file a wrapped script writes its steps to."""

WARMUP_RULE = (
    f"leading steps are warm-up while they stand more than {WARMUP_SIGMAS:g} sigma above the later half, "
    f"at most half of them, none of fewer than {MIN_WARMUP_SAMPLES}"
)

STEP_TIME = Metric("step_time", "seconds")
DATA_TIME = Metric("data_time", "seconds")
DATA_STALL = Metric("data_stall", "ratio")
PEAK_MEMORY = Metric("peak_memory", "bytes")
TOKENS_PER_S = Metric("tokens_per_s", "tokens/s", "higher")
LAST_LOSS = Metric("loss_at_last_step", "loss")
WALL = Metric("wall", "seconds")
PEAK_RSS = Metric("peak_rss", "bytes")

INFORMATIONAL_METRICS = frozenset({TOKENS_PER_S, LAST_LOSS, WALL, PEAK_RSS})
"""Metrics that are shown and never judged."""

ScriptReadings = Mapping[Metric, tuple[Clock, tuple[float, ...]]]
"""The clock and the samples of each metric, one sample per step or one of the whole process."""


@dataclass(frozen=True, slots=True)
class ScriptProcess:
    """One process of a script: how it ended, the log it wrote, and the readings taken from both."""

    status: Status
    reason: str
    exit_code: int
    interrupted: bool
    steps: int
    warmup_steps: int
    wall_s: float
    readings: ScriptReadings
    log: StepLog


@dataclass(frozen=True, slots=True)
class ScriptRunResult:
    """All processes of a script at one commit; ``session`` is empty when nothing was stored."""

    benchmark: str
    parameters: NamedValues
    commit: Commit
    session: str
    stored_in: str
    processes: Sequence[ScriptProcess]
    change_points: Sequence[ChangePoint]

    @property
    def levels_by_metric(self) -> dict[Metric, list[float]]:
        """The level of each process by metric; those that failed have none."""
        levels: dict[Metric, list[float]] = {}
        for process in self.processes:
            if process.status is not Status.OK:
                continue
            for metric, (clock, samples) in process.readings.items():
                level = process_level(Process(0, samples=samples, clock=clock))
                levels.setdefault(metric, []).append(level)
        return levels


def measure_script(
    store: Store,
    config: Config,
    script: Script,
    commit: Commit,
    *,
    name: str = "",
    steps: Path | None = None,
    repeat: int = 1,
    output: int | None = None,
    on_process_end: Callable[[int, ScriptProcess], None] = lambda *_: None,
) -> ScriptRunResult:
    """Run a script ``repeat`` times, one process after the other, and store each as soon as it has ended.

    Stop early when the script fails, is interrupted or writes no steps: the next process would do the same.
    """
    session = _ScriptSession(store, config, script, commit, name, repeat)
    processes: list[ScriptProcess] = []
    for round_number in range(repeat):
        end, log = _run_once(script, steps, output)
        process = build_script_process(end, log)
        processes.append(process)
        if process.readings or process.status is not Status.OK:
            session.store_process(round_number, end, process)
        on_process_end(round_number, process)
        if process.status is not Status.OK or process.interrupted or not process.readings:
            break
    change_points = session.finish()
    return ScriptRunResult(
        benchmark=session.benchmark,
        parameters=session.parameters,
        commit=commit,
        session=session.uid,
        stored_in=store.display_name,
        processes=processes,
        change_points=change_points,
    )


def _run_once(script: Script, steps: Path | None, output: int | None) -> tuple[ScriptResult, StepLog]:
    with tempfile.TemporaryDirectory(prefix="perfci-wrap-") as folder:
        path = steps or Path(folder) / "steps.jsonl"
        # A log that exists holds the steps of an earlier run, which read_step_log skips.
        already = path.read_bytes() if path.exists() else b""
        end = run_script(script, {STEPS_VARIABLE: str(path.absolute())}, output=output)
        return end, read_step_log(path, already)


def build_script_process(end: ScriptResult, log: StepLog) -> ScriptProcess:
    """Classify how a process ended and collect its metrics; a loss that is not a number fails the process."""
    status, reason = _classify_exit(end)
    if log.divergence and status is Status.OK:
        status, reason = Status.FAILED, log.divergence
    timed = [(step, step.seconds) for step in log.steps if step.seconds is not None]
    warmup = warmup_length([[seconds for _, seconds in timed]])
    completed = status is Status.OK and not end.interrupted
    readings = dict(_collect_readings(end, log.steps, timed[warmup:], completed=completed)) if timed else {}
    return ScriptProcess(
        status, reason, end.exit_code, end.interrupted, len(log.steps), warmup, end.wall_s, readings, log
    )


def _classify_exit(end: ScriptResult) -> tuple[Status, str]:
    if end.interrupted or end.exit_code == 0:
        return Status.OK, ""
    if end.exit_code > 0:
        return Status.FAILED, f"the script exited with code {end.exit_code}"
    if end.exit_code == -signal.SIGKILL:
        return Status.OOM, "the script was killed with SIGKILL, as the kernel does when memory runs out"
    return (
        Status.CRASHED,
        f"the script was ended by signal {-end.exit_code} ({signal.strsignal(-end.exit_code)})",
    )


def _collect_readings(
    end: ScriptResult,
    steps: Sequence[TrainingStep],
    steady: Sequence[tuple[TrainingStep, float]],
    *,
    completed: bool,
) -> Iterator[tuple[Metric, tuple[Clock, tuple[float, ...]]]]:
    """The samples by metric, judged metrics first; only a completed process has metrics of the whole."""
    waits = [(step.data_seconds, seconds) for step, seconds in steady if step.data_seconds is not None]
    rates = [step.tokens / seconds for step, seconds in steady if step.tokens is not None]
    memory = [step.memory_bytes for step in steps if step.memory_bytes is not None]
    losses = [step.loss for step in steps if step.loss is not None]
    peak_rss = [] if end.peak_rss_bytes is None else [float(end.peak_rss_bytes)]
    collected: list[tuple[Metric, Clock, Sequence[float]]] = [
        (STEP_TIME, Clock.WALL, [seconds for _, seconds in steady]),
        (DATA_TIME, Clock.WALL, [wait for wait, _ in waits]),
        (DATA_STALL, Clock.VALUE, [wait / seconds for wait, seconds in waits]),
        (PEAK_MEMORY, Clock.VALUE, [max(memory)] if memory else []),
        (TOKENS_PER_S, Clock.INFORMATIONAL, rates),
    ]
    totals = [(LAST_LOSS, losses[-1:]), (WALL, [end.wall_s]), (PEAK_RSS, peak_rss)]
    if completed:
        collected += [(metric, Clock.INFORMATIONAL, samples) for metric, samples in totals]
    usable = ((metric, clock, tuple(filter(math.isfinite, samples))) for metric, clock, samples in collected)
    return ((metric, (clock, samples)) for metric, clock, samples in usable if samples)


class _ScriptSession:
    """The stored session and run of one script, which begin with the first process that is stored."""

    def __init__(
        self, store: Store, config: Config, script: Script, commit: Commit, name: str, repeat: int
    ) -> None:
        self.benchmark = name or f"wrap.{script.name}"
        self.parameters: NamedValues = (
            () if name or not script.arguments else (("arguments", shlex.join(script.arguments)),)
        )
        self.uid = ""
        self._store, self._config, self._commit, self._repeat = store, config, commit, repeat
        python, torch = read_interpreter_versions(script)
        line = ".".join(python.split(".")[:2])
        self._machine, self._variant = describe_machine(), Variant((("python", line),) if line else ())
        self._environment = describe_environment(python=python, torch=torch)
        self._measured: list[tuple[Series, Process]] = []
        self._run_id = 0

    def store_process(self, round_number: int, end: ScriptResult, script_process: ScriptProcess) -> None:
        """Store one process; one that failed before its first step is stored under the step time."""
        readings: ScriptReadings = script_process.readings or {STEP_TIME: (Clock.WALL, ())}
        rows = [
            (
                self._build_series(metric),
                self._build_process(metric, readings, round_number, end, script_process),
            )
            for metric in readings
        ]
        self._measured += rows
        with self._store.begin() as tx:
            if not self.uid:
                uid = f"wrap-{secrets.token_hex(8)}"
                # The uid as specification: a wrapped script is never resumed.
                start_session(tx, self._config.project, uid, "history", uid, 0, self._repeat, end.started_at)
                self._run_id = find_or_add_run(tx, self._build_run(uid, end))
                self.uid = uid
            update_result_summaries(tx, add_process_measurements(tx, self._run_id, rows))

    def finish(self) -> list[ChangePoint]:
        """Finish the session and update the change points of the histories it added to."""
        if not self.uid:
            return []
        project, policy = self._config.project, build_policy(self._config.settings)
        touched = {series for series, _ in self._measured}
        with self._store.begin() as tx:
            finish_session(tx, self.uid, datetime.now(UTC))
            series_ids = [
                row_id for row_id, series in load_project_series(tx, project).items() if series in touched
            ]
            changes = update_change_points(tx, project, series_ids, policy)
        return [point for points in changes.values() for point in points]

    def _build_run(self, uid: str, end: ScriptResult) -> Run:
        return Run(
            project=self._config.project,
            session=uid,
            commit=self._commit,
            machine=self._machine,
            environment=self._environment,
            variant=self._variant,
            suite="wrap",
            harness=HARNESS,
            started_at=end.started_at,
        )

    def _build_series(self, metric: Metric) -> Series:
        benchmark = Benchmark(self.benchmark, "1")
        return Series(benchmark, self.parameters, metric, self._machine, self._variant, HARNESS)

    def _build_process(
        self,
        metric: Metric,
        readings: ScriptReadings,
        round_number: int,
        end: ScriptResult,
        script_process: ScriptProcess,
    ) -> Process:
        clock, samples = readings[metric]
        return Process(
            index=0,
            round=round_number,
            status=script_process.status,
            samples=samples,
            clock=clock,
            reason=script_process.reason,
            started_at=end.started_at,
            duration_s=end.wall_s,
            exit_code=end.exit_code,
            flags=("interrupted",) if script_process.interrupted else (),
        )
