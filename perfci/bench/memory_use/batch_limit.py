"""Largest batch that fits a device's memory: running out of it is a result here, not a failure."""

from __future__ import annotations

from collections.abc import Callable

from perfci.bench.devices.torch_devices import Device
from perfci.bench.memory_use.peak_memory import fake_peak_bytes
from perfci.bench.readings import Absent

CPU_OOM_MESSAGE = "can't allocate memory"  # of torch's CPU allocator, which raises a plain RuntimeError


def find_largest_batch(
    make_step: Callable[[int], Callable[[], object]],
    device: Device,
    *,
    start: int = 1,
    limit: int = 4096,
    budget_bytes: int | None = None,
) -> int | Absent:
    """Find the largest batch whose step fits, by doubling and then bisecting; 0 where none fits.

    ``make_step(batch)`` builds everything and returns the step. It is tried on the device until memory runs
    out, or, with a budget, held against it by ``fake_peak_bytes``, which computes nothing and so predicts
    for a device that is not present. A CPU swaps and is then killed instead of running out, so without a
    budget the answer is absent there. The answer ``limit`` means that it fits and perhaps more would.
    """
    if budget_bytes is None and device.memory_stats() is None:
        return Absent(
            f"{device.name} does not raise an out-of-memory error reliably; pass budget_bytes to "
            "predict from a budget"
        )

    def holds(batch: int) -> bool:
        if budget_bytes is not None:
            return fake_peak_bytes(lambda: make_step(batch)()) <= budget_bytes
        return runs_without_oom(lambda: make_step(batch)(), device)

    return _bisect_largest(holds, start, limit)


def runs_without_oom(function: Callable[[], object], device: Device) -> bool:
    """Whether the function ends without running out of memory; the allocator's cache is emptied after it."""
    try:
        function()
        device.synchronize()
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        return False
    finally:
        device.empty_cache()
    return True


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory ran out, on the device or on the host."""
    import torch

    return isinstance(error, MemoryError | torch.OutOfMemoryError) or CPU_OOM_MESSAGE in str(error)


def _bisect_largest(fits: Callable[[int], bool], start: int, limit: int) -> int:
    """Double, then bisect. What fits at one size is assumed to fit at every smaller one."""
    largest_fit, candidate = 0, min(start, limit)
    while fits(candidate):
        if candidate == limit:
            return limit
        largest_fit, candidate = candidate, min(2 * candidate, limit)
    while candidate - largest_fit > 1:
        middle = (largest_fit + candidate) // 2
        if fits(middle):
            largest_fit = middle
        else:
            candidate = middle
    return largest_fit
