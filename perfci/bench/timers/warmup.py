"""Warm-up: call a function until compilation, allocation, GPU clock and times have settled."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from time import perf_counter, process_time

from perfci.bench.devices.nvml import NvmlUnavailable, open_gpu
from perfci.bench.devices.torch_devices import Device

ROUND_S = 0.001
"""What is watched are bundles of calls of about this length: a tenth of a timed block."""

COMPARED_ROUNDS = 3
"""How many rounds without an event are compared with as many before them; fewer where calls take seconds."""

ATTEMPTS = 2
"""A function may take this many times the rounds that are compared, however long its calls last."""

LONGEST_WARMUP_S = 30.0
"""Calls so long that these rounds would last longer are compared in fewer rounds, at least one with one."""

CPU_WARMUP_S, ACCELERATOR_WARMUP_S = 0.5, 3.0
"""Default caps of the warm-up. An accelerator that was idle takes seconds to raise its clock: CUTLASS's
guidance is about 3 s.
"""

MAX_DRIFT = 0.02
"""A median that moved by less than this between them has not moved."""

MAX_CLOCK_SPREAD = 0.05
"""How much the SM clock may differ over the rounds that are compared."""

COMPILED_MESSAGE = "something was compiled"
MAX_COMPILING_ROUNDS = 10
"""Compiling rounds that are not counted against the cap (dynamo gives up after 8)."""


@dataclass(frozen=True, slots=True)
class WarmupResult:
    """How long a call takes now, how many were needed, and why they are not said to be settled, if so."""

    call_s: float
    calls: int
    unsettled_reason: str = ""


@dataclass(slots=True)
class OneOffEvents:
    """Compilations and allocator segments counted so far, to detect new ones."""

    device: Device
    compile_count: int = 0
    segment_count: int = 0

    def __post_init__(self) -> None:
        self.compile_count, self.segment_count = count_compile_events(), count_allocator_segments(self.device)

    def describe_new(self, moment: str) -> str:
        """Say what has happened since the last time, or nothing."""
        before = self.compile_count, self.segment_count
        self.compile_count, self.segment_count = count_compile_events(), count_allocator_segments(self.device)
        if self.compile_count != before[0]:
            return f"{COMPILED_MESSAGE} {moment}"
        return f"the allocator took new memory {moment}" if self.segment_count != before[1] else ""


def count_compile_events() -> int:
    """Count what torch compiled or autotuned so far in this process: each is one entry of a dynamo metric."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is None:
        return 0
    return int(dynamo.counters["frames"]["total"]) + sum(map(len, dynamo.compilation_time_metrics.values()))


def count_allocator_segments(device: Device) -> int:
    memory = device.memory_stats() or {}
    # MPS does not count its allocations, but knows how much memory it took.
    return memory.get("num_device_alloc", memory.get("reserved_bytes.all.current", 0))


@dataclass(slots=True)
class WarmupRounds:
    """Warm-up rounds since the last one-off event, in seconds per call by the judged clock, and totals."""

    device: Device
    events: OneOffEvents
    sm_clock: Callable[[], float] | None
    seconds: list[float] = field(default_factory=list)
    clocks: list[float] = field(default_factory=list)
    calls_per_round: int = 1
    calls: int = 0
    call_s: float = math.inf
    spent_s: float = 0.0
    counted_rounds: int = 0
    compiling_rounds: int = 0

    def allows_another_round(self, cap_s: float) -> bool:
        """Whether another round is allowed: below the cap, or for calls that are long against it."""
        if self.compiling_rounds > MAX_COMPILING_ROUNDS:
            return self.spent_s < cap_s
        return may_warm_up_further(self.counted_rounds, self.spent_s, cap_s, self.call_s)

    def run_round(self, function: Callable[[], object]) -> str:
        """Call one bundle, and say why the function has not settled yet; nothing if it has."""
        wall_s, judged_s = run_timed_round(function, self.calls_per_round, self.device)
        self.calls += self.calls_per_round
        self.call_s = wall_s / self.calls_per_round
        event = self.events.describe_new(f"in the last of {self.calls} warm-up calls")
        self._count_time(wall_s, compiled=event.startswith(COMPILED_MESSAGE))
        if event or wall_s < ROUND_S / 2:
            self._reset(wall_s)
            return event or f"{self.calls} calls were too short to warm up with"
        self.seconds.append(judged_s / self.calls_per_round)
        self.clocks += [self.sm_clock()] if self.sm_clock else []
        compared = rounds_to_compare(self.call_s)
        return describe_time_drift(self.seconds, compared) or describe_sm_clock_drift(self.clocks)

    def _count_time(self, wall_s: float, *, compiled: bool) -> None:
        excused = compiled and self.compiling_rounds < MAX_COMPILING_ROUNDS
        self.compiling_rounds += compiled
        self.spent_s += 0.0 if excused else wall_s
        self.counted_rounds += not excused

    def _reset(self, wall_s: float) -> None:
        self.seconds.clear()
        self.clocks.clear()
        if wall_s < ROUND_S / 2:
            self.calls_per_round = math.ceil(self.calls_per_round * min(10.0, ROUND_S / max(wall_s, 1e-9)))


