"""Whether a measurement may be judged: what slowed the GPU meanwhile, who else used it, how fast its clock ran."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter, process_time

from perfci.bench.devices.nvml import SAMPLED, Gpu, GpuProcess, Sampled, Unreadable, open_gpu, sampling
from perfci.bench.devices.torch_devices import Device, this_device
from perfci.bench.readings import Absent, Reading, witness
from perfci.model import Metric

WITNESSES = (
    Metric("sm_clock", "hertz", "higher"),
    Metric("temperature", "celsius"),
    Metric("power", "watts"),
    Metric("busy_share", "ratio", "higher"),
    Metric("sm_active", "ratio", "higher"),
    Metric("gpu_neighbours", "count"),
)
"""What a watch reads, to be declared beside the metrics it watches over. Shown, never judged."""

POWER_CAP = 0x4
SLOWED = {
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
class Watch:
    """What is known once the watched block has ended: flags for the whole process, readings of ``WITNESSES``."""

    flags: tuple[str, ...] = ()
    readings: dict[str, Reading | Absent] = field(default_factory=dict)


@contextmanager
def watch(device: Device | None = None, interval_s: float = 0.05) -> Iterator[Watch]:
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
    seen = Watch()
    try:
        gpu = open_gpu(device.uuid)
    except Unreadable as error:
        with _busy_host(device, seen, str(error)):
            yield seen
        return
    before = _neighbours(gpu)
    with sampling(str(device.uuid), interval_s) as sampled:
        yield seen
    after = _neighbours(gpu)
    seen.flags = (*throttled(sampled, gpu), *shared(before, after))
    seen.readings = readings(sampled, before, after)


@contextmanager
def _busy_host(device: Device, seen: Watch, why_not: str) -> Iterator[None]:
    wall_s, cpu_s = perf_counter(), process_time()
    yield
    cpu_s, wall_s = process_time() - cpu_s, perf_counter() - wall_s
    seen.readings = {metric.name: Absent(why_not) for metric in WITNESSES}
    if device.kind == "cpu" and wall_s:
        seen.readings["busy_share"] = witness(cpu_s / wall_s)


def throttled(sampled: Sampled, gpu: Gpu) -> Iterator[str]:
    events = [int(sample) for sample in sampled.samples.get("clock_events", [])]
    for bit, name in SLOWED.items():
        if times := sum(bool(event & bit) for event in events):
            yield f"throttled: {name} in {times} of {len(events)} samples"
    yield from _power_capped(events, sampled.samples.get("sm_clock", []), gpu)


def _power_capped(events: Sequence[int], clocks: Sequence[float], gpu: Gpu) -> Iterator[str]:
    capped = [clock for event, clock in zip(events, clocks, strict=False) if event & POWER_CAP]
    if not capped:
        return
    try:
        highest = gpu.sm_clock_max()
    except Unreadable:
        highest = max(clocks)
    flag = "throttled: SW power cap" if min(capped) < THROTTLED_SHARE * highest else "power_capped:"
    megahertz = f"down to {min(capped) / 1e6:.0f} of {highest / 1e6:.0f} MHz"
    yield f"{flag} in {len(capped)} of {len(events)} samples, {megahertz}"


def shared(*looks: list[GpuProcess] | Absent) -> Iterator[str]:
    found = dict.fromkeys(process for look in looks if isinstance(look, list) for process in look)
    for process in found:
        yield f"shared_gpu: pid {process.pid} {process.name or '(outside this container)'}"


def readings(sampled: Sampled, *looks: list[GpuProcess] | Absent) -> dict[str, Reading | Absent]:
    seen = [look for look in looks if isinstance(look, list)]
    unseen = [look for look in looks if isinstance(look, Absent)]
    given: dict[str, Reading | Absent] = {
        name: witness(*sampled.samples[name]) if sampled.samples.get(name) else Absent(sampled.reasons[name])
        for name in (*SAMPLED, "sm_active")
        if name != "clock_events"
    }
    given["gpu_neighbours"] = unseen[0] if unseen else witness(max(map(len, seen)))
    return given


def _neighbours(gpu: Gpu) -> list[GpuProcess] | Absent:
    try:
        return strangers(gpu.processes())
    except Unreadable as error:
        return Absent(str(error))


def strangers(processes: Sequence[GpuProcess]) -> list[GpuProcess]:
    """Those that are not of our session, in which perfci starts every cell with all it starts itself.

    A container may be shown pids of the host, its own among them. So where none that is shown is ours, one that cannot
    be found here is taken for us.
    """
    sessions = {process: _session_of(process.pid) for process in processes}
    ours = [process for process, session in sessions.items() if session == os.getsid(0)]
    unknown = [process for process, session in sessions.items() if session is None]
    myself = unknown[:1] if not ours else []
    return [process for process in processes if process not in ours and process not in myself]


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None
    except PermissionError:
        return -1
