"""Largest batch that fits a device's memory: running out of it is a result here, not a failure."""

from __future__ import annotations

import gc
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
    budget the answer is absent there. It is absent, too, where ``limit`` fits: that is no largest batch.
    """
    if budget_bytes is None and device.memory_stats() is None:
        return Absent(
            f"{device.name} does not raise an out-of-memory error reliably; pass budget_bytes to "
            "predict from a budget"
        )

    if budget_bytes is not None:
        largest = _interpolate_largest(
            lambda batch: fake_peak_bytes(lambda: make_step(batch)()), budget_bytes, start, limit
        )
    else:
        largest = _bisect_largest(
            lambda batch: runs_without_oom(lambda: make_step(batch)(), device), start, limit
        )
    if largest == limit:
        return Absent(f"a batch of {limit} fits, and no larger one was tried: raise the limit")
    return largest


def runs_without_oom(function: Callable[[], object], device: Device) -> bool:
    """Whether the function ends without running out of memory; everything it made is freed after it.

    What it made lies in cycles often enough to matter: a hook refers to its model, and the frame of the first
    step of a fused optimizer to every weight, gradient and moment. Left to the collector, the models of
    earlier tries would leave less memory for the next.
    """
    fits = _ends_without_oom(function, device)
    gc.collect()
    device.empty_cache()
    return fits


def _ends_without_oom(function: Callable[[], object], device: Device) -> bool:
    try:
        function()
        device.synchronize()
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        return False
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


def _interpolate_largest(peak_of: Callable[[int], int], budget: int, start: int, limit: int) -> int:
    """Find the largest batch whose peak is within the budget by the line through the last two that fitted.

    Peaks are close to linear in the batch, so few are computed: each takes a whole step on fake tensors. A
    batch that does not fit bounds the search, which ends when the next larger one is known not to fit.
    """
    largest_fit, smallest_misfit = 0, limit + 1
    candidate, peaks = min(start, limit), {0: 0}
    while smallest_misfit - largest_fit > 1:
        peaks[candidate] = peak_of(candidate)
        if peaks[candidate] > budget:
            smallest_misfit = candidate
        else:
            largest_fit = candidate
        lower, upper = sorted(peaks)[-2:]
        bytes_per_sample = max(1, (peaks[upper] - peaks[lower]) // (upper - lower))
        guess = upper + (budget - peaks[upper]) // bytes_per_sample
        candidate = min(max(guess, largest_fit + 1), smallest_misfit - 1)
    return largest_fit
