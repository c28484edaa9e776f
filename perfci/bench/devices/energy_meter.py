"""Measure joules per call by the counter that an NVIDIA GPU keeps of its own energy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat
from time import perf_counter

from perfci.bench.devices.nvml import Gpu, NvmlUnavailable, open_gpu
from perfci.bench.devices.torch_devices import Device, this_device
from perfci.bench.readings import Absent, Reading
from perfci.model import Clock

BATCH_S = 0.005
"""How long the device works between two looks at the counter."""

COUNTER_TIMEOUT_S = 2.0
"""A counter that has not moved for so long, while the device worked, does not count."""


def joules_per_call(
    function: Callable[[], object],
    *,
    device: Device | None = None,
    window_count: int = 3,
    window_s: float = 2.0,
) -> Reading | Absent:
    """Measure the joules the whole board spends per call: one sample per window, judged like a time.

    NVML's counter (``nvmlDeviceGetTotalEnergyConsumption``, millijoules, Volta or newer) moves only every
    20 to 100 ms. A window that begins and ends anywhere would be wrong by as much, and a short one reads 0.
    So the device is kept busy, and a window runs from one move of the counter to another, at least
    ``window_s`` seconds later: what is left is the time between two looks, 5 ms or one call, if that is
    longer. Warm the function up before. What an idle board draws is in the figure, as it is in the bill.

    Absent, with the reason, without NVML, on older GPUs, and where the counter stands still.
    """
    device = device or this_device()
    try:
        meter = EnergyMeter(open_gpu(device.uuid), function, device, choose_calls_per_batch(function, device))
        meter.run_until_counter_moves()
        taken = [meter.measure_window(window_s) for _ in range(window_count)]
    except NvmlUnavailable as error:
        return Absent(str(error))
    return Reading([joules / calls for joules, calls in taken], Clock.VALUE, min(calls for _, calls in taken))


def choose_calls_per_batch(function: Callable[[], object], device: Device) -> int:
    """How many calls fill the time between two looks."""
    device.synchronize()
    begin = perf_counter()
    function()
    device.synchronize()
    return max(1, math.ceil(BATCH_S / max(perf_counter() - begin, 1e-9)))


@dataclass(slots=True)
class EnergyMeter:
    """A counter and the work that is done between two looks at it."""

    gpu: Gpu
    function: Callable[[], object]
    device: Device
    batch_calls: int

    def measure_window(self, window_s: float) -> tuple[float, int]:
        """Joules and calls between two moves of the counter."""
        joules, calls, until = self.gpu.total_energy(), 0, perf_counter() + window_s
        while perf_counter() < until:
            calls += self.run_batch()
        calls += self.run_until_counter_moves()
        return self.gpu.total_energy() - joules, calls

    def run_until_counter_moves(self) -> int:
        """Work until the counter moves, and count the calls."""
        joules, calls, until = self.gpu.total_energy(), 0, perf_counter() + COUNTER_TIMEOUT_S
        while self.gpu.total_energy() == joules:
            if perf_counter() >= until:
                raise NvmlUnavailable(
                    f"the GPU's energy counter did not move in {COUNTER_TIMEOUT_S:g} s of work"
                )
            calls += self.run_batch()
        return calls

    def run_batch(self) -> int:
        for _ in repeat(None, self.batch_calls):
            self.function()
        self.device.synchronize()
        return self.batch_calls
