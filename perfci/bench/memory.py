"""Peak memory of a function: in tensors, exactly, on any device, or in what CUDA's allocator handed out."""

from __future__ import annotations

import gc
from collections.abc import Callable


def peak_tensor_bytes(function: Callable[[], object]) -> int:
    """Count the most bytes of tensor storage that are alive at once while the function runs.

    Counted is what the function makes (activations saved for backward, gradients, optimizer state) and what it
    touches of what was there before: build inside it whatever should count for certain. A storage counts once, however
    many views it has. Not counted is scratch that a kernel frees before it returns, and what the allocator rounds up.

    The number repeats exactly, in this process and in another. So the cycle collector, whose moment depends on
    everything that ran before, is off meanwhile: garbage in cycles counts as alive.
    """
    from perfci.bench.storages import LiveStorages

    collected = gc.isenabled()
    gc.disable()
    try:
        with LiveStorages() as live:
            function()
    finally:
        if collected:
            gc.enable()
    return int(live.peak_bytes)


def peak_allocated_bytes(function: Callable[[], object]) -> int:
    """Ask CUDA's caching allocator for the most bytes it had handed out on this device while the function ran.

    Where there is no CUDA the answer is "not available", which asv and perfci both show as skipped: torch itself would
    answer 0.
    """
    import torch

    if not torch.cuda.is_available():
        from asv_runner.benchmarks.mark import SkipNotImplemented  # a NotImplementedError that asv also skips mid-run

        raise SkipNotImplemented("allocator peaks need a CUDA device, and torch sees none")
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    function()
    torch.cuda.synchronize()
    return int(torch.cuda.memory_stats()["allocated_bytes.all.peak"])
