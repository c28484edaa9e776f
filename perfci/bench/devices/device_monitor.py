"""Conditions of a measurement: GPU throttling, other processes on the GPU, clock, temperature and power."""

from __future__ import annotations

import os
import statistics
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
    sample_gpu_during_block,
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
"""Readings of ``monitor_device``, to be declared beside the metrics it monitors. Shown, never judged."""

# https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html
IDLE, POWER_CAP = 0x1, 0x4
THROTTLE_REASONS = {
    0x8: "HW slowdown",
    0x10: "sync boost",
    0x20: "SW thermal slowdown",
    0x40: "HW thermal slowdown",
    0x80: "HW power brake",
}
"""Bits of ``nvmlClocksEventReasons`` under which a time depends on cooling and supply more than on code."""

THROTTLED_SHARE = 0.75
"""Share of the highest clock below which the mean clock of a power-capped GPU counts as throttled (nvbench's
limit, of a mean too): single samples fall below it in every run at full power.
"""


@dataclass(slots=True)
class DeviceConditions:
    """Flags of the process and readings of ``CONDITION_METRICS``, set when the monitored block ends."""

    flags: tuple[str, ...] = ()
    readings: dict[str, Reading | Absent] = field(default_factory=dict)


@contextmanager
def monitor_device(device: Device | None = None, interval_s: float = 0.05) -> Iterator[DeviceConditions]:
    """Monitor the device from a process beside while the block runs; times taken inside are not disturbed.

    Flags that begin with ``throttled`` or ``shared_gpu`` keep a process from being judged. Its samples are
    kept.

    - ``throttled: HW thermal slowdown in 3 of 40 samples``: any of ``THROTTLE_REASONS``, or the power cap
      where it brought the mean clock below 75 % of the highest (nvbench's threshold). Above that the cap is
      how a busy GPU runs, on both sides of a comparison, and is only noted: ``power_capped: ...``.
    - ``shared_gpu: pid 4711 python``: another process held a compute context before or after.

    Readings are samples at ``interval_s`` of the SM clock (hertz), temperature (degrees Celsius) and board
    power (watts), the share of time any kernel ran, the share of multiprocessors that were busy, and the
    number of other compute processes. Without NVML each is absent with the reason; the busy share of a CPU
    is that of its one thread.
    """
    device = device or this_device()
    conditions = DeviceConditions()
    try:
        gpu = open_gpu(device.uuid)
    except NvmlUnavailable as error:
        with _monitor_host(device, conditions, str(error)):
            yield conditions
        return
    before = _other_processes(gpu)
    with sample_gpu_during_block(str(device.uuid), interval_s) as sampled:
        yield conditions
    after = _other_processes(gpu)
    conditions.flags = (*throttle_flags(sampled, gpu), *shared_gpu_flags(before, after))
    conditions.readings = condition_readings(sampled, before, after)


@contextmanager
def _monitor_host(device: Device, conditions: DeviceConditions, missing_reason: str) -> Iterator[None]:
    wall_s, cpu_s = perf_counter(), process_time()
    yield
    cpu_s, wall_s = process_time() - cpu_s, perf_counter() - wall_s
    conditions.readings = {metric.name: Absent(missing_reason) for metric in CONDITION_METRICS}
    if device.kind == "cpu" and wall_s:
        conditions.readings["busy_share"] = informational(cpu_s / wall_s)


def throttle_flags(sampled: GpuSamples, gpu: Gpu) -> Iterator[str]:
    """Yield a flag for each throttle reason among the samples."""
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
    # An idle GPU lowers its clock by itself, before the first kernel and in pauses.
    working = [clock for event, clock in zip(events, clocks, strict=False) if not event & IDLE]
    mean = statistics.fmean(working or clocks)
    flag = "throttled: SW power cap" if mean < THROTTLED_SHARE * highest else "power_capped:"
    megahertz = f"mean {mean / 1e6:.0f}, least {min(capped) / 1e6:.0f} of {highest / 1e6:.0f} MHz"
    yield f"{flag} in {len(capped)} of {len(events)} samples, {megahertz}"


def shared_gpu_flags(*observations: list[GpuProcess] | Absent) -> Iterator[str]:
    """Yield a flag for each process of others in any of the listings."""
    listings = [listing for listing in observations if isinstance(listing, list)]
    for process in dict.fromkeys(process for listing in listings for process in listing):
        yield f"shared_gpu: pid {process.pid} {process.name or '(outside this container)'}"


def condition_readings(
    sampled: GpuSamples, *observations: list[GpuProcess] | Absent
) -> dict[str, Reading | Absent]:
    """Readings of ``CONDITION_METRICS`` from the samples and from the process lists before and after."""
    readings: dict[str, Reading | Absent] = {}
    for name in (*SAMPLED_QUERIES, "sm_active"):
        if name == "clock_events":  # these become flags
            continue
        if sampled.samples.get(name):
            readings[name] = informational(*sampled.samples[name])
        else:
            readings[name] = Absent(sampled.missing_reasons[name])
    unlisted = [listing for listing in observations if isinstance(listing, Absent)]
    listed = [listing for listing in observations if isinstance(listing, list)]
    readings["gpu_neighbours"] = unlisted[0] if unlisted else informational(max(map(len, listed)))
    return readings


def _other_processes(gpu: Gpu) -> list[GpuProcess] | Absent:
    try:
        return exclude_own_processes(gpu.processes())
    except NvmlUnavailable as error:
        return Absent(str(error))


def exclude_own_processes(processes: Sequence[GpuProcess]) -> list[GpuProcess]:
    """Drop the processes of our session: perfci starts every cell in a session of its own.

    NVML may list pids of the host inside a container, this process among them. So where none of the listed
    ones is ours, one that does not exist here is taken for this process.
    """
    sessions = {process: _session_id(process.pid) for process in processes}
    own = [process for process, session in sessions.items() if session == os.getsid(0)]
    if not own:
        own = [process for process, session in sessions.items() if session is None][:1]
    return [process for process in processes if process not in own]


def _session_id(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None
    except PermissionError:  # it exists, and is somebody else's
        return -1
