"""Sampling profiler: CPU time of a call by Python line, sampled every millisecond."""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType

from perfci.bench.profiles.profile_tables import MAX_ROWS, TimeShare

INTERVAL_S = 0.001
SWITCH_INTERVAL_S = 0.0001
MIN_CPU_S = 0.5
MAX_WALL_S = 3.0
"""Calls are repeated until so much CPU time has been seen, or so much time has passed: some only wait."""

BENCH_ROOT = Path(__file__).resolve().parent.parent
EXCLUDED_FILES = (
    str(BENCH_ROOT / "profiles" / "line_sampler.py"),
    str(BENCH_ROOT / "profiles" / "profiler.py"),
)
LIBRARY_ROOTS = tuple(
    sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")
)

SourceLine = tuple[str, int]


def sample_lines(
    function: Callable[[], object],
    *,
    before_call: Callable[[], object] = lambda: None,
    roots: Mapping[str, str] | None = None,
) -> tuple[TimeShare, ...]:
    """Attribute the CPU time of calls to lines, each sample to the innermost line of the project.

    ``roots`` maps the project's folders to how they are written; without them everything is the project
    that is no library. Time in a library counts for the line that called it, and where no line of the
    project did, for that of perfci.bench (it calls ``backward`` for a ``ModelBench``). ``before_call`` runs
    before each call and is not sampled.

    A thread takes the samples, because operators release the interpreter lock. A signal would be handled
    after the operator and at the next call, and so count the product ``a = x @ w`` for the line below it.
    """
    sampler = LineSampler(SourceLocator(roots))
    began, calls = time.perf_counter(), 0
    with sampler:
        while sampler.cpu_s() < MIN_CPU_S and time.perf_counter() - began < MAX_WALL_S:
            before_call()
            with sampler.sampling():
                function()
            calls += 1
    whole = sum(sampler.cpu_by_line.values())
    seen = [(place, spent) for place, spent in sampler.cpu_by_line.items() if spent > 0]
    largest = sorted(seen, key=lambda row: row[1], reverse=True)[:MAX_ROWS]
    return tuple(
        TimeShare(sampler.locator.format_line_with_source(place), spent / calls, spent / whole)
        for place, spent in largest
    )


class LineSampler:
    """A thread that samples the line which its creator runs, with the CPU time since the sample before."""

    def __init__(self, locator: SourceLocator) -> None:
        self.locator = locator
        self.cpu_by_line: dict[SourceLine, float] = {}
        self._target_thread = threading.get_ident()
        self._thread = threading.Thread(target=self._run, name="perfci line sampler", daemon=True)
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._began_s: float | None = None
        self._earlier_cpu_s = 0.0
        self._last_sample_s = 0.0

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
            self._began_s = self._process_s()
        try:
            yield
        finally:
            with self._lock:
                self._earlier_cpu_s, self._began_s = self.cpu_s(), None

    def cpu_s(self) -> float:
        """CPU seconds of all threads but the sampler's while it was sampling."""
        began = self._began_s
        return self._earlier_cpu_s + (self._process_s() - began if began is not None else 0.0)

    def _process_s(self) -> float:
        return time.process_time() - time.clock_gettime(self._clock)

    def _run(self) -> None:
        while not self._stopped.wait(INTERVAL_S):
            with self._lock:
                if self._began_s is not None:
                    self._add_sample(
                        self.locator.find_project_line(sys._current_frames()[self._target_thread])
                    )

    def _add_sample(self, line: SourceLine | None) -> None:
        if line is not None:
            now = self.cpu_s()
            self.cpu_by_line[line] = self.cpu_by_line.get(line, 0.0) + now - self._last_sample_s
            self._last_sample_s = now


class SourceLocator:
    """Classify lines as the project's, perfci's or a library's, and format them."""

    def __init__(self, roots: Mapping[str, str] | None) -> None:
        self._roots = (
            None if roots is None else {os.path.realpath(root): name for root, name in roots.items()}
        )
        self._owner: dict[str, str] = {}

    def find_project_line(self, frame: FrameType) -> SourceLine | None:
        """The innermost line of the project, else of perfci.bench; none between two calls."""
        lines: dict[str, SourceLine] = {}
        outer: FrameType | None = frame
        while outer is not None and outer.f_code.co_filename != __file__ and "project" not in lines:
            name = outer.f_code.co_filename
            if name not in self._owner:
                self._owner[name] = self._classify_file(name)
            lines.setdefault(self._owner[name], (name, outer.f_lineno))
            outer = outer.f_back
        return lines.get("project") or lines.get("perfci")

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
        return f"{self._display_path(os.path.realpath(name))}:{line}: {linecache.getline(name, line).strip()}"

    def _display_path(self, path: str) -> str:
        for folder, shown in {**(self._roots or {}), str(BENCH_ROOT): "perfci/bench"}.items():
            if path.startswith(folder + os.sep):
                return os.path.join(shown, os.path.relpath(path, folder))
        return path
