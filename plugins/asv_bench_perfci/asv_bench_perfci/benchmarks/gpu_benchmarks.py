"""``gpu_*``: seconds per call by device events. ``gpumem_*``: the most bytes the allocator had handed out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from asv_runner.benchmarks.mark import SkipNotImplemented

from asv_bench_perfci.benchmark_base import PerfciBenchmark, bind_parameters, print_message

NO_ACCELERATOR = "torch sees no accelerator here"


class GpuBenchmark(PerfciBenchmark):
    """Skipped without an accelerator."""

    def skip_reason(self) -> str:
        from perfci.bench.devices.torch_devices import this_device

        return NO_ACCELERATOR if this_device().kind == "cpu" else ""


class GpuTimeBenchmark(GpuBenchmark):
    """Time blocks of calls between two device events, with one synchronise per block.

    asv's ``number``, ``repeat`` and ``warmup_time`` mean what they mean for ``time_*``, but a block holds
    several calls even where there is a ``setup``: that runs once per process. A ``prepare`` method runs
    untimed before each block. ``on_cpu = True`` times the function with the host's clock where there is no
    accelerator, instead of skipping it.
    """

    name_regex = re.compile(r"^gpu_(?!mem_).+$")
    type = "gputime"
    clock = "device"

    def skip_reason(self) -> str:
        if self.attribute("on_cpu", False):
            return ""
        why = super().skip_reason()
        return f"{why}, and the benchmark does not set on_cpu = True" if why else ""

    def run(self, *params: Any) -> dict[str, Any]:
        from perfci.bench.timers.timed_blocks import time_blocks

        least, most, seconds = self.repeat_limits(7, 50, 2.0)
        warmup_s = float(self.attribute("warmup_time", -1))
        prepare = self.attribute("prepare", None)
        timing = time_blocks(
            bind_parameters(self.func, params),
            prepare=bind_parameters(prepare, params) if prepare else None,
            number=int(self.attribute("number", 0)) or None,
            min_blocks=least,
            max_blocks=most,
            warmup_s=0.5 if warmup_s < 0 else warmup_s,
            budget_s=seconds,
        )
        for flag in timing.flags:
            print_message(self, flag)
        self._declaration.clock = "device" if timing.device else "wall"
        return {"samples": list(timing.device or timing.wall), "number": timing.number}


class GpuMemoryBenchmark(GpuBenchmark):
    """Peak bytes allocated on the accelerator while the function runs, after one call that is not counted.

    That call lets library handles and workspaces be allocated by whoever comes first. ``repeat`` is the
    number of calls that are counted; they are expected to agree.
    """

    name_regex = re.compile(r"^gpu_?mem_.+$")
    type = "gpumemory"
    unit = "bytes"
    rounds = 1
    metric = "peak_allocated_bytes"
    clock = "value"

    def run(self, *params: Any) -> dict[str, Any]:
        least, _, _ = self.repeat_limits(3, 3, 0.0)
        function = bind_parameters(self.func, params)
        return {
            "samples": [measure_peak_bytes(function, warmups=int(call == 0)) for call in range(least)],
            "number": 1,
        }


def measure_peak_bytes(function: Callable[[], object], *, warmups: int) -> float:
    """Peak bytes of one call; the benchmark is skipped where the allocator does not report them."""
    from perfci.bench.devices.torch_devices import this_device
    from perfci.bench.memory_use.peak_memory import allocator_readings
    from perfci.bench.readings import Absent

    reading = allocator_readings(this_device(), function, warmups=warmups)["peak_allocated_bytes"]
    if isinstance(reading, Absent):
        raise SkipNotImplemented(reading.reason)
    return reading.samples[0]


export_as_benchmark = [GpuTimeBenchmark, GpuMemoryBenchmark]