def warm_up(
    function: Callable[[], object],
    device: Device,
    cap_s: float,
    *,
    between_rounds: Callable[[], object] | None = None,
) -> WarmupResult:
    """Call the function until it has settled, or until ``cap_s`` seconds are spent; once at least.

    The cap follows the calls: twelve rounds are allowed whatever they last, so that a call of 0.1 s or 2 s
    has the chance to settle that one of 1 ms has. Calls of more than 2.5 s are compared in fewer rounds.

    Settled means that over the last six rounds of calls nothing was compiled or autotuned, the allocator
    took no new segment from the device, an NVIDIA GPU's SM clock stayed within 5 %, and that the median
    time of the last three rounds is that of the three before, within 2 % or what their own spread allows. A
    count of calls knows none of this: an idle desktop GPU needs far more than five (tracel-ai/cubek#423),
    CUTLASS asks for about 3 s of warm-up, and what ``max-autotune`` compiles late is no latency. Time spent
    compiling is not counted against the cap. ``between_rounds`` runs untimed between two rounds, as
    it will between two blocks.
    """
    rounds = WarmupRounds(device, OneOffEvents(device), create_sm_clock_reader(device))
    unsettled = rounds.run_round(function)
    while unsettled and rounds.allows_another_round(cap_s):
        if between_rounds is not None:
            between_rounds()
        unsettled = rounds.run_round(function)
    return WarmupResult(rounds.call_s, rounds.calls, unsettled)


def create_sm_clock_reader(device: Device) -> Callable[[], float] | None:
    """How to read the clock of an NVIDIA GPU, where it can be read."""
    if device.kind != "cuda":
        return None
    try:
        gpu = open_gpu(device.uuid)
        gpu.sm_clock()  # a GPU that opens need not report its clock, as virtual ones do not
    except NvmlUnavailable:
        return None
    return gpu.sm_clock


def run_timed_round(function: Callable[[], object], calls: int, device: Device) -> tuple[float, float]:
    wall_s, cpu_s = perf_counter(), process_time()
    for _ in repeat(None, calls):
        function()
    device.synchronize()
    cpu_s, wall_s = process_time() - cpu_s, perf_counter() - wall_s
    return wall_s, cpu_s if device.kind == "cpu" else wall_s


def describe_sm_clock_drift(clocks: Sequence[float]) -> str:
    """Say that the SM clock still moves, or nothing."""
    compared = clocks[-2 * COMPARED_ROUNDS :]
    lowest, highest = min(compared, default=0.0), max(compared, default=0.0)
    if highest - lowest <= MAX_CLOCK_SPREAD * highest:
        return ""
    return f"the SM clock still moved between {lowest / 1e6:.0f} and {highest / 1e6:.0f} MHz"


def default_warmup_s(device: Device) -> float:
    """The cap of a warm-up in seconds where its caller names none."""
    return CPU_WARMUP_S if device.kind == "cpu" else ACCELERATOR_WARMUP_S


def may_warm_up_further(rounds: int, spent_s: float, cap_s: float, call_s: float) -> bool:
    """Whether another round is allowed: below the cap, or until calls of this length had their rounds."""
    return spent_s < cap_s or rounds < ATTEMPTS * 2 * rounds_to_compare(call_s)


def rounds_to_compare(call_s: float) -> int:
    """How many rounds are compared with as many before them, for calls that last this long."""
    affordable = LONGEST_WARMUP_S / (2 * ATTEMPTS * call_s) if call_s else math.inf
    return int(min(COMPARED_ROUNDS, max(1.0, affordable)))


def describe_time_drift(seconds: Sequence[float], compared: int = COMPARED_ROUNDS) -> str:
    """Describe a remaining drift of the times, or too few rounds; an empty text if settled.

    A median is taken to move when it differs by more than 2 % and by more than twice the standard error of
    the difference, from the median absolute deviations of the two halves (1.2533 x 1.4826 x MAD / sqrt(n)
    for each).
    """
    if len(seconds) < 2 * compared:
        return f"only {len(seconds)} of {2 * compared} rounds of calls fitted into the warm-up"
    older, newer = seconds[-2 * compared : -compared], seconds[-compared:]
    change = statistics.median(newer) - statistics.median(older)
    error = (
        1.2533
        * 1.4826
        * math.hypot(median_absolute_deviation(older), median_absolute_deviation(newer))
        / math.sqrt(compared)
    )
    if abs(change) <= max(MAX_DRIFT * statistics.median(older), 2 * error):
        return ""
    return "the calls still became " + ("slower" if change > 0 else "faster")


def median_absolute_deviation(seconds: Sequence[float]) -> float:
    centre = statistics.median(seconds)
    return statistics.median(abs(second - centre) for second in seconds)
