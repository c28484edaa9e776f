"""Peak memory of a function: of tensors (exact, on any device), and of the device's allocator."""

from __future__ import annotations

import gc
from collections.abc import Callable

from perfci.bench.devices.torch_devices import Device
from perfci.bench.readings import Absent, Reading, exact, skip_exception
from perfci.bench.timers.timed_blocks import gc_disabled
from perfci.model import Metric, PerfciError

ALLOCATOR_PEAKS = {
    "peak_allocated_bytes": "allocated_bytes.all.peak",
    "peak_reserved_bytes": "reserved_bytes.all.peak",
    "peak_active_bytes": "active_bytes.all.peak",
    "peak_requested_bytes": "requested_bytes.all.peak",
    "peak_inactive_split_bytes": "inactive_split_bytes.all.peak",
}
ALLOCATOR_EVENTS = ("num_alloc_retries", "num_ooms", "num_device_alloc", "num_sync_all_streams")

MEMORY_METRICS: tuple[Metric, ...] = (
    *(Metric(name, "bytes") for name in ALLOCATOR_PEAKS),
    Metric("rounding_bytes", "bytes"),
    Metric("fragmentation", "ratio"),
    *(Metric(name, "count") for name in ALLOCATOR_EVENTS),
)
"""What ``allocator_readings`` gives. Of the events none is expected: any other number than 0 is news."""


def peak_tensor_bytes(function: Callable[[], object]) -> int:
    """Count the most bytes of tensor storage that are alive at once while the function runs.

    Counted is what the function makes (activations saved for backward, gradients, optimizer state) and what
    it touches of what was there before: build inside it whatever should count for certain. A storage counts
    once, however many views it has. Not counted is scratch that a kernel frees before it returns, and what
    the allocator rounds up.

    The number repeats exactly, in this process and in another. So the cycle collector, whose moment depends
    on everything that ran before, is off meanwhile: garbage in cycles counts as alive. Skips the benchmark
    where a kernel takes much that no tensor shows, as recurrent layers do on a CPU.
    """
    peak = _track_peak(function)
    if isinstance(peak, Absent):
        raise skip_exception(peak.reason)
    return peak


def _track_peak(function: Callable[[], object]) -> int | Absent:
    from perfci.bench.memory_use.storage_tracker import StorageTracker

    with gc_disabled(), StorageTracker() as live:
        function()
    peak: int | Absent = live.peak_bytes_or_absent
    return peak


def fake_peak_bytes(function: Callable[[], object]) -> int:
    """Count what ``peak_tensor_bytes`` counts, without computing and without taking the memory.

    The function has to build everything itself, so that all its tensors are torch's fake ones, which have a
    shape and no values: GPT-2 of 124 million parameters takes seconds. Raises ``PerfciError`` where a size
    or a branch depends on a value.
    """
    from perfci.bench.memory_use.fake_tensors import fake_tensors

    with fake_tensors():
        peak = _track_peak(function)
    if isinstance(peak, Absent):
        raise PerfciError(peak.reason)
    return peak


def peak_allocated_bytes(function: Callable[[], object]) -> int:
    """Peak bytes allocated by CUDA's caching allocator on this device while the function ran.

    Where there is no CUDA the answer is "not available", which asv and perfci both show as skipped: torch
    itself would answer 0.
    """
    import torch

    if not torch.cuda.is_available():
        raise skip_exception("allocator peaks need a CUDA device, and torch sees none")
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    function()
    torch.cuda.synchronize()
    return int(torch.cuda.memory_stats()["allocated_bytes.all.peak"])


def allocator_readings(
    device: Device, function: Callable[[], object], *, warmups: int = 1
) -> dict[str, Reading | Absent]:
    """Read the peaks and events of the device's caching allocator in a call after ``warmups`` calls.

    Bytes are the peaks in the allocator's own statistics (``torch.cuda.memory_stats`` explains each):
    *allocated* is what tensors got, *requested* what they asked for (the rest is ``rounding_bytes``),
    *active* also what a stream may still use, *reserved* what the allocator took from the device, *inactive
    split* what is free in a block that is partly used. ``fragmentation`` is 1 - active/reserved at their
    peaks: what was reserved and nobody used. The peaks are those of a call that finds the allocator empty.
    Events are counted over the call after it, which finds its memory there: retries after giving cached
    memory back, allocations that failed, calls of the driver's allocation, waits for all streams.
    torchtitan logs the first two.

    Where there is no such allocator, or it keeps no peaks (MPS), the readings are absent: torch answers 0
    for CUDA memory on a machine that has none.
    """
    if device.memory_stats() is None:
        return dict.fromkeys(_METRIC_NAMES, Absent(f"{device.name} has no caching allocator to ask"))
    for _ in range(warmups):
        function()
    device.synchronize()
    gc.collect()
    device.empty_cache()
    device.reset_peak_memory()
    # Twice: the peaks of a call from an empty allocator, then the events of one that finds memory there.
    peaks = _run_and_read_stats(device, function)
    after = _run_and_read_stats(device, function)
    readings = _peak_readings(device, peaks)
    for name in ALLOCATOR_EVENTS:
        if name in after:
            readings[name] = exact(after[name] - peaks[name])
        else:
            readings[name] = Absent(f"the allocator of {device.name} keeps no {name}")
    return readings


_METRIC_NAMES = [metric.name for metric in MEMORY_METRICS]


def _run_and_read_stats(device: Device, function: Callable[[], object]) -> dict[str, int]:
    function()
    device.synchronize()
    return dict(device.memory_stats() or {})


def _peak_readings(device: Device, stats: dict[str, int]) -> dict[str, Reading | Absent]:
    """The allocator's peaks, and what follows from two of them."""
    readings: dict[str, Reading | Absent] = {}
    for name, key in ALLOCATOR_PEAKS.items():
        if key in stats:
            readings[name] = Reading((float(stats[key]),))
        else:
            readings[name] = Absent(f"the allocator of {device.name} keeps no {key}")
    allocated, reserved, active, requested, _ = (stats.get(key) for key in ALLOCATOR_PEAKS.values())
    readings["rounding_bytes"] = Absent("the allocator does not report requested bytes")
    if allocated is not None and requested is not None:
        readings["rounding_bytes"] = Reading((float(allocated - requested),))
    readings["fragmentation"] = Absent("the allocator reserved nothing, or does not report how much")
    if active is not None and reserved:
        readings["fragmentation"] = Reading((1 - active / reserved,))
    return readings
