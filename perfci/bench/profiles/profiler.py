"""Profile a benchmark by kernels, operators, phases and Python lines. Nothing here is judged."""

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
from perfci.bench.profiles.call_tree import build_call_tree
from perfci.bench.profiles.line_sampler import SourceLocator, sample_calls
from perfci.bench.profiles.operators_by_line import OperatorKey, OperatorUse, count_operators
from perfci.bench.profiles.profile_tables import (
    CALL_RANGE,
    PHASE_PREFIX,
    WAIT_RANGE,
    TimeShare,
    build_profile_tables,
)
from perfci.bench.readings import Absent, skip_exception
from perfci.bench.timers.stage_timers import ProfiledWork, null_phase

WARMUP_CALLS = 3
WARMUP_S = 5.0
MAX_CALLS = 10
RECORDING_S = 0.5
MAX_EVENTS = 200_000
"""Calls are recorded for about so long, and so many events: more make a trace that no viewer opens. A
million events are a gigabyte, and take more than a minute to read.
"""

ACTIVITIES = {"cuda": ProfilerActivity.CUDA, "rocm": ProfilerActivity.CUDA, "xpu": ProfilerActivity.XPU}


@dataclass(frozen=True, slots=True)
class Profile:
    """Tables of ``calls`` calls that took ``seconds`` each (wall clock), sorted by share, descending.

    ``phases`` hold the host's time in each, and sum to the call; none where the benchmark marks none.
    ``kernels``, ``device_phases`` (the device's time of what was launched in each phase) and ``busy`` are
    absent, with the reason, where no kernel was seen. ``busy`` is the part of the call during which a
    kernel ran, a ratio: what NVML's utilisation is often taken for (that one only says that some kernel was
    resident, pytorch/kineto#306), and ``in_operators`` the part of it during which an operator ran on the
    host; the rest is Python, or waiting. ``kinds`` sum all kernels (or all operators, where no kernel was
    seen) by kind; the other tables hold their largest rows.
    """

    device: str
    kind: str
    calls: int
    seconds: float
    in_operators: float
    busy: float | Absent
    phases: tuple[TimeShare, ...]
    device_phases: tuple[TimeShare, ...] | Absent
    kernels: tuple[TimeShare, ...] | Absent
    operators: tuple[TimeShare, ...]
    kinds: tuple[TimeShare, ...]
    lines: tuple[TimeShare, ...]


def profile_work(
    work: ProfiledWork,
    folder: Path,
    *,
    device: Device | None = None,
    warmup_calls: int = WARMUP_CALLS,
    before_call: Callable[[], object] = lambda: None,
    roots: Mapping[str, str] | None = None,
    sampled_cpu_s: float | None = None,
) -> Profile:
    """Profile a few warm calls; write ``trace.json`` (Chrome's format), ``profile.json`` and
    ``call_tree.json`` into ``folder``.

    Phases are ranges of torch's profiler, and of NVTX where CUDA is. Lines are sampled in calls of their
    own (see ``sample_calls``, which also says what ``roots`` are), for ``sampled_cpu_s`` CPU seconds, and
    operators are counted by line in further ones, so that none disturbs another. ``before_call`` runs
    before every call and is no part of it.
    """
    device = device or this_device()
    call_s = _warm_up(work, device, warmup_calls, before_call)
    calls = choose_recorded_call_count(call_s, _count_events(work, device, before_call))
    recorded = _record_calls(work, device, calls, before_call)
    folder.mkdir(parents=True, exist_ok=True)
    recorded.export_chrome_trace(str(folder / "trace.json"))

    def between() -> None:
        device.synchronize()
        before_call()

    sampled = sample_calls(work, before_call=between, roots=roots, min_cpu_s=sampled_cpu_s)
    operators, missing = _try_to_count_operators(work, sampled.locator, device, before_call)
    profiled = _build_profile(recorded.events(), device, calls, sampled.shares_by_line())
    (folder / "call_tree.json").write_text(json.dumps(build_call_tree(sampled, operators, missing)))
    (folder / "profile.json").write_text(json.dumps(asdict(profiled), indent=1))
    return profiled


def _try_to_count_operators(
    work: ProfiledWork, locator: SourceLocator, device: Device, before_call: Callable[[], object]
) -> tuple[dict[OperatorKey, OperatorUse], str]:
    """Count operators by line; where a model does not run while it is watched, say why."""
    try:
        return count_operators(work, locator, before_call=before_call, synchronize=device.synchronize), ""
    except Exception as error:
        return {}, f"{type(error).__name__}: {error}"


