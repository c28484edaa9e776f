"""Time the stages of a pipeline so that nothing hides between them: their sum has to be the whole."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter, process_time
from typing import Any

from perfci.bench.devices.torch_devices import Device, this_device
from perfci.bench.readings import Absent, Reading, informational
from perfci.model import Clock, Metric
from perfci.number_format import format_percent

MAX_UNSTAGED_SHARE = 0.02
"""Share of the whole that may lie in no stage before the measurement is invalid."""

CONTEXT_OVERHEAD_S = 10e-6
"""What the interpreter may need around one ``with stages(...)``, beside that share: five times the 2 us it
takes on an idle machine. It only matters to runs of less than a millisecond.
"""

PhaseMarker = Callable[[str], contextlib.AbstractContextManager[Any]]
"""Opens a named phase: a stage timer, a range of a profiler, or nothing while the step is timed as a
whole.
"""

ProfiledWork = Callable[[PhaseMarker], object]
"""Work to profile: called with the marker that opens a named phase around each part of it."""

_NULL_CONTEXT = contextlib.nullcontext()


def null_phase(phase: str) -> contextlib.AbstractContextManager[None]:
    """Open nothing. One shared context manager, so that a timed step does not pay for making one."""
    return _NULL_CONTEXT


def declare_stage_metrics(*names: str) -> tuple[Metric, ...]:
    """Declare the metrics of ``Stages.readings``: seconds of each stage, and its share of the whole."""
    seconds = [Metric(name, "seconds") for name in names]
    return (*seconds, *(Metric(f"{name}_share", "ratio") for name in names))


@dataclass(slots=True)
class ClockSpan:
    """Seconds by both clocks: wall, and CPU seconds of this process."""

    wall: float = 0.0
    cpu: float = 0.0

    def __add__(self, other: ClockSpan) -> ClockSpan:
        return ClockSpan(self.wall + other.wall, self.cpu + other.cpu)

    def __sub__(self, other: ClockSpan) -> ClockSpan:
        return ClockSpan(self.wall - other.wall, self.cpu - other.cpu)


@dataclass(slots=True)
class Stopwatch:
    """Both clocks, paused during the timers' own bookkeeping, so that it counts for no stage."""

    device: Device
    overhead: ClockSpan = field(default_factory=ClockSpan)
    paused_at: ClockSpan = field(default_factory=ClockSpan)

    def pause(self) -> ClockSpan:
        """Wait for the device, stop, and say what the clocks show."""
        self.device.synchronize()
        self.paused_at = ClockSpan(perf_counter(), process_time())
        return self.paused_at - self.overhead

    def resume(self) -> None:
        wall, cpu = perf_counter(), process_time()
        self.overhead.wall += wall - self.paused_at.wall
        self.overhead.cpu += cpu - self.paused_at.cpu


@dataclass(slots=True)
class OpenStage:
    """A stage that was entered and not yet left; ``nested`` is what the stages within it have taken."""

    name: str
    started: ClockSpan
    nested: ClockSpan = field(default_factory=ClockSpan)


@dataclass(slots=True)
class StagedRun:
    """One time through the pipeline: exclusive seconds of each stage, and of everything."""

    started: ClockSpan
    stages: dict[str, ClockSpan] = field(default_factory=dict)
    total: ClockSpan = field(default_factory=ClockSpan)
    entries: int = 0

    @property
    def staged_total(self) -> ClockSpan:
        return sum(self.stages.values(), ClockSpan())


