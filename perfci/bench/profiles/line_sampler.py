"""Sampling profiler: time of a call by Python lines and phases, sampled every millisecond."""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from perfci.bench.profiles.profile_tables import MAX_ROWS, TimeShare
from perfci.bench.timers.stage_timers import ProfiledWork

INTERVAL_S = 0.001
SWITCH_INTERVAL_S = 0.0001
MIN_CPU_S = 0.5
MAX_WALL_S = 3.0
"""Calls are repeated until so much CPU time has been seen, or so much time has passed: some only wait."""

BENCH_ROOT = Path(__file__).resolve().parent.parent
EXCLUDED_FILES = (
    str(BENCH_ROOT / "profiles" / "line_sampler.py"),
    str(BENCH_ROOT / "profiles" / "profiler.py"),
    str(BENCH_ROOT / "profiles" / "operators_by_line.py"),
)
LIBRARY_ROOTS = tuple(
    sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")
)

SourceLine = tuple[str, int]


@dataclass(frozen=True, slots=True)
class SampledStack:
    """Seconds that one call spent with these lines of the project open, the outermost first, by both clocks.

    CPU seconds are those of all threads; wall seconds also hold what the call waited.
    """

    phase: str
    lines: tuple[SourceLine, ...]
    cpu_s: float
    wall_s: float


@dataclass(frozen=True, slots=True)
class SampledCalls:
    """What so many calls spent where; ``calls_s`` are the CPU and the wall seconds of each of them."""

    stacks: tuple[SampledStack, ...]
    calls_s: tuple[tuple[float, float], ...]
    locator: SourceLocator

    def shares_by_line(self) -> tuple[TimeShare, ...]:
        """CPU time by innermost line, the largest rows."""
        seconds: dict[SourceLine, float] = {}
        for stack in self.stacks:
            seconds[stack.lines[-1]] = seconds.get(stack.lines[-1], 0.0) + stack.cpu_s
        whole = sum(seconds.values())
        spent = [row for row in seconds.items() if row[1] > 0]
        largest = sorted(spent, key=lambda row: row[1], reverse=True)[:MAX_ROWS]
        return tuple(
            TimeShare(self.locator.format_line_with_source(line), line_s, line_s / whole)
            for line, line_s in largest
        )


def sample_lines(
    function: Callable[[], object],
    *,
    before_call: Callable[[], object] = lambda: None,
    roots: Mapping[str, str] | None = None,
) -> tuple[TimeShare, ...]:
    """Attribute the CPU time of calls to lines, each sample to the innermost line of the project."""
    return sample_calls(lambda mark: function(), before_call=before_call, roots=roots).shares_by_line()


def sample_calls(
    work: ProfiledWork,
    *,
    before_call: Callable[[], object] = lambda: None,
    roots: Mapping[str, str] | None = None,
    min_cpu_s: float | None = None,
) -> SampledCalls:
    """Attribute the time of calls to phases and to the lines of the project that are open, outermost first.

    ``roots`` maps the project's folders to how they are written; without them everything is the project
    that is no library. Time in a library counts for the line that called it, and where no line of the
    project did, for that of perfci.bench (it calls ``backward`` for a ``ModelBench``). ``before_call`` runs
    before each call and is not sampled.

    A thread takes the samples, because operators release the interpreter lock. A signal would be handled
    after the operator and at the next call, and so count the product ``a = x @ w`` for the line below it.
    """
    enough_cpu_s = MIN_CPU_S if min_cpu_s is None else min_cpu_s
    enough_wall_s = MAX_WALL_S * max(1.0, enough_cpu_s / MIN_CPU_S)
    sampler = LineSampler(SourceLocator(roots))
    began, calls_s = time.perf_counter(), []
    with sampler:
        while sampler.seconds()[0] < enough_cpu_s and time.perf_counter() - began < enough_wall_s:
            before_call()
            before = sampler.seconds()
            with sampler.sampling():
                work(sampler.mark_phase)
            after = sampler.seconds()
            calls_s.append((after[0] - before[0], after[1] - before[1]))
    stacks = tuple(
        SampledStack(phase, lines, cpu_s / len(calls_s), wall_s / len(calls_s))
        for (phase, lines), (cpu_s, wall_s) in sampler.seconds_by_stack.items()
    )
    return SampledCalls(stacks, tuple(calls_s), sampler.locator)


