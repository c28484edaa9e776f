"""Time a function: by clocks that wait for the accelerator, in blocks that are stopped by evidence."""

from __future__ import annotations

import functools
import gc
import math
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import repeat
from time import perf_counter, process_time
from typing import Any

from perfci.bench.devices.torch_devices import Device, DeviceEvent, this_device
from perfci.bench.readings import Reading, skip_exception
from perfci.bench.timers.turn_taking import agree_on_call_count, offer_turn
from perfci.bench.timers.warmup import OneOffEvents, default_warmup_s, warm_up
from perfci.model import Clock

BLOCK_S = 0.01
"""How long a block lasts at least: 1000 launches of 10 us, 20 000 steps of a device event's 0.5 us clock,
and long enough for the ten-thousandth part that ``torch.utils.benchmark`` allows its timer's own cost.
"""


FLUSHED_L2_SIZES = 4
"""Size of the buffer that flushes the L2 cache, in caches: 200 MB on an H200, ``do_bench`` takes 256 MB."""

MAX_FLUSHES = 100
"""Flushes before one call. A call that waits for the device takes longer to return than to launch."""


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
    return perf_counter()


def cpu_clock() -> float:
    """Read the CPU seconds of all threads of this process: time that a neighbour used is not in it."""
    return process_time()


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds per call by each clock, one sample per block of ``number`` calls.

    ``device`` is empty without an accelerator. ``wall`` and ``cpu`` are empty where the L2 cache was
    flushed before each call, which only device events can leave out of their time.
    """

    wall: tuple[float, ...]
    cpu: tuple[float, ...]
    device: tuple[float, ...]
    number: int
    warmup_calls: int
    is_settled: bool
    flags: tuple[str, ...] = ()

    @property
    def judged_samples(self) -> tuple[float, ...]:
        """The samples a verdict rests on: the device's, else the CPU seconds of this process."""
        return self.device or self.cpu

    @property
    def elapsed_samples(self) -> tuple[float, ...]:
        """Seconds that passed, which rates are over: CPU seconds of several threads are no time to wait for.

        Wall seconds, or the device's where no wall clock was read.
        """
        return self.wall or self.device

    @property
    def relative_half_width(self) -> float:
        """The half-width of the 95 % interval of the judged median, as a ratio of that median."""
        return relative_half_width(self.judged_samples)

    def reading(self) -> Reading:
        """Build the reading: device samples with the host's wall seconds beside, or wall with CPU seconds."""
        if self.device:
            return Reading(self.device, Clock.DEVICE, self.number, wall=self.wall)
        return Reading(self.wall, Clock.WALL, self.number, cpu=self.cpu)


def time_blocks(
    function: Callable[[], object],
    *,
    device: Device | None = None,
    prepare: Callable[[], object] | None = None,
    number: int | None = None,
    min_blocks: int = 7,
    max_blocks: int = 50,
    warmup_s: float | None = None,
    budget_s: float = 2.0,
    target_half_width: float = 0.0125,
    flush_l2: bool = False,
) -> Timing:
    """Time blocks of calls until the median is known well enough, or a cap is reached.

    - Warm-up ends in a state (``warm_up``) and, for calls that are short against it, no later than after
      ``warmup_s`` seconds (by default 0.5 s on a CPU, 3 s on an accelerator, whose clock has to rise). A
      function that did not settle is measured all the same and flagged ``unsettled: ...``.
    - A block is ``number`` calls, by default as many as last 10 ms. The host's wall clock, the CPU clock of
      the process and the device's events are read at its two ends, with *one* synchronise before the last
      reading: synchronising every call would add its launch latency and hide what overlaps. Triton's
      ``do_bench`` and nvbench place their events so too. The host's seconds are kept beside the device's:
      what the host does while the device has nothing to do is in both, what it does after the last kernel
      of a block in the host's alone.
    - ``prepare`` runs untimed before each block, and what it queued is waited for.
    - The cycle collector is off in blocks and collects, untimed, between them. It is taken off before the
      warm-up: a look at the whole heap empties the CPU's caches, and made a step of 9 ms after it 1 ms
      slower.
    - After ``min_blocks`` blocks it stops as soon as the 95 % interval of the median is no wider than
      ``target_half_width`` on either side: a quarter of the 5 % that verdicts are about. nvbench stops by
      the noise of its samples in the same way. ``max_blocks`` and ``budget_s`` seconds (at least one block)
      stop it anyway; ``Timing.relative_half_width`` is what was reached.
    - Before each block a process that is measured beside this one may take its turn
      (``perfci.bench.timers.turn_taking``).
    - ``flush_l2`` zeroes a buffer larger than the L2 cache before each call, as ``do_bench`` and nvbench's
      cold mode do, and times each call with events of its own. It is zeroed as often as keeps the device
      busy until the call is launched, or the launch would be in its time. A kernel that is timed so belongs
      to another series: label it.

    No samples are dropped. One process is one replicate, however many blocks it has: they only tell its
    median.
    """
    device = device or this_device()
    blocks = create_cold_cache_sampler(device) if flush_l2 else BlockSampler(device)
    with gc_disabled() as collect:
        cap_s = default_warmup_s(device) if warmup_s is None else warmup_s
        warmed = warm_up(function, device, cap_s, between_rounds=collect)
        number = number or agree_on_call_count(max(1, math.ceil(BLOCK_S / max(warmed.call_s, 1e-9))))
        events = OneOffEvents(device)
        until = perf_counter() + budget_s
        while not has_enough_blocks(
            blocks, min_blocks, max_blocks, target_half_width, out_of_time=perf_counter() >= until
        ):
            until += offer_turn()
            collect()
            if prepare is not None:
                prepare()
                device.synchronize()
            blocks.run_block(function, number)
    reasons = [
        reason for reason in (warmed.unsettled_reason, events.describe_new("in a timed block")) if reason
    ]
    return Timing(
        tuple(blocks.wall),
        tuple(blocks.cpu),
        tuple(blocks.device_s),
        number=number,
        warmup_calls=warmed.calls,
        is_settled=not reasons,
        flags=tuple(f"unsettled: {reason}" for reason in reasons),
    )