class Stages:
    """Stage timers for code that runs once or several times.

    >>> stages = Stages()
    >>> for request in requests:
    ...     with stages:
    ...         with stages("prefill"):
    ...             first = next(stream)
    ...         with stages("decode"):
    ...             rest = list(stream)
    >>> stages.readings()

    Each ``with stages:`` is one run and gives one sample per stage. The device is waited for at the edges
    of stages and nowhere else, so that what a stage queued counts as its own. Stages may be nested and
    entered repeatedly: a stage's seconds are its own, without the stages inside it, and add up over its
    visits (optimum-benchmark's load, prefill, decode; here with the sum checked).
    """

    def __init__(self, device: Device | None = None) -> None:
        self._device = device or this_device()
        self._stopwatch = Stopwatch(self._device)
        self._runs: list[StagedRun] = []
        self._run: StagedRun | None = None
        self._open: list[OpenStage] = []

    def __enter__(self) -> Stages:
        if self._run is not None:
            raise ValueError("a run of the stages is already being timed; end it before the next one begins")
        self._run = StagedRun(self._stopwatch.pause())
        self._stopwatch.resume()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        run = self._current_run("the end of a run")
        run.total = self._stopwatch.pause() - run.started
        if kind is None:
            self._runs.append(run)
        self._run = None

    def __call__(self, name: str) -> StageContext:
        """Time one stage: ``with stages("prefill"):``. ``ValueError`` outside a run or inside itself."""
        return StageContext(self, name)

    def enter(self, name: str) -> None:
        """What ``with stages(name):`` does at its beginning."""
        now = self._stopwatch.pause()
        self._current_run(f"stage {name!r}")
        if any(name == opened.name for opened in self._open):
            raise ValueError(f"stage {name!r} was entered inside itself; its time would count twice")
        self._open.append(OpenStage(name, now))
        self._stopwatch.resume()

    def leave(self) -> None:
        """What ``with stages(name):`` does at its end."""
        now, left = self._stopwatch.pause(), self._open.pop()
        taken = now - left.started
        run = self._current_run(f"stage {left.name!r}")
        run.stages[left.name] = run.stages.get(left.name, ClockSpan()) + taken - left.nested
        run.entries += 1
        if self._open:
            self._open[-1].nested += taken
        self._stopwatch.resume()

    def _current_run(self, action: str) -> StagedRun:
        if self._run is None:
            raise ValueError(f"{action} was reached outside a run; put `with stages:` around the whole")
        return self._run

    @property
    def names(self) -> tuple[str, ...]:
        """The stages in the order they were first left."""
        return tuple(dict.fromkeys(name for run in self._runs for name in run.stages))

    def readings(self, names: Sequence[str] = (), *, complete: bool = True) -> dict[str, Reading | Absent]:
        """Seconds per stage and run (wall, with CPU seconds where the CPU computes), and their shares.

        With ``names`` a stage that no run entered is absent, with its reason. Shares are of the whole, by
        the clock that is judged, and only shown. Raises ``ValueError`` with the numbers when the stages
        leave out more than 2 % of the whole in the middle run: then they describe something else than what
        ran. Stages that never meant to be ``complete`` are not held to that.
        """
        if not self._runs:
            raise ValueError("no run of the stages was timed; put `with stages:` around the whole")
        if complete:
            self._check_completeness()
        readings: dict[str, Reading | Absent] = {}
        for name in names or self.names:
            missing = name not in self.names
            readings[name] = (
                Absent(f"no run entered the stage {name!r}") if missing else self._seconds_reading(name)
            )
            readings[f"{name}_share"] = readings[name] if missing else self._share_reading(name)
        return readings

    def _check_completeness(self) -> None:
        self._check_clock("wall", lambda span: span.wall)
        if self._device.kind == "cpu":
            self._check_clock("CPU", lambda span: span.cpu)

    def _check_clock(self, clock: str, seconds: Callable[[ClockSpan], float]) -> None:
        """Check the median run: another process may interrupt a single one between two stages."""
        if any(seconds(run.total) <= 0 for run in self._runs):
            raise ValueError(f"a run of the stages took no {clock} time; there is nothing to divide")
        by_gap = sorted(self._runs, key=lambda run: 1 - seconds(run.staged_total) / seconds(run.total))
        middle = by_gap[(len(by_gap) - 1) // 2]
        staged, whole = seconds(middle.staged_total), seconds(middle.total)
        if whole - staged > MAX_UNSTAGED_SHARE * whole + CONTEXT_OVERHEAD_S * middle.entries:
            raise ValueError(
                f"the stages add up to {staged:.4g} s of {whole:.4g} s ({clock} time): "
                f"{format_percent(1 - staged / whole)} of it "
                f"is in none of {', '.join(self.names) or 'them'}, {format_percent(MAX_UNSTAGED_SHARE)} is "
                "allowed; time the rest too"
            )

    def _seconds_reading(self, name: str) -> Reading:
        spans = [run.stages[name] for run in self._runs if name in run.stages]
        cpu = [span.cpu for span in spans] if self._device.kind == "cpu" else []
        return Reading([span.wall for span in spans], Clock.WALL, cpu=cpu)

    def _share_reading(self, name: str) -> Reading:
        own = sum(self._judged_seconds(run.stages.get(name, ClockSpan())) for run in self._runs)
        return informational(own / sum(self._judged_seconds(run.total) for run in self._runs))

    def _judged_seconds(self, span: ClockSpan) -> float:
        return span.cpu if self._device.kind == "cpu" else span.wall


@dataclass(slots=True)
class StageContext:
    """One visit to a stage, as a context manager."""

    stages: Stages
    name: str

    def __enter__(self) -> None:
        self.stages.enter(self.name)

    def __exit__(self, *_: object) -> None:
        self.stages.leave()
