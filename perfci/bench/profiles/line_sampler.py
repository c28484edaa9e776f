"""Which lines of Python the CPU time of a call is spent in, by looking every millisecond."""

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

from perfci.bench.profiles.time_shares import TOP, Share

INTERVAL_S = 0.001
SWITCH_S = 0.0001
CPU_S = 0.5
WALL_S = 3.0
"""Calls are repeated until so much CPU time has been seen, or so much time has passed: some only wait."""

BENCH = Path(__file__).resolve().parent.parent
MACHINERY = (str(BENCH / "profiles" / "line_sampler.py"), str(BENCH / "profiles" / "profiler.py"))
LIBRARIES = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib"))

Place = tuple[str, int]


def lines_of(
    call: Callable[[], object], *, between: Callable[[], object] = lambda: None, roots: Mapping[str, str] | None = None
) -> tuple[Share, ...]:
    """Share out the CPU time of calls among lines, the innermost of the project's on the stack at each look.

    ``roots`` maps the project's folders to how they are written; without them everything is the project that is no
    library. Time in a library counts for the line that called it, and where no line of the project did, for that of
    perfci.bench (it calls ``backward`` for a ``ModelBench``). ``between`` runs before each call and is not looked at.

    Another thread looks, since operators let it: they release the interpreter. A signal would wait for the operator
    and for the next call after it, and so blame the line below ``a = x @ w`` for that product.
    """
    looker = Looker(Places(roots))
    began, calls = time.perf_counter(), 0
    with looker:
        while looker.cpu_s() < CPU_S and time.perf_counter() - began < WALL_S:
            between()
            with looker.looking():
                call()
            calls += 1
    whole = sum(looker.spent.values())
    seen = [(place, spent) for place, spent in looker.spent.items() if spent > 0]
    largest = sorted(seen, key=lambda row: row[1], reverse=True)[:TOP]
    return tuple(Share(looker.places.text(place), spent / calls, spent / whole) for place, spent in largest)


class Looker:
    """A thread that notes where the thread that made it is, and the CPU time since it noted that last."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.spent: dict[Place, float] = {}
        self._watched = threading.get_ident()
        self._thread = threading.Thread(target=self._look, name="perfci lines", daemon=True)
        self._ended = threading.Event()
        self._turn = threading.Lock()
        self._began_s: float | None = None
        self._before_s = 0.0
        self._noted_s = 0.0

    def __enter__(self) -> Looker:
        """Let the interpreter change threads more often than looks are due; 5 ms is its default."""
        self._interval = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_S)
        self._thread.start()
        self._clock = time.pthread_getcpuclockid(self._thread.ident or 0)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        sys.setswitchinterval(self._interval)

    @contextlib.contextmanager
    def looking(self) -> Iterator[None]:
        with self._turn:
            self._began_s = self._process_s()
        try:
            yield
        finally:
            with self._turn:
                self._before_s, self._began_s = self.cpu_s(), None

    def cpu_s(self) -> float:
        """CPU seconds that all threads but this one have used while it was looking."""
        began = self._began_s
        return self._before_s + (self._process_s() - began if began is not None else 0.0)

    def _process_s(self) -> float:
        return time.process_time() - time.clock_gettime(self._clock)

    def _look(self) -> None:
        while not self._ended.wait(INTERVAL_S):
            with self._turn:
                if self._began_s is not None:
                    self._note(self.places.of(sys._current_frames()[self._watched]))

    def _note(self, place: Place | None) -> None:
        if place is not None:
            now = self.cpu_s()
            self.spent[place] = self.spent.get(place, 0.0) + now - self._noted_s
            self._noted_s = now


class Places:
    """Whose a line is, and how it is written."""

    def __init__(self, roots: Mapping[str, str] | None) -> None:
        self._roots = None if roots is None else {os.path.realpath(root): name for root, name in roots.items()}
        self._owner: dict[str, str] = {}

    def of(self, frame: FrameType) -> Place | None:
        """The innermost line of the project, else of perfci.bench; none between two calls."""
        found: dict[str, Place] = {}
        outer: FrameType | None = frame
        while outer is not None and outer.f_code.co_filename != __file__ and "project" not in found:
            name = outer.f_code.co_filename
            if name not in self._owner:
                self._owner[name] = self._whose(name)
            found.setdefault(self._owner[name], (name, outer.f_lineno))
            outer = outer.f_back
        return found.get("project") or found.get("perfci")

    def _whose(self, name: str) -> str:
        real = os.path.realpath(name)
        if real in MACHINERY or name.startswith("<"):
            return ""
        if self._roots is not None and any(real.startswith(root + os.sep) for root in self._roots):
            return "project"
        if real.startswith(str(BENCH) + os.sep):
            return "perfci"
        return "project" if self._roots is None and not real.startswith(LIBRARIES) else ""

    def text(self, place: Place) -> str:
        """``model/net.py:31: x = self.layers(x)``"""
        name, line = place
        return f"{self._written(os.path.realpath(name))}:{line}: {linecache.getline(name, line).strip()}"

    def _written(self, real: str) -> str:
        for folder, shown in {**(self._roots or {}), str(BENCH): "perfci/bench"}.items():
            if real.startswith(folder + os.sep):
                return os.path.join(shown, os.path.relpath(real, folder))
        return real