time_blocks.skip_benchmark = True  # type: ignore[attr-defined]  # asv takes any time_* that a suite imports for its own


@dataclass(slots=True)
class BlockSampler:
    """The samples so far, and how to take one more."""

    device: Device
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    device_s: list[float] = field(default_factory=list)
    events: tuple[DeviceEvent, DeviceEvent] | None = None

    def __post_init__(self) -> None:
        self.events = self.device.create_event_pair()

    def run_block(self, function: Callable[[], object], number: int) -> None:
        if self.events:
            self.events[0].record()
        wall_s, cpu_s = perf_counter(), process_time()
        # The cheapest loop there is, since it makes no integers: timeit has the same.
        for _ in repeat(None, number):
            function()
        if self.events:
            self.events[1].record()
        self.device.synchronize()
        cpu_s, wall_s = process_time() - cpu_s, perf_counter() - wall_s
        self.cpu.append(cpu_s / number)
        self.wall.append(wall_s / number)
        if self.events:
            self.device_s.append(self.events[0].elapsed_time(self.events[1]) / 1000 / number)


@dataclass(slots=True)
class ColdCacheBlockSampler(BlockSampler):
    """Blocks whose calls each find an L2 cache full of zeros."""

    buffer: Any = None
    flushes: int = 0

    def run_block(self, function: Callable[[], object], number: int) -> None:
        self.flushes = self.flushes or self._choose_flush_count(function)
        pairs = [pair for pair in (self.device.create_event_pair() for _ in repeat(None, number)) if pair]
        for begin, end in pairs:
            for _ in repeat(None, self.flushes):
                self.buffer.zero_()
            begin.record()
            function()
            end.record()
        self.device.synchronize()
        self.device_s.append(sum(begin.elapsed_time(end) for begin, end in pairs) / 1000 / number)

    def _choose_flush_count(self, function: Callable[[], object]) -> int:
        """As many as take the device twice as long as the host takes to launch a call: ``flex_attention``
        needs 100 us before its kernel is queued, several times as long as one flush lasts.
        """
        launch_s = perf_counter()
        function()
        launch_s = perf_counter() - launch_s
        events = self.device.create_event_pair()
        if events is None:
            return 1
        events[0].record()
        self.buffer.zero_()
        events[1].record()
        self.device.synchronize()
        flush_s = events[0].elapsed_time(events[1]) / 1000
        return min(MAX_FLUSHES, max(1, math.ceil(2 * launch_s / flush_s))) if flush_s > 0 else 1


def create_cold_cache_sampler(device: Device) -> ColdCacheBlockSampler:
    if device.create_event_pair() is None or device.l2_bytes is None:
        raise skip_exception(
            f"a cold L2 cache needs an accelerator that reports its L2 size; this device is {device.name}"
        )
    import torch

    return ColdCacheBlockSampler(
        device,
        buffer=torch.empty(FLUSHED_L2_SIZES * device.l2_bytes, dtype=torch.uint8, device=device.torch_device),
    )


def has_enough_blocks(
    blocks: BlockSampler, min_blocks: int, max_blocks: int, target: float, *, out_of_time: bool
) -> bool:
    taken = len(blocks.device_s or blocks.cpu)
    if taken >= max_blocks or (taken and out_of_time):
        return True
    return taken >= min_blocks and relative_half_width(blocks.device_s or blocks.cpu) <= target


def relative_half_width(samples: Sequence[float]) -> float:
    """Half-width of the median's 95 % interval over the median; infinite below six samples or at 0.

    The interval lies between two order statistics and holds for any distribution (Conover, *Practical
    Nonparametric Statistics*, 3.2; Le Boudec, *Performance Evaluation*, 2.2.2): the sample's median is
    exceeded by each value with probability 1/2, so its rank is binomial. It takes samples for independent;
    blocks of one process nearly are. It is looked at after every block, which makes it optimistic: it
    decides when to stop, never what is a regression.
    """
    rank = median_interval_rank(len(samples))
    median = statistics.median(samples) if samples else 0.0
    if not rank or not median:
        return math.inf
    ordered = sorted(samples)
    return (ordered[-rank] - ordered[rank - 1]) / 2 / median


@functools.cache
def median_interval_rank(count: int) -> int:
    """Rank, from either end, of the order statistics that hold the median with 95 %; 0 if none do."""
    tail, rank = 0.0, 0
    while (tail := tail + math.comb(count, rank) / 2**count) <= 0.025:
        rank += 1
    return rank


@contextmanager
def gc_disabled() -> Iterator[Callable[[], int]]:
    """Keep the cycle collector from running by itself, and give what runs it; afterwards all is as it was.

    What is alive is frozen first, so that collecting between blocks looks only at what the blocks left
    behind. A heap that was frozen before, as in a forked cell, stays so: thawing it would copy the pages it
    shares with its parent.
    """
    collected, was_frozen = gc.isenabled(), gc.get_freeze_count()
    gc.disable()
    gc.collect()
    gc.freeze()
    try:
        yield gc.collect
    finally:
        if not was_frozen:
            gc.unfreeze()
        if collected:
            gc.enable()
