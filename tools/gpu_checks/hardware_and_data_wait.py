"""Checks of the device itself: joules, throttling, copies, and the wait for data."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.data import HostToDevice
from benchmarks.workload_sizes import DATA, SIZES
from perfci.bench import Absent, ModelBench
from perfci.bench.devices.device_monitor import monitor_device
from perfci.bench.devices.energy_meter import joules_per_call
from perfci.bench.devices.torch_devices import this_device
from perfci.bench.metric_groups.data_wait import read_data_wait
from perfci.bench.metric_groups.training_loop import TrainingLoop
from tools.gpu_checks.check_definition import CheckGroup, CheckResult, GpuCheck, compare_figures, join_results

STALL_LIMIT = 0.05
ENERGY_LIMIT = 0.05
BUSY_S = 6.0
EDGE = 8192
ROWS, WIDTH, SAMPLES = 64, 2048, 64 * 60
EXPECTED_BANDWIDTH = 40e9
"""Bytes/s of a pinned copy that PCIe 5.0 x16 (63 GB/s) exceeds: an H200 gives about 50."""

Parameters = Mapping[str, Any]


def multiply() -> Any:
    """A bf16 product that keeps the whole device busy."""
    left = torch.randn(EDGE, EDGE, device=this_device().torch_device, dtype=torch.bfloat16)
    out = torch.empty_like(left)
    return lambda: torch.mm(left, left, out=out)


def check_joules() -> CheckResult:
    """Joules of a product by the energy counter, against mean power times its time."""
    work = multiply()
    for _ in range(50):
        work()
    joules = joules_per_call(work)
    if isinstance(joules, Absent):
        return CheckResult(f"absent: {joules.reason}", holds=False)
    watts, calls, began = [], 0, time.perf_counter()
    while time.perf_counter() - began < BUSY_S:
        for _ in range(20):
            work()
        torch.cuda.synchronize()
        calls += 20
        watts.append(torch.cuda.power_draw() / 1000)
    by_power = statistics.fmean(watts) * (time.perf_counter() - began) / calls
    return compare_figures(statistics.median(joules.samples), by_power, ENERGY_LIMIT, "J")


def check_throttling() -> CheckResult:
    """Products at full power: the cap may be noted, and is no reason to discard a process."""
    work, began = multiply(), time.perf_counter()
    with monitor_device() as conditions:
        while time.perf_counter() - began < BUSY_S:
            for _ in range(20):
                work()
            torch.cuda.synchronize()
    throttled = [flag for flag in conditions.flags if flag.startswith("throttled")]
    power = conditions.readings["power"]
    watts = f"absent: {power.reason}" if isinstance(power, Absent) else f"{max(power.samples):.0f} W"
    return CheckResult(f"up to {watts}; {'; '.join(conditions.flags) or 'no flag'}", not throttled)


def check_pinned_copy() -> CheckResult:
    """A copy from pinned memory beside a step: its bandwidth, and what of it the step does not hide."""
    measured = HostToDevice.measure_copy.__wrapped__(
        HostToDevice(), "pinned", "non_blocking", DATA.copy_bytes, SIZES.name
    )
    bandwidth = statistics.median(measured.readings["bandwidth"].samples)
    exposed = statistics.median(measured.readings["exposed_copy_time"].samples)
    copied = statistics.median(measured.readings["copy_time"].samples)
    results = [
        ("bandwidth", CheckResult(f"{bandwidth / 1e9:.1f} GB/s", bandwidth >= EXPECTED_BANDWIDTH)),
        ("exposed", CheckResult(f"{exposed / copied:.1%} of the copy", abs(exposed) <= 0.1 * copied)),
    ]
    return join_results(results)


class FedTraining(ModelBench):
    """A multi-layer perceptron whose rows come from a ``DataLoader``, pinned or moved by hand."""

    params = {"workers": [0, 4, 8], "pinned": [False, True]}
    groups = ("training",)

    def build(self, p: Parameters) -> nn.Module:
        layers = [nn.Linear(WIDTH, WIDTH) for _ in range(8)]
        return nn.Sequential(*layers).to(self.device)

    def loader(self, p: Parameters) -> Any:
        return make_loader(p)

    def loss(self, model: nn.Module, batch: list[Tensor]) -> Tensor:
        moved = batch[0].to(next(model.parameters()).device, non_blocking=True)
        return model(moved).square().mean()


def make_loader(p: Parameters) -> DataLoader[Any]:
    rows = torch.randn(SAMPLES, WIDTH)
    return DataLoader(
        TensorDataset(rows),
        ROWS,
        num_workers=p["workers"],
        pin_memory=p["pinned"],
        persistent_workers=p["workers"] > 0,
    )


def check_data_wait() -> CheckResult:
    """The share of a loop that waits for data, against the same loop over batches that lie ready."""
    results = []
    for workers, pinned in ((0, False), (0, True), (4, True), (8, True)):
        p = {"workers": workers, "pinned": pinned}
        hooks = FedTraining().bind_hooks(p)
        training = TrainingLoop(hooks)
        stall = read_data_wait(hooks, training, budget_s=2.0)["data_stall"]
        if isinstance(stall, Absent):
            return CheckResult(f"absent: {stall.reason}", holds=False)
        ours, theirs = stall.samples[0], measure_stall_by_hand(training, p)
        name = f"{workers} workers{', pinned' if pinned else ''}:"
        shown = f"{ours:.0%} against {theirs:.0%}"
        results.append((name, CheckResult(shown, abs(ours - theirs) <= STALL_LIMIT)))
    return join_results(results)


def measure_stall_by_hand(training: TrainingLoop, p: Parameters) -> float:
    """1 - the time of steps whose batches lie ready over that of steps that fetch theirs."""
    steps = SAMPLES // ROWS // 2
    fed, ready = endless(make_loader(p)), endless([next(iter(make_loader(p)))])
    seconds = []
    for batches in (ready, fed):
        for _ in range(2 * p["workers"] + 4):  # what lies ready at the start
            training.train_on_batch(next(batches))
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(steps):
            training.train_on_batch(next(batches))
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    return max(0.0, 1 - seconds[0] / seconds[1])


def endless(batches: Any) -> Iterator[Any]:
    while True:
        yield from batches


HARDWARE_CHECKS = CheckGroup(
    "hardware",
    75,
    [
        GpuCheck(
            "joules of a bf16 product",
            "within 5 %",
            "torch.cuda.power_draw, averaged, times the time",
            check_joules,
        ),
        GpuCheck(
            "throttling flags at full power",
            "none that discards a process",
            "six seconds of bf16 products",
            check_throttling,
        ),
        GpuCheck(
            "copy from pinned memory",
            "above 40 GB/s, exposed below 10 % of it",
            "PCIe 5.0 x16: about 50 GB/s, hidden behind a step",
            check_pinned_copy,
        ),
        GpuCheck(
            "data_stall with .to(device), pinned, 0, 4 and 8 workers",
            "within 5 points",
            "the same loop over a batch that lies ready",
            check_data_wait,
        ),
    ],
)