class LineSampler:
    """A thread that samples the lines which its creator runs, with the time since the sample before."""

    def __init__(self, locator: SourceLocator) -> None:
        self.locator = locator
        self.seconds_by_stack: dict[tuple[str, tuple[SourceLine, ...]], tuple[float, float]] = {}
        self._phases: list[str] = []
        self._target_thread = threading.get_ident()
        self._thread = threading.Thread(target=self._run, name="perfci line sampler", daemon=True)
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._began_s: tuple[float, float] | None = None
        self._earlier_s = (0.0, 0.0)
        self._last_sample_s = (0.0, 0.0)

    def __enter__(self) -> LineSampler:
        """Let the interpreter switch threads more often than samples are due; its default is 5 ms."""
        self._interval = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        self._thread.start()
        self._clock = time.pthread_getcpuclockid(self._thread.ident or 0)
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        sys.setswitchinterval(self._interval)

    @contextlib.contextmanager
    def sampling(self) -> Iterator[None]:
        with self._lock:
            self._began_s = self._clocks_s()
        try:
            yield
        finally:
            with self._lock:
                self._earlier_s, self._began_s = self.seconds(), None

    @contextlib.contextmanager
    def mark_phase(self, phase: str) -> Iterator[None]:
        """Count samples for a phase until the end of the context."""
        self._phases.append(phase)
        try:
            yield
        finally:
            self._phases.pop()

    def seconds(self) -> tuple[float, float]:
        """CPU seconds of all threads but the sampler's, and wall seconds, while it was sampling."""
        if self._began_s is None:
            return self._earlier_s
        now = self._clocks_s()
        return (
            self._earlier_s[0] + now[0] - self._began_s[0],
            self._earlier_s[1] + now[1] - self._began_s[1],
        )

    def _clocks_s(self) -> tuple[float, float]:
        return time.process_time() - time.clock_gettime(self._clock), time.perf_counter()

    def _run(self) -> None:
        while not self._stopped.wait(INTERVAL_S):
            with self._lock:
                if self._began_s is not None:
                    phase = self._phases[-1] if self._phases else ""
                    self._add_sample(
                        phase, self.locator.find_open_lines(sys._current_frames()[self._target_thread])
                    )

    def _add_sample(self, phase: str, lines: tuple[SourceLine, ...]) -> None:
        if lines:
            now, last = self.seconds(), self._last_sample_s
            cpu_s, wall_s = self.seconds_by_stack.get((phase, lines), (0.0, 0.0))
            self.seconds_by_stack[phase, lines] = cpu_s + now[0] - last[0], wall_s + now[1] - last[1]
            self._last_sample_s = now


class SourceLocator:
    """Classify lines as the project's, perfci's or a library's, and format them."""

    def __init__(self, roots: Mapping[str, str] | None) -> None:
        self._roots = (
            None if roots is None else {os.path.realpath(root): name for root, name in roots.items()}
        )
        self._owner: dict[str, str] = {}
        self._shown_paths: dict[str, str] = {}

    def find_open_lines(self, frame: FrameType | None) -> tuple[SourceLine, ...]:
        """The lines of the project that are open, outermost first; without any, the innermost of
        perfci.bench; none between two calls.
        """
        project: list[SourceLine] = []
        perfci: list[SourceLine] = []
        while frame is not None and frame.f_code.co_filename != __file__:
            name = frame.f_code.co_filename
            if name not in self._owner:
                self._owner[name] = self._classify_file(name)
            if self._owner[name]:
                (project if self._owner[name] == "project" else perfci).append((name, frame.f_lineno))
            frame = frame.f_back
        return tuple(reversed(project)) or tuple(perfci[:1])

    def _classify_file(self, filename: str) -> str:
        real = os.path.realpath(filename)
        # "<string>", "<frozen importlib._bootstrap>": code without a file.
        if real in EXCLUDED_FILES or filename.startswith("<"):
            return ""
        if self._roots is not None and any(real.startswith(root + os.sep) for root in self._roots):
            return "project"
        if real.startswith(str(BENCH_ROOT) + os.sep):
            return "perfci"
        return "project" if self._roots is None and not real.startswith(LIBRARY_ROOTS) else ""

    def format_line_with_source(self, source_line: SourceLine) -> str:
        """``model/net.py:31: x = self.layers(x)``"""
        name, line = source_line
        return f"{self.display_path(name)}:{line}: {linecache.getline(name, line).strip()}"

    def display_path(self, filename: str) -> str:
        """A file's path from the root of the repository, or from that of perfci.bench."""
        if filename not in self._shown_paths:
            self._shown_paths[filename] = self._shorten_path(os.path.realpath(filename))
        return self._shown_paths[filename]

    def is_project_file(self, filename: str) -> bool:
        """Whether a file is of the project or its suite."""
        return self._classify_file(filename) == "project"

    def _shorten_path(self, path: str) -> str:
        for folder, shown in {**(self._roots or {}), str(BENCH_ROOT): "perfci/bench"}.items():
            if path.startswith(folder + os.sep):
                return os.path.join(shown, os.path.relpath(path, folder))
        return path
