"""Whether a measurement may be judged: what slowed the GPU meanwhile, who else used it, how fast its clock ran."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter, process_time

from perfci.bench.devices.nvml import (
    SAMPLED_QUERIES,
    Gpu,
    GpuProcess,
    GpuSamples,
    NvmlUnavailable,
    open_gpu,
    sample_gpu,
)
from perfci.bench.devices.torch_devices import Device, this_device
from perfci.bench.readings import Absent, Reading, informational
from perfci.model import Metric

CONDITION_METRICS = (
    Metric("sm_clock", "hertz", "higher"),
    Metric("temperature", "celsius"),
    Metric("power", "watts"),
    Metric("busy_share", "ratio", "higher"),
    Metric("sm_active", "ratio", "higher"),
    Metric("gpu_neighbours", "count"),
)
"""What a watch reads, to be declared beside the metrics it watches over. Shown, never judged."""

POWER_CAP = 0x4
THROTTLE_REASONS = {
    0x8: "HW slowdown",
    0x10: "sync boost",
    0x20: "SW thermal slowdown",
    0x40: "HW thermal slowdown",
    0x80: "HW power brake",
}
"""The bits of ``nvmlClocksEventReasons`` after which a time says more about cooling and supply than about code."""

THROTTLED_SHARE = 0.75
"""A GPU held back by its power cap is throttled below this share of its highest clock: nvbench's own limit."""


@dataclass(slots=True)
class DeviceConditions:
    """What is known once the watched block has ended: flags for the whole process, readings of ``WITNESSES``."""

    flags: tuple[str, ...] = ()
    readings: dict[str, Reading | Absent] = field(default_factory=dict)


@contextmanager
def monitor_device(device: Device | None = None, interval_s: float = 0.05) -> Iterator[DeviceConditions]:
    """Watch over what is measured inside, from a process beside; times taken inside are not touched.

    Flags that begin with ``throttled`` or ``shared_gpu`` keep a process from being judged. Its samples are kept.

    - ``throttled: HW thermal slowdown in 3 of 40 samples``: any reason of ``SLOWED``, or the power cap where it brought
      the clock below 75 % of the highest (nvbench's threshold). Above that the cap is how a busy GPU runs, on both
      sides of a comparison, and is only told: ``power_capped: ...``.
    - ``shared_gpu: pid 4711 python``: another process held a compute context before or after.

    Readings are samples at ``interval_s`` of the SM clock (hertz), temperature (degrees Celsius) and board power
    (watts), the share of time any kernel ran, the share of multiprocessors that were busy, and the number of other
    compute processes. Without NVML each is absent with the reason; the busy share of a CPU is that of its one thread.
    """
    device = device or this_device()
    seen = DeviceConditions()
    try:
        gpu = open_gpu(device.uuid)
    except NvmlUnavailable as error:
        with _monitor_host(device, seen, str(error)):
            yield seen
        return
    before = _other_processes(gpu)
    with sample_gpu(str(device.uuid), interval_s) as sampled:
        yield seen
    after = _other_processes(gpu)
    seen.flags = (*throttle_flags(sampled, gpu), *shared_gpu_flags(before, after))
    seen.readings = condition_readings(sampled, before, after)


@contextmanager
def _monitor_host(device: Device, conditions: DeviceConditions, missing_reason: str) -> Iterator[None]:
    wall_s, cpu_s = perf_counter(), process_time()
    yield
    cpu_s, wall_s = process_time() - cpu_s, perf_counter() - wall_s
    conditions.readings = {metric.name: Absent(missing_reason) for metric in CONDITION_METRICS}
    if device.kind == "cpu" and wall_s:
        conditions.readings["busy_share"] = informational(cpu_s / wall_s)


def throttle_flags(sampled: GpuSamples, gpu: Gpu) -> Iterator[str]:
    events = [int(sample) for sample in sampled.samples.get("clock_events", [])]
    for bit, name in THROTTLE_REASONS.items():
        if times := sum(bool(event & bit) for event in events):
            yield f"throttled: {name} in {times} of {len(events)} samples"
    yield from _power_cap_flags(events, sampled.samples.get("sm_clock", []), gpu)


def _power_cap_flags(events: Sequence[int], clocks: Sequence[float], gpu: Gpu) -> Iterator[str]:
    capped = [clock for event, clock in zip(events, clocks, strict=False) if event & POWER_CAP]
    if not capped:
        return
    try:
        highest = gpu.sm_clock_max()
    except NvmlUnavailable:
        highest = max(clocks)
    flag = "throttled: SW power cap" if min(capped) < THROTTLED_SHARE * highest else "power_capped:"
    megahertz = f"down to {min(capped) / 1e6:.0f} of {highest / 1e6:.0f} MHz"
    yield f"{flag} in {len(capped)} of {len(events)} samples, {megahertz}"


def shared_gpu_flags(*observations: list[GpuProcess] | Absent) -> Iterator[str]:
    found = dict.fromkeys(process for look in observations if isinstance(look, list) for process in look)
    for process in found:
        yield f"shared_gpu: pid {process.pid} {process.name or '(outside this container)'}"


def condition_readings(
    sampled: GpuSamples, *observations: list[GpuProcess] | Absent
) -> dict[str, Reading | Absent]:
    seen = [look for look in observations if isinstance(look, list)]
    unseen = [look for look in observations if isinstance(look, Absent)]
    given: dict[str, Reading | Absent] = {
        name: informational(*sampled.samples[name])
        if sampled.samples.get(name)
        else Absent(sampled.missing_reasons[name])
        for name in (*SAMPLED_QUERIES, "sm_active")
        if name != "clock_events"
    }
    given["gpu_neighbours"] = unseen[0] if unseen else informational(max(map(len, seen)))
    return given


def _other_processes(gpu: Gpu) -> list[GpuProcess] | Absent:
    try:
        return exclude_own_processes(gpu.processes())
    except NvmlUnavailable as error:
        return Absent(str(error))


def exclude_own_processes(processes: Sequence[GpuProcess]) -> list[GpuProcess]:
    """Those that are not of our session, in which perfci starts every cell with all it starts itself.

    A container may be shown pids of the host, its own among them. So where none that is shown is ours, one that cannot
    be found here is taken for us.
    """
    sessions = {process: _session_id(process.pid) for process in processes}
    ours = [process for process, session in sessions.items() if session == os.getsid(0)]
    unknown = [process for process, session in sessions.items() if session is None]
    myself = unknown[:1] if not ours else []
    return [process for process in processes if process not in ours and process not in myself]


def _session_id(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None
    except PermissionError:
        return -1
