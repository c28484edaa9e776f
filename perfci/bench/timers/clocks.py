"""Clocks for the ``timer`` of an asv benchmark and for samples a benchmark takes itself."""

from __future__ import annotations

import sys
import time


def wall_clock() -> float:
    """Read wall time once the accelerator has finished what was queued.

    A launch returns before its kernel ends: a clock that does not wait measures launches. Nothing can be
    queued before CUDA (ROCm, XPU) is initialised, so this clock never initialises it: a process that reads
    it may still fork.
    """
    torch = sys.modules.get("torch")
    if torch is not None:
        for backend in (torch.cuda, torch.xpu):
            if backend.is_initialized():
                backend.synchronize()
        if torch.backends.mps.is_available():
            torch.mps.synchronize()
    return time.perf_counter()


def cpu_clock() -> float:
    """Read the CPU seconds of all threads of this process: time that a neighbour used is not in it."""
    return time.process_time()
