"""Time the stages of a pipeline so that nothing hides between them: their sum has to be the whole."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter, process_time

from perfci.bench.device import Device, this_device
from perfci.bench.readings import Absent, Reading, witness
from perfci.model import Clock, Metric

ALLOWED_GAP = 0.02
"""Share of the whole that may lie in no stage before the measurement is invalid."""


def stage_metrics(*names: str) -> tuple[Metric, ...]:
    """Declare what ``Stages.readings`` gives for these stages: each one's seconds, and its share of the whole."""
    seconds = [Metric(name, "seconds") for name in names]
    return (*seconds, *(Metric(f"{name}_share", "ratio") for name in names))


TIMER_S = 20e-6
"""What entering and leaving a stage may take outside its clock: of a stage of a millisecond it is 2 % already."""


@dataclass(slots=True)
class Span:
    """Seconds by both clocks: wall, and CPU seconds of this process."""

    wall: float = 0.0
    cpu: float = 0.0

    def add(self, other: Span) -> None:
        self.wall += other.wall
        self.cpu += other.cpu

    def minus(self, other: Span) -> Span:
        return Span(self.wall - other.wall, self.cpu - other.cpu)


@dataclass(slots=True)
class _Run:
    """One time through the pipeline: exclusive seconds of each stage, seconds of all outermost ones, of everything."""

    stages: dict[str, Span] = field(default_factory=dict)
    outermost: Span = field(default_factory=Span)
    whole: Span = field(default_factory=Span)
    visits: int = 0


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

    Each ``with stages:`` is one run and gives one sample per stage. The device is waited for at the edges of stages
    and nowhere else, so that what a stage queued counts as its own. Stages may be nested and entered repeatedly: a
    stage's seconds are its own, without the stages inside it, and add up over its visits (optimum-benchmark's load,
    prefill, decode; here with the sum checked).
    """

    def __init__(self, device: Device | None = None) -> None:
        self._device = device or this_device()
        self._runs: list[_Run] = []
        self._run: _Run | None = None
        self._open: list[tuple[str, Span]] = []
        self._whole: contextlib.AbstractContextManager[None] | None = None

    def __enter__(self) -> Stages:
        if self._run is not None:
            raise ValueError("a run of the stages is already being timed; end it before the next one begins")
        self._run = _Run()
        self._whole = self._timed(self._run.whole)
        self._whole.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        assert self._run is not None
        assert self._whole is not None
        self._whole.__exit__(None, None, None)
        if kind is None:
            self._runs.append(self._run)
        self._run = self._whole = None

    @contextlib.contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Time one stage. Raises ``ValueError`` outside a run, and inside a stage of the same name."""
        run = self._run
        if run is None:
            raise ValueError(f"stage {name!r} was entered outside a run; put `with stages:` around the whole")
        if any(name == opened for opened, _ in self._open):
            raise ValueError(f"stage {name!r} was entered inside itself; its time would count twice")
        inside, taken = Span(), Span()
        run.visits += 1
        self._open.append((name, inside))
        try:
            with self._timed(taken):
                yield
        finally:
            self._open.pop()
            run.stages.setdefault(name, Span()).add(taken.minus(inside))
            outer = self._open[-1][1] if self._open else run.outermost
            outer.add(taken)

    @contextlib.contextmanager
    def _timed(self, span: Span) -> Iterator[None]:
        self._device.synchronize()
        wall, cpu = perf_counter(), process_time()
        try:
            yield
        finally:
            self._device.synchronize()
            span.add(Span(perf_counter() - wall, process_time() - cpu))

    @property
    def names(self) -> tuple[str, ...]:
        """The stages in the order they were first left."""
        return tuple(dict.fromkeys(name for run in self._runs for name in run.stages))

    def readings(self, names: Sequence[str] = (), *, complete: bool = True) -> dict[str, Reading | Absent]:
        """Seconds per stage and run, by the wall with the CPU's beside it where the CPU computes, and their shares.

        With ``names`` a stage that no run entered is absent, with its reason. Shares are of the whole, by the clock
        that is judged, and only shown. Raises ``ValueError`` with the numbers when the stages leave out more than 2 %
        of the whole in the middle run: then they describe something else than what ran. Stages that never meant to be
        ``complete`` are not held to that.
        """
        if not self._runs:
            raise ValueError("no run of the stages was timed; put `with stages:` around the whole")
        if complete:
            self._check()
        readings: dict[str, Reading | Absent] = {}
        for name in names or self.names:
            missing = name not in self.names
            readings[name] = Absent(f"no run entered the stage {name!r}") if missing else self._seconds(name)
            readings[f"{name}_share"] = readings[name] if missing else self._share(name)
        return readings

    def _check(self) -> None:
        self._check_clock("wall", lambda span: span.wall)
        if self._device.kind == "cpu":
            self._check_clock("CPU", lambda span: span.cpu)

    def _check_clock(self, clock: str, seconds: Callable[[Span], float]) -> None:
        """The middle run decides: one that another process interrupted between two stages says nothing of the code."""
        for run in self._runs:
            if seconds(run.whole) <= 0:
                raise ValueError(
                    f"the run took {seconds(run.whole)} s of {clock} time; there is nothing to divide into stages"
                )
        left_out = statistics.median_low([_gap(run, seconds) for run in self._runs])
        if left_out > ALLOWED_GAP:
            whole = sum(seconds(run.whole) for run in self._runs)
            inside = sum(seconds(run.outermost) for run in self._runs)
            raise ValueError(
                f"the stages add up to {inside:.4g} s of {whole:.4g} s ({clock} time): {left_out:.1%} of it "
                f"is in none of {', '.join(self.names) or 'them'}, {ALLOWED_GAP:.0%} is allowed; time the rest too"
            )

    def _seconds(self, name: str) -> Reading:
        spans = [run.stages[name] for run in self._runs if name in run.stages]
        cpu = [span.cpu for span in spans] if self._device.kind == "cpu" else []
        return Reading([span.wall for span in spans], Clock.WALL, cpu=cpu)

    def _share(self, name: str) -> Reading:
        own = sum(self._judged(run.stages.get(name, Span())) for run in self._runs)
        return witness(own / sum(self._judged(run.whole) for run in self._runs))

    def _judged(self, span: Span) -> float:
        return span.cpu if self._device.kind == "cpu" else span.wall


def _gap(run: _Run, seconds: Callable[[Span], float]) -> float:
    """The share of a run that lies in no stage, without what the timers themselves take."""
    return (seconds(run.whole) - seconds(run.outermost) - TIMER_S * run.visits) / seconds(run.whole)
