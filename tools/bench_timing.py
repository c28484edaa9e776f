"""Hold our clocks against independent ones: torch's own timers on the same step, and the cost of our loop
itself.

Run as part of ``make bench``. Both timers take turns in blocks inside one process, ABBA, so that a machine
that changes its mood does so to both.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn
from torch.utils import benchmark

from perfci.bench.devices.torch_devices import Device, this_device
from perfci.bench.timers.timed_blocks import time_blocks
from tools.print_bench_figures import Figure, print_figures_and_exit

BLOCKS = 800
"""Of either timer: so many short ones see through a busier machine than fewer long ones."""

BLOCK_S = 0.03
WARMUP_S = 0.05
"""Before each block of ours: enough to fill the caches again after time_blocks has walked the heap once."""

AGREED = 0.01
TRIES = 3
NOOP_LIMIT_US = 20.0


@dataclass(frozen=True)
class Agreement:
    """The ratio of our figure to the other timer's, with its 95 % interval."""

    ratio: float
    lo: float
    hi: float

    def __str__(self) -> str:
        return f"{self.ratio:.4f} [{self.lo:.4f}, {self.hi:.4f}]"

    @property
    def shown(self) -> bool:
        return self.lo >= 1 - AGREED and self.hi <= 1 + AGREED

    @property
    def refuted(self) -> bool:
        return self.hi < 1 - AGREED or self.lo > 1 + AGREED


def compare_step_time(blocks: int, block_s: float) -> Iterator[Figure]:
    """Our figure of one training step against torch.utils.benchmark's, or Triton's where there is a GPU."""
    device = this_device()
    step = build_training_step(device)
    step_s = statistics.median(time_blocks(step, device=device, warmup_s=5.0).reading().samples)
    number = max(1, math.ceil(block_s / step_s))
    for name, ours, theirs in build_timer_pairs(step, device, number):
        yield compare_timers(
            f"step_time against {name}", ours, theirs, f"{blocks} blocks of {number} steps", blocks // 2
        )


def build_training_step(device: Device) -> Callable[[], None]:
    """A small transformer layer's forward, loss, backward and AdamW."""
    torch.manual_seed(0)
    small = device.kind == "cpu"
    width, length, batch = (64, 64, 8) if small else (1024, 1024, 16)
    layer = nn.TransformerEncoderLayer(
        width, nhead=4, dim_feedforward=4 * width, dropout=0.0, batch_first=True
    )
    model = layer.to(device.torch_device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    inputs = torch.randn(batch, length, width, device=device.torch_device)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(inputs).square().mean().backward()
        optimizer.step()

    return step


Timer = Callable[[], float]


def build_timer_pairs(
    step: Callable[[], None], device: Device, number: int
) -> Iterator[tuple[str, Timer, Timer]]:
    """Pairs of a timer of ours and one that others wrote, in seconds per step: like with like."""

    def ours(clock: str) -> float:
        timing = time_blocks(
            step, device=device, number=number, warmup_s=WARMUP_S, min_blocks=1, max_blocks=1
        )
        return float(getattr(timing, clock)[0])

    def time_by_torch(timer: benchmark.Timer) -> float:
        return float(timer.timeit(number).raw_times[0]) / number

    if device.kind == "cuda":
        from triton.testing import do_bench

        seconds = number * time_blocks(step, device=device, number=number, max_blocks=1).device[0]
        yield (
            "do_bench",
            lambda: ours("device"),
            lambda: do_bench(step, 1, 1000 * seconds, return_mode="mean") / 1000,
        )
    for clock, timer in (("wall", None), ("cpu", time.process_time)):
        about = {"stmt": "step()", "globals": {"step": step}, "num_threads": torch.get_num_threads()}
        written = benchmark.Timer(**about, **({"timer": timer} if timer else {}))
        yield (
            f"torch.utils.benchmark, {clock}",
            partial(ours, clock),
            partial(time_by_torch, written),
        )


def compare_timers(name: str, ours: Timer, theirs: Timer, what: str, quads: int) -> Figure:
    """Take turns until the interval of the ratio lies within the limit, or outside of it; three times at
    most.

    Where it does neither, the other timer is compared with itself: that is what the machine can show at
    present.
    """
    for attempt in range(1, TRIES + 1):
        result = estimate_agreement([abba_log_ratio(ours, theirs) for _ in range(quads)])
        if result.shown or result.refuted:
            text = f"{result}, {what}, try {attempt}"
            return Figure(name, text, f"1 +- {AGREED:g}", result.shown)
        print(f"  inconclusive, try {attempt} of {TRIES}: {result}", flush=True)
    itself = estimate_agreement([abba_log_ratio(theirs, theirs) for _ in range(quads)])
    return Figure(name, f"{result}, {what}; theirs against itself: {itself}", f"1 +- {AGREED:g}", None)


def abba_log_ratio(ours: Timer, theirs: Timer) -> float:
    """The log ratio of one ABBA: what drifts linearly cancels."""
    first, second, third, fourth = ours(), theirs(), theirs(), ours()
    return math.log(first * fourth / (second * third)) / 2


def estimate_agreement(logs: list[float]) -> Agreement:
    """The Hodges-Lehmann estimate with the interval that belongs to Wilcoxon's signed ranks (normal
    approximation).
    """
    count = len(logs)
    walsh = sorted((item + other) / 2 for at, item in enumerate(logs) for other in logs[at:])
    spread = 1.96 * math.sqrt(count * (count + 1) * (2 * count + 1) / 24)
    rank = max(0, math.floor(count * (count + 1) / 4 - spread))
    return Agreement(*map(math.exp, (statistics.median(walsh), walsh[rank], walsh[-1 - rank])))


def do_nothing() -> None:
    return


def measure_loop_overhead() -> Iterator[Figure]:
    """What our loop adds to a call that does nothing: inside a block, and with all that a block of one call
    costs.
    """
    inside_us = 1e6 * statistics.median(time_blocks(do_nothing).wall)
    alone_us = 1e6 * statistics.median((time_empty_blocks(50) - time_empty_blocks(1)) / 49 for _ in range(20))
    for name, us in (("in a block", inside_us), ("in a block of its own", alone_us)):
        yield Figure(
            f"a no-op iteration {name}", f"{us:.3f} us", f"{NOOP_LIMIT_US:g} us", us <= NOOP_LIMIT_US
        )


def time_empty_blocks(count: int) -> float:
    """How long it takes to ask for so many blocks of one call; no evidence meets a target below zero."""
    begin = time.perf_counter()
    taken = time_blocks(do_nothing, number=1, max_blocks=count, warmup_s=0, target_half_width=-1)
    assert len(taken.wall) == count
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--blocks", type=int, default=BLOCKS, help="of either timer; more see through a busier machine"
    )
    parser.add_argument("--block-s", type=float, default=BLOCK_S, help="how long one lasts, in seconds")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()  # as the parent of every cell does
    print_figures_and_exit(
        itertools.chain(measure_loop_overhead(), compare_step_time(chosen.blocks, chosen.block_s))
    )


if __name__ == "__main__":
    main()
