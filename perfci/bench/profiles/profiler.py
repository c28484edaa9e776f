"""Where the time of a benchmark goes: kernels, operators, phases and Python lines. Nothing here is ever judged."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch.profiler import ProfilerActivity, record_function

from perfci.bench.devices.torch_devices import Device, this_device
from perfci.bench.profiles.line_sampler import lines_of
from perfci.bench.profiles.profile_tables import PHASE, WAITING, WHOLE, tables_of
from perfci.bench.profiles.time_shares import Share
from perfci.bench.readings import Absent, not_here

Mark = Callable[[str], contextlib.AbstractContextManager[Any]]
Work = Callable[[Mark], object]
"""What is profiled: called with what opens a named phase around a part of it."""

WARMUPS = 3
WARMUP_S = 5.0
MOST_CALLS = 10
RECORDED_S = 0.5
"""Calls are recorded for about so long: more make a trace that no viewer opens."""

ACTIVITIES = {"cuda": ProfilerActivity.CUDA, "rocm": ProfilerActivity.CUDA, "xpu": ProfilerActivity.XPU}


@dataclass(frozen=True, slots=True)
class Profile:
    """Tables sorted by share, the largest first, of ``calls`` calls that took ``seconds`` each, by the wall clock.

    ``phases`` hold the host's time in each, and sum to the call; none where the benchmark marks none. ``kernels``,
    ``device_phases`` (the device's time of what was launched in each phase) and ``busy`` are absent, with the reason,
    where no kernel was seen. ``busy`` is the part of the call during which a kernel ran, a ratio: what NVML's
    utilisation is often taken for (that one only says that some kernel was resident, pytorch/kineto#306), and
    ``in_operators`` the part of it during which an operator ran on the host; the rest is Python, or waiting.
    """

    device: str
    kind: str
    calls: int
    seconds: float
    in_operators: float
    busy: float | Absent
    phases: tuple[Share, ...]
    device_phases: tuple[Share, ...] | Absent
    kernels: tuple[Share, ...] | Absent
    operators: tuple[Share, ...]
    lines: tuple[Share, ...]


def profile(
    work: Work, folder: Path, *, device: Device | None = None, warmups: int = WARMUPS,
    prepare: Callable[[], object] = lambda: None, roots: Mapping[str, str] | None = None,
) -> Profile:  # fmt: skip
    """Profile a few warm calls; write ``trace.json`` (Chrome's format) and ``profile.json`` into ``folder``.

    Phases are ranges of torch's profiler, and of NVTX where CUDA is. Lines are sampled in calls of their own (see
    ``lines_of``, which also says what ``roots`` are), without phases, so that neither disturbs the other. ``prepare``
    runs before every call and is no part of it.
    """
    device = device or this_device()
    calls = calls_to_record(_warm(work, device, warmups, prepare))
    recorded = _record(work, device, calls, prepare)
    folder.mkdir(parents=True, exist_ok=True)
    recorded.export_chrome_trace(str(folder / "trace.json"))

    def between() -> None:
        device.synchronize()
        prepare()

    lines = lines_of(lambda: work(_unmarked), between=between, roots=roots)
    profiled = _profile(recorded.events(), device, calls, lines)
    (folder / "profile.json").write_text(json.dumps(asdict(profiled), indent=1))
    return profiled


def calls_to_record(call_s: float) -> int:
    """Several of short calls, so that one interruption does not lead the tables; one of a long call."""
    return max(1, min(MOST_CALLS, round(RECORDED_S / (call_s or RECORDED_S))))


def ranges(
    work: Work, *, device: Device | None = None, warmups: int = WARMUPS, prepare: Callable[[], object] = lambda: None
) -> None:
    """Run warm calls with NVTX ranges, and nothing else, between ``cudaProfilerStart`` and ``cudaProfilerStop``.

    For ``nsys profile --capture-range=cudaProfilerApi``. Only one subscriber of CUPTI can record a process
    (pytorch/pytorch#117935), so torch's profiler must not run at the same time.
    """
    device = device or this_device()
    calls = calls_to_record(_warm(work, device, warmups, prepare))
    if not torch.cuda.is_initialized():
        raise not_here("it did not use CUDA, so there are no ranges that nsys could show")
    torch.cuda.profiler.start()
    try:
        for _ in range(calls):
            prepare()
            with nvtx("one call"):
                work(nvtx)
                device.synchronize()
    finally:
        torch.cuda.profiler.stop()


def _warm(work: Work, device: Device, warmups: int, prepare: Callable[[], object]) -> float:
    """Run until warm, or for long enough; return the seconds of the last call."""
    began = perf_counter()
    took = 0.0
    for _ in range(warmups):
        prepare()
        call = perf_counter()
        work(_unmarked)
        device.synchronize()
        took = perf_counter() - call
        if perf_counter() - began > WARMUP_S:
            break
    return took


def _record(work: Work, device: Device, calls: int, prepare: Callable[[], object]) -> Any:
    """Record calls; the first also starts the tracer of the device, and is in the trace but not in the tables."""
    activities = [ProfilerActivity.CPU, *([ACTIVITIES[device.kind]] if device.kind in ACTIVITIES else [])]
    with torch.profiler.profile(activities=activities) as recorded:
        for name in (PHASE + "the call that starts the tracer", *[WHOLE] * calls):
            prepare()
            with record_function(name):
                work(_marked)
                if device.kind != "cpu":
                    with record_function(WAITING):
                        device.synchronize()
    return recorded


@contextlib.contextmanager
def _marked(phase: str) -> Iterator[None]:
    with record_function(PHASE + phase), nvtx(phase):
        yield


def _unmarked(_: str) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext()


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


def _profile(events: Any, device: Device, calls: int, lines: tuple[Share, ...]) -> Profile:
    tables = tables_of(events)
    missing = None if tables.kernels else Absent(_why_no_kernels(device))
    return Profile(
        device=device.name,
        kind=device.kind,
        calls=calls,
        seconds=tables.seconds,
        in_operators=tables.in_operators,
        busy=missing or tables.busy,
        phases=tables.phases,
        device_phases=missing or tables.device_phases,
        kernels=missing or tables.kernels,
        operators=tables.operators,
        lines=lines,
    )


def _why_no_kernels(device: Device) -> str:
    if device.kind == "cpu":
        return f"{device.name} runs no kernels of its own"
    if device.kind not in ACTIVITIES:
        return f"torch's profiler cannot see what runs on {device.name}"
    return f"no kernel was seen on {device.name}: the benchmark uses the CPU alone, or another profiler is recording"
