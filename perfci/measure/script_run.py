"""A user's own script, run and read: its steps become a run of the commit that is checked out."""

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
from perfci.formats.step_log import Step, StepLog, read_steps
from perfci.history.derive_change_points import update_change_points
from perfci.history.result_summaries import keep_measured
from perfci.model import (
    Benchmark,
    ChangePoint,
    Clock,
    Commit,
    Metric,
    Pairs,
    Process,
    Run,
    Series,
    Status,
    Variant,
)
from perfci.policies import policy_of
from perfci.runner.machine_info import observed_environment, this_machine
from perfci.runner.user_script import Script, ScriptEnd, interpreter_versions, run_script
from perfci.stats.location import MIN_WARMUP_SAMPLES, WARMUP_SIGMAS, warmup_length
from perfci.store import Store
from perfci.store.queries.loaders import series_by_project
from perfci.store.writes.ingest import add_processes, add_run, finish_session, start_session
from perfci.verdicts.process_levels import process_level

HARNESS = "wrap-1"
"""Version of this way of measuring: it changes with the rule for the warm-up, and another one is another series."""

STEPS_VARIABLE = "PERFCI_STEPS"
"""Names the file that a wrapped script writes its steps to."""

WARMUP_RULE = (
    f"leading steps are warm-up while they stand more than {WARMUP_SIGMAS:g} sigma above the later half, at most half "
    f"of them, none of fewer than {MIN_WARMUP_SAMPLES}"
)

STEP_TIME = Metric("step_time", "seconds")
DATA_TIME = Metric("data_time", "seconds")
DATA_STALL = Metric("data_stall", "ratio")
PEAK_MEMORY = Metric("peak_memory", "bytes")
TOKENS_PER_S = Metric("tokens_per_s", "tokens/s", "higher")
LAST_LOSS = Metric("loss_at_last_step", "loss")
WALL = Metric("wall", "seconds")
PEAK_RSS = Metric("peak_rss", "bytes")

WITNESSES = frozenset({TOKENS_PER_S, LAST_LOSS, WALL, PEAK_RSS})
"""Shown beside the others and never judged."""

Readings = Mapping[Metric, tuple[Clock, tuple[float, ...]]]


@dataclass(frozen=True, slots=True)
class Wrapped:
    """One process of a script: how it ended, what it wrote, and what was read from that."""

    status: Status
    reason: str
    exit_code: int
    interrupted: bool
    steps: int
    warmup_steps: int
    wall_s: float
    readings: Readings
    log: StepLog


@dataclass(frozen=True, slots=True)
class WrapResult:
    """All processes of a script at one commit; ``session`` is empty when there was nothing to store."""

    benchmark: str
    parameters: Pairs
    commit: Commit
    session: str
    stored_in: str
    processes: Sequence[Wrapped]
    moves: Sequence[ChangePoint]

    @property
    def levels(self) -> dict[Metric, list[float]]:
        """The level of each process by metric; those that failed have none."""
        found: dict[Metric, list[float]] = {}
        for wrapped in self.processes:
            if wrapped.status is Status.OK:
                for metric, (clock, samples) in wrapped.readings.items():
                    found.setdefault(metric, []).append(process_level(Process(0, samples=samples, clock=clock)))
        return found


def wrap_script(
    store: Store, config: Config, script: Script, commit: Commit, *, name: str = "", steps: Path | None = None,
    repeat: int = 1, output: int | None = None, ended: Callable[[int, Wrapped], None] = lambda *_: None,
) -> WrapResult:  # fmt: skip
    """Run a script ``repeat`` times, one process after the other, and store each as soon as it has ended.

    It ends early when the script fails, is interrupted or writes no steps: the next process would do the same.
    """
    place = _Place(store, config, script, commit, name, repeat)
    processes: list[Wrapped] = []
    for round_number in range(repeat):
        end, log = _run_once(script, steps, output)
        wrapped = read_wrapped(end, log)
        processes.append(wrapped)
        if wrapped.readings or wrapped.status is not Status.OK:
            place.add(round_number, end, wrapped)
        ended(round_number, wrapped)
        if wrapped.status is not Status.OK or wrapped.interrupted or not wrapped.readings:
            break
    moves = place.finish()
    return WrapResult(place.benchmark, place.parameters, commit, place.session, store.shown, processes, moves)


def _run_once(script: Script, steps: Path | None, output: int | None) -> tuple[ScriptEnd, StepLog]:
    with tempfile.TemporaryDirectory(prefix="perfci-wrap-") as folder:
        path = steps or Path(folder) / "steps.jsonl"
        already = path.read_bytes() if path.exists() else b""
        end = run_script(script, {STEPS_VARIABLE: str(path.absolute())}, output=output)
        return end, read_steps(path, already)


# ------------------------------------------------------------------ reading


def read_wrapped(end: ScriptEnd, log: StepLog) -> Wrapped:
    """Judge how a process ended and take its metrics; a loss that is no number fails it, however fast it was."""
    status, reason = _ending(end)
    if log.diverged and status is Status.OK:
        status, reason = Status.FAILED, log.diverged
    timed = [(step, step.seconds) for step in log.steps if step.seconds is not None]
    warmup = warmup_length([[seconds for _, seconds in timed]])
    whole = status is Status.OK and not end.interrupted
    readings = dict(_readings(end, log.steps, timed[warmup:], whole=whole)) if timed else {}
    return Wrapped(status, reason, end.exit_code, end.interrupted, len(log.steps), warmup, end.wall_s, readings, log)