def choose_recorded_call_count(call_s: float, events: int = 0) -> int:
    """Several of short calls, so that one interruption does not lead the tables; one of a long call, or of
    one with many events.
    """
    by_time = round(RECORDING_S / (call_s or RECORDING_S))
    by_events = MAX_EVENTS // events - 1 if events else MAX_CALLS  # one more starts the tracer
    return max(1, min(MAX_CALLS, by_time, by_events))


def run_nvtx_ranges(
    work: ProfiledWork,
    *,
    device: Device | None = None,
    warmup_calls: int = WARMUP_CALLS,
    before_call: Callable[[], object] = lambda: None,
) -> None:
    """Run warm calls in NVTX ranges between ``cudaProfilerStart`` and ``cudaProfilerStop``.

    For ``nsys profile --capture-range=cudaProfilerApi``. Only one subscriber of CUPTI can record a process
    (pytorch/pytorch#117935), so torch's profiler must not run at the same time.
    """
    device = device or this_device()
    calls = choose_recorded_call_count(_warm_up(work, device, warmup_calls, before_call))
    if not torch.cuda.is_initialized():
        raise skip_exception("it did not use CUDA, so there are no ranges that nsys could show")
    torch.cuda.profiler.start()
    try:
        for _ in range(calls):
            before_call()
            with nvtx_range("one call"):
                work(nvtx_range)
                device.synchronize()
    finally:
        torch.cuda.profiler.stop()


def _warm_up(
    work: ProfiledWork, device: Device, warmup_calls: int, before_call: Callable[[], object]
) -> float:
    """Run until warm, or for long enough; return the seconds of the last call."""
    began = perf_counter()
    took = 0.0
    for _ in range(warmup_calls):
        before_call()
        call = perf_counter()
        work(null_phase)
        device.synchronize()
        took = perf_counter() - call
        if perf_counter() - began > WARMUP_S:
            break
    return took


def _count_events(work: ProfiledWork, device: Device, before_call: Callable[[], object]) -> int:
    """Events of one call in torch's profiler, counted before any is read."""
    with torch.profiler.profile(activities=_activities(device)) as recorded:
        before_call()
        work(null_phase)
        device.synchronize()
    return len(recorded.profiler.kineto_results.events())


def _record_calls(work: ProfiledWork, device: Device, calls: int, before_call: Callable[[], object]) -> Any:
    """Record calls; the first starts the device's tracer, and is in the trace but not in the tables."""
    with torch.profiler.profile(activities=_activities(device)) as recorded:
        for name in (PHASE_PREFIX + "tracer start-up call", *[CALL_RANGE] * calls):
            before_call()
            with record_function(name):
                work(_mark_phase)
                if device.kind != "cpu":
                    with record_function(WAIT_RANGE):
                        device.synchronize()
    return recorded


def _activities(device: Device) -> list[ProfilerActivity]:
    return [ProfilerActivity.CPU, *([ACTIVITIES[device.kind]] if device.kind in ACTIVITIES else [])]


@contextlib.contextmanager
def _mark_phase(phase: str) -> Iterator[None]:
    with record_function(PHASE_PREFIX + phase), nvtx_range(phase):
        yield


@contextlib.contextmanager
def nvtx_range(phase: str) -> Iterator[None]:
    """A named range in Nsight's view of this process; nothing where CUDA was not started."""
    if not torch.cuda.is_initialized():
        yield
        return
    torch.cuda.nvtx.range_push(phase)
    try:
        yield
    finally:
        torch.cuda.nvtx.range_pop()


def _build_profile(events: Any, device: Device, calls: int, lines: tuple[TimeShare, ...]) -> Profile:
    tables = build_profile_tables(events)
    missing = None if tables.kernels else Absent(_missing_kernels_reason(device))
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
        kinds=tables.kinds,
        lines=lines,
    )


def _missing_kernels_reason(device: Device) -> str:
    if device.kind == "cpu":
        return f"{device.name} runs no kernels of its own"
    if device.kind not in ACTIVITIES:
        return f"torch's profiler cannot see what runs on {device.name}"
    return (
        f"no kernel was seen on {device.name}: the benchmark uses the CPU alone, or another "
        "profiler is recording"
    )
