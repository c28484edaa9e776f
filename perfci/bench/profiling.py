"""Where the time of a benchmark goes: kernels, operators, phases and Python lines. Nothing here is ever judged."""

from __future__ import annotations

import contextlib
import json
import linecache
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time
from types import FrameType
from typing import Any

import torch

from perfci.bench.device import Device, this_device
from perfci.bench.readings import Absent

Mark = Callable[[str], contextlib.AbstractContextManager[Any]]
Work = Callable[[Mark], object]
"""What is profiled: called with what opens a named phase around a part of it."""

WARMUPS = 3
CALLS = 3
TOP = 20
LINE_INTERVAL_S = 0.001
LINE_SAMPLES_S = 0.5


@dataclass(frozen=True, slots=True)
class Share:
    """A kernel, operator, phase or line: its seconds in one call of the benchmark, and its share of all of them."""

    name: str
    seconds: float
    share: float
    calls: float = 0.0


@dataclass(frozen=True, slots=True)
class Profile:
    """Tables sorted by share, the largest first; ``kernels`` is absent, with its reason, where no device runs any.

    ``busy`` is the sum of kernel times over the wall time of the profiled calls, a ratio: what NVML's utilisation is
    often taken for (that one only says that some kernel was resident, pytorch/kineto#306).
    """

    operators: tuple[Share, ...]
    kernels: tuple[Share, ...] | Absent
    phases: tuple[Share, ...]
    lines: tuple[Share, ...]
    busy: float | Absent


def profile(work: Work, folder: Path, *, device: Device | None = None, warmups: int = WARMUPS) -> Profile:
    """Profile a few warm calls; write ``trace.json`` (Chrome's format) and ``profile.json`` into ``folder``.

    Phases are ranges of NVTX where CUDA is, so that ``nsys profile`` shows them, and of torch's profiler everywhere.
    Lines are sampled in calls of their own, every millisecond of CPU time, so that neither disturbs the other.
    """
    device = device or this_device()
    folder.mkdir(parents=True, exist_ok=True)
    for _ in range(warmups):
        work(_ranged)
    device.synchronize()
    with torch.profiler.profile(activities=_activities(device)) as recorded:
        for _ in range(CALLS):
            with torch.profiler.record_function(WHOLE):
                work(_ranged)
                device.synchronize()
    recorded.export_chrome_trace(str(folder / "trace.json"))
    profiled = _tables(recorded.key_averages(), device, lines_of(lambda: work(_ranged)))
    (folder / "profile.json").write_text(json.dumps(asdict(profiled), indent=1))
    return profiled


WHOLE = "perfci: one call"
PHASE = "perfci: "


@contextlib.contextmanager
def _ranged(phase: str) -> Iterator[None]:
    with torch.profiler.record_function(PHASE + phase), nvtx(phase):
        yield


@contextlib.contextmanager
def nvtx(phase: str) -> Iterator[None]:
    """A named range in Nsight's view of this process; nothing where CUDA was not started."""
    if not torch.cuda.is_initialized():
        yield
        return
    torch.cuda.nvtx.range_push(phase)
    try:
        yield
    finally:
        torch.cuda.nvtx.range_pop()


def _activities(device: Device) -> list[Any]:
    on_device = {
        "cuda": torch.profiler.ProfilerActivity.CUDA,
        "rocm": torch.profiler.ProfilerActivity.CUDA,
        "xpu": torch.profiler.ProfilerActivity.XPU,
    }
    return [torch.profiler.ProfilerActivity.CPU, *([on_device[device.kind]] if device.kind in on_device else [])]


def _tables(events: Sequence[Any], device: Device, lines: tuple[Share, ...]) -> Profile:
    ranges = [event for event in events if event.key.startswith(PHASE)]
    others = [event for event in events if not event.key.startswith(PHASE)]
    operators = [(event.key, event.self_cpu_time_total, event.count) for event in others]
    kernels = [(event.key, event.self_device_time_total, event.count) for event in others]
    phases = [(e.key.removeprefix(PHASE), e.cpu_time_total, e.count) for e in ranges if e.key != WHOLE]
    whole_us = sum(event.cpu_time_total for event in ranges if event.key == WHOLE)
    none = Absent(f"{device.name} runs no kernels of its own")
    return Profile(
        operators=_shares(operators, sum(time for _, time, _ in operators)),
        kernels=none if device.kind == "cpu" else _shares(kernels, sum(time for _, time, _ in kernels)),
        phases=_shares(phases, whole_us),
        lines=lines,
        busy=none if device.kind == "cpu" else sum(time for _, time, _ in kernels) / whole_us,
    )


def _shares(rows: Sequence[tuple[str, float, int]], whole_us: float) -> tuple[Share, ...]:
    largest = sorted((row for row in rows if row[1] > 0), key=lambda row: row[1], reverse=True)[:TOP]
    return tuple(Share(name, time / 1e6 / CALLS, time / whole_us, count / CALLS) for name, time, count in largest)


def lines_of(call: Callable[[], object]) -> tuple[Share, ...]:
    """Sample which line of Python the process is in, every millisecond of its CPU time, for half a second of it.

    What runs in an operator counts for the line that called it; lines of torch itself count for the line outside. A
    signal waits until an operator has returned, so each sample stands for the CPU time since the one before.
    """
    spent: dict[str, float] = {}
    seen = process_time()

    def note(_: int, frame: FrameType | None) -> None:
        nonlocal seen
        now = process_time()
        line = _line(frame)
        spent[line] = spent.get(line, 0.0) + now - seen
        seen = now

    before = signal.signal(signal.SIGPROF, note)
    signal.setitimer(signal.ITIMER_PROF, LINE_INTERVAL_S, LINE_INTERVAL_S)
    until, calls = seen + LINE_SAMPLES_S, 0
    try:
        while process_time() < until:
            call()
            calls += 1
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    whole = sum(spent.values())
    largest = sorted(spent.items(), key=lambda row: row[1], reverse=True)[:TOP]
    return tuple(Share(line, seconds / calls, seconds / whole) for line, seconds in largest)


def _line(frame: FrameType | None) -> str:
    """The innermost line that is neither torch's nor the interpreter's own library."""
    outside = frame
    while outside is not None and _is_library(outside.f_code.co_filename):
        outside = outside.f_back
    found = outside or frame
    if found is None:
        return "(no Python)"
    name = found.f_code.co_filename
    return f"{name}:{found.f_lineno}: {linecache.getline(name, found.f_lineno).strip()}"


def _is_library(name: str) -> bool:
    return "site-packages" in name or name.startswith("<") or "/lib/python" in name