def _ending(end: ScriptEnd) -> tuple[Status, str]:
    if end.interrupted or end.exit_code == 0:
        return Status.OK, ""
    if end.exit_code > 0:
        return Status.FAILED, f"the script exited with code {end.exit_code}"
    if end.exit_code == -signal.SIGKILL:
        return Status.OOM, "the script was killed with SIGKILL, as the kernel does when memory runs out"
    return Status.CRASHED, f"the script was ended by signal {-end.exit_code} ({signal.strsignal(-end.exit_code)})"


def _readings(
    end: ScriptEnd, steps: Sequence[Step], steady: Sequence[tuple[Step, float]], *, whole: bool
) -> Iterator[tuple[Metric, tuple[Clock, tuple[float, ...]]]]:
    """What was read, judged metrics first; a process that did not come to its own end has no figures of the whole."""
    waits = [(step.data_seconds, seconds) for step, seconds in steady if step.data_seconds is not None]
    rates = [step.tokens / seconds for step, seconds in steady if step.tokens is not None]
    memory = [step.memory_bytes for step in steps if step.memory_bytes is not None]
    losses = [step.loss for step in steps if step.loss is not None]
    peak_rss = [] if end.peak_rss_bytes is None else [float(end.peak_rss_bytes)]
    found: list[tuple[Metric, Clock, Sequence[float]]] = [
        (STEP_TIME, Clock.WALL, [seconds for _, seconds in steady]),
        (DATA_TIME, Clock.WALL, [wait for wait, _ in waits]),
        (DATA_STALL, Clock.VALUE, [wait / seconds for wait, seconds in waits]),
        (PEAK_MEMORY, Clock.VALUE, [max(memory)] if memory else []),
        (TOKENS_PER_S, Clock.WITNESS, rates),
    ]
    of_the_whole = [(LAST_LOSS, losses[-1:]), (WALL, [end.wall_s]), (PEAK_RSS, peak_rss)]
    found += [(metric, Clock.WITNESS, samples) for metric, samples in of_the_whole if whole]
    usable = ((metric, clock, tuple(filter(math.isfinite, samples))) for metric, clock, samples in found)
    return ((metric, (clock, samples)) for metric, clock, samples in usable if samples)


# ------------------------------------------------------------------ storing


class _Place:
    """Where the processes of one script go: a session and a run, which begin with the first process that is stored."""

    def __init__(self, store: Store, config: Config, script: Script, commit: Commit, name: str, repeat: int) -> None:
        self.benchmark = name or f"wrap.{script.name}"
        self.parameters: Pairs = () if name or not script.arguments else (("arguments", shlex.join(script.arguments)),)
        self.session = ""
        self._store, self._config, self._commit, self._repeat = store, config, commit, repeat
        python, torch = interpreter_versions(script)
        line = ".".join(python.split(".")[:2])
        self._machine, self._variant = this_machine(), Variant((("python", line),) if line else ())
        self._environment = observed_environment(python=python, torch=torch)
        self._measured: list[tuple[Series, Process]] = []
        self._run_id = 0

    def add(self, round_number: int, end: ScriptEnd, wrapped: Wrapped) -> None:
        """Store one process; one that failed before its first step is written down under the step time."""
        readings: Readings = wrapped.readings or {STEP_TIME: (Clock.WALL, ())}
        rows = [(self._series(m), self._process(m, readings, round_number, end, wrapped)) for m in readings]
        self._measured += rows
        with self._store.begin() as tx:
            if not self.session:
                uid = f"wrap-{secrets.token_hex(8)}"
                start_session(tx, self._config.project, uid, "history", uid, 0, self._repeat, end.started_at)
                self._run_id = add_run(tx, self._run(uid, end))
                self.session = uid
            keep_measured(tx, add_processes(tx, self._run_id, rows))

    def finish(self) -> list[ChangePoint]:
        """Close the session and look again at the histories it added to."""
        if not self.session:
            return []
        project, policy = self._config.project, policy_of(self._config)
        touched = {series for series, _ in self._measured}
        with self._store.begin() as tx:
            finish_session(tx, self.session, datetime.now(UTC))
            series_ids = [row_id for row_id, one in series_by_project(tx, project).items() if one in touched]
            found = update_change_points(tx, project, series_ids, policy)
        return [point for points in found.values() for point in points]

    def _run(self, uid: str, end: ScriptEnd) -> Run:
        return Run(
            project=self._config.project, session=uid, commit=self._commit, machine=self._machine,
            environment=self._environment, variant=self._variant, suite="wrap", harness=HARNESS,
            started_at=end.started_at,
        )  # fmt: skip

    def _series(self, metric: Metric) -> Series:
        benchmark = Benchmark(self.benchmark, "1")
        return Series(benchmark, self.parameters, metric, self._machine, self._variant, HARNESS)

    def _process(
        self, metric: Metric, readings: Readings, round_number: int, end: ScriptEnd, wrapped: Wrapped
    ) -> Process:
        clock, samples = readings[metric]
        return Process(
            index=0, round=round_number, status=wrapped.status, samples=samples, clock=clock, reason=wrapped.reason,
            started_at=end.started_at, duration_s=end.wall_s, exit_code=end.exit_code,
            flags=("interrupted",) if wrapped.interrupted else (),
        )  # fmt: skip
