"""Time the stages of a pipeline so that nothing hides between them: their sum has to be the whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter, process_time

from perfci.bench.devices.torch_devices import Device, this_device
from perfci.bench.readings import Absent, Reading, witness
from perfci.model import Clock, Metric

ALLOWED_GAP = 0.02
"""Share of the whole that may lie in no stage before the measurement is invalid."""

WITH_S = 10e-6
"""What the interpreter may need around one ``with stages(...)``, beside that share: five times the 2 us it takes on an
idle machine. It only matters to runs of less than a millisecond."""


def stage_metrics(*names: str) -> tuple[Metric, ...]:
    """Declare what ``Stages.readings`` gives for these stages: each one's seconds, and its share of the whole."""
    seconds = [Metric(name, "seconds") for name in names]
    return (*seconds, *(Metric(f"{name}_share", "ratio") for name in names))


@dataclass(slots=True)
class Span:
    """Seconds by both clocks: wall, and CPU seconds of this process."""

    wall: float = 0.0
    cpu: float = 0.0

    def __add__(self, other: Span) -> Span:
        return Span(self.wall + other.wall, self.cpu + other.cpu)

    def __sub__(self, other: Span) -> Span:
        return Span(self.wall - other.wall, self.cpu - other.cpu)


@dataclass(slots=True)
class Stopwatch:
    """Both clocks, standing still while the timers keep their books: a short stage is not blamed for being timed."""

    device: Device
    lost: Span = field(default_factory=Span)
    paused: Span = field(default_factory=Span)

    def pause(self) -> Span:
        """Wait for the device, stop, and say what the clocks show."""
        self.device.synchronize()
        self.paused = Span(perf_counter(), process_time())
        return self.paused - self.lost

    def resume(self) -> None:
        wall, cpu = perf_counter(), process_time()
        self.lost.wall += wall - self.paused.wall
        self.lost.cpu += cpu - self.paused.cpu


@dataclass(slots=True)
class Opened:
    """A stage that was entered and not yet left; ``inside`` is what the stages within it have taken."""

    name: str
    began: Span
    inside: Span = field(default_factory=Span)


@dataclass(slots=True)
class Run:
    """One time through the pipeline: exclusive seconds of each stage, and of everything."""

    began: Span
    stages: dict[str, Span] = field(default_factory=dict)
    whole: Span = field(default_factory=Span)
    visits: int = 0

    @property
    def staged(self) -> Span:
        return sum(self.stages.values(), Span())


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
        self._watch = Stopwatch(self._device)
        self._runs: list[Run] = []
        self._run: Run | None = None
        self._open: list[Opened] = []

    def __enter__(self) -> Stages:
        if self._run is not None:
            raise ValueError("a run of the stages is already being timed; end it before the next one begins")
        self._run = Run(self._watch.pause())
        self._watch.resume()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        run = self._running("the end of a run")
        run.whole = self._watch.pause() - run.began
        if kind is None:
            self._runs.append(run)
        self._run = None

    def __call__(self, name: str) -> Visit:
        """Time one stage: ``with stages("prefill"):``. ``ValueError`` outside a run and inside the stage itself."""
        return Visit(self, name)

    def enter(self, name: str) -> None:
        """What ``with stages(name):`` does at its beginning."""
        now = self._watch.pause()
        self._running(f"stage {name!r}")
        if any(name == opened.name for opened in self._open):
            raise ValueError(f"stage {name!r} was entered inside itself; its time would count twice")
        self._open.append(Opened(name, now))
        self._watch.resume()

    def leave(self) -> None:
        """What ``with stages(name):`` does at its end."""
        now, left = self._watch.pause(), self._open.pop()
        taken = now - left.began
        run = self._running(f"stage {left.name!r}")
        run.stages[left.name] = run.stages.get(left.name, Span()) + taken - left.inside
        run.visits += 1
        if self._open:
            self._open[-1].inside += taken
        self._watch.resume()

    def _running(self, what: str) -> Run:
        if self._run is None:
            raise ValueError(f"{what} was reached outside a run; put `with stages:` around the whole")
        return self._run

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
        if any(seconds(run.whole) <= 0 for run in self._runs):
            raise ValueError(f"a run of the stages took no {clock} time; there is nothing to divide")
        by_gap = sorted(self._runs, key=lambda run: 1 - seconds(run.staged) / seconds(run.whole))
        middle = by_gap[(len(by_gap) - 1) // 2]
        staged, whole = seconds(middle.staged), seconds(middle.whole)
        if whole - staged > ALLOWED_GAP * whole + WITH_S * middle.visits:
            raise ValueError(
                f"the stages add up to {staged:.4g} s of {whole:.4g} s ({clock} time): {1 - staged / whole:.1%} of it "
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


@dataclass(slots=True)
class Visit:
    """One visit to a stage, as a context manager."""

    stages: Stages
    name: str

    def __enter__(self) -> None:
        self.stages.enter(self.name)

    def __exit__(self, *_: object) -> None:
        self.stages.leave()
