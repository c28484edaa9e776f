"""Joules per call, from the counter that an NVIDIA GPU keeps of its own energy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat
from time import perf_counter

from perfci.bench.devices.nvml import Gpu, Unreadable, open_gpu
from perfci.bench.devices.torch_devices import Device, this_device
from perfci.bench.readings import Absent, Reading
from perfci.model import Clock

BUNDLE_S = 0.005
"""How long the device works between two looks at the counter."""

STUCK_S = 2.0
"""A counter that has not moved for so long, while the device worked, does not count."""


def joules_per_call(
    function: Callable[[], object], *, device: Device | None = None, windows: int = 3, window_s: float = 2.0
) -> Reading | Absent:
    """Measure the joules the whole board spends per call: one sample per window, judged like a time.

    NVML's counter (``nvmlDeviceGetTotalEnergyConsumption``, millijoules, Volta or newer) moves only every 20 to 100 ms.
    A window that begins and ends anywhere would be wrong by as much, and a short one reads 0. So the device is kept
    busy, and a window runs from one move of the counter to another, at least ``window_s`` seconds later: what is left
    is the time between two looks, 5 ms or one call, if that is longer. Warm the function up before. What an idle board
    draws is in the figure, as it is in the bill.

    Absent, with the reason, without NVML, on older GPUs, and where the counter stands still.
    """
    device = device or this_device()
    try:
        meter = Meter(open_gpu(device.uuid), function, device, bundle_of(function, device))
        meter.to_next_move()
        taken = [meter.window(window_s) for _ in range(windows)]
    except Unreadable as error:
        return Absent(str(error))
    return Reading([joules / calls for joules, calls in taken], Clock.VALUE, min(calls for _, calls in taken))


def bundle_of(function: Callable[[], object], device: Device) -> int:
    """How many calls fill the time between two looks."""
    device.synchronize()
    begin = perf_counter()
    function()
    device.synchronize()
    return max(1, math.ceil(BUNDLE_S / max(perf_counter() - begin, 1e-9)))


@dataclass(slots=True)
class Meter:
    """A counter and the work that is done between two looks at it."""

    gpu: Gpu
    function: Callable[[], object]
    device: Device
    bundle: int

    def window(self, window_s: float) -> tuple[float, int]:
        """Joules and calls between two moves of the counter."""
        joules, calls, until = self.gpu.energy(), 0, perf_counter() + window_s
        while perf_counter() < until:
            calls += self.work()
        calls += self.to_next_move()
        return self.gpu.energy() - joules, calls

    def to_next_move(self) -> int:
        """Work until the counter moves, and count the calls."""
        joules, calls, until = self.gpu.energy(), 0, perf_counter() + STUCK_S
        while self.gpu.energy() == joules:
            if perf_counter() >= until:
                raise Unreadable(f"the GPU's energy counter did not move in {STUCK_S:g} s of work")
            calls += self.work()
        return calls

    def work(self) -> int:
        for _ in repeat(None, self.bundle):
            self.function()
        self.device.synchronize()
        return self.bundle
