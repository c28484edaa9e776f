"""Call a function until it has settled: nothing is compiled or allocated anew, clocks and times stand still."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from time import perf_counter, process_time

from perfci.bench.device import Device

ROUND_S = 0.001
"""What is watched are bundles of calls of about this length: a tenth of a timed block."""

ROUNDS = 3
"""How many rounds without an event are compared with as many before them."""

DRIFT = 0.02
"""A median that moved by less than this between them has not moved."""

COMPILING_ROUNDS = 10
"""How many rounds in which something was compiled are not counted against the cap (dynamo gives up after 8)."""


@dataclass(frozen=True, slots=True)
class Warmed:
    """How long a call takes now, how many were needed, and why they are not said to be settled, if so."""

    call_s: float
    calls: int
    unsettled: str = ""


@dataclass(slots=True)
class Events:
    """What has been compiled, and how often the allocator went to the device, since this was made or last asked."""

    device: Device
    compiled: int = 0
    segments: int = 0

    def __post_init__(self) -> None:
        self.compiled, self.segments = compile_events(), segments_taken(self.device)

    def happened(self, when: str) -> str:
        """Say what has happened since the last time, or nothing."""
        before = self.compiled, self.segments
        self.compiled, self.segments = compile_events(), segments_taken(self.device)
        if self.compiled != before[0]:
            return f"something was compiled {when}"
        return f"the allocator took new memory {when}" if self.segments != before[1] else ""


def compile_events() -> int:
    """Count what torch compiled or autotuned so far in this process: each is one entry of a dynamo metric."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is None:
        return 0
    return int(dynamo.counters["frames"]["total"]) + sum(map(len, dynamo.compilation_time_metrics.values()))


def segments_taken(device: Device) -> int:
    memory = device.memory() or {}
    return memory.get("num_device_alloc", memory.get("reserved_bytes.all.current", 0))


@dataclass(slots=True)
class Rounds:
    """The rounds since the last event: seconds per call by the clock that is judged."""

    device: Device
    seconds: list[float] = field(default_factory=list)
    calls: int = 0
    bundle: int = 1
    compiling: int = 0


def warm_up(function: Callable[[], object], device: Device, cap_s: float) -> Warmed:
    """Call the function until it has settled, or until ``cap_s`` seconds are spent.

    Settled means that over the last rounds nothing was compiled or autotuned, the allocator took no new segment from
    the device, and that the median of the last rounds is that of as many before them, within 2 % or what their own
    spread allows. A count of calls cannot know any of this: an idle desktop GPU needs far more than five.
    """
    events, rounds = Events(device), Rounds(device)
    spent_s, call_s, reason = 0.0, math.inf, "no call was made"
    while spent_s < cap_s or not rounds.calls:
        wall_s, judged_s = timed_round(function, rounds.bundle, device)
        rounds.calls += rounds.bundle
        call_s = wall_s / rounds.bundle
        event = events.happened(f"in the last of {rounds.calls} warm-up calls")
        compiling = event.startswith("something") and rounds.compiling < COMPILING_ROUNDS
        rounds.compiling += compiling
        spent_s += 0.0 if compiling else wall_s
        if event or wall_s < ROUND_S / 2:
            reason = event or "the calls are too short for the warm-up"
            rounds.seconds.clear()
            if not event:
                rounds.bundle = math.ceil(rounds.bundle * min(10.0, ROUND_S / max(wall_s, ROUND_S / 10)))
            continue
        rounds.seconds.append(judged_s / rounds.bundle)
        reason = moving(rounds.seconds)
        if not reason:
            break
    return Warmed(call_s, rounds.calls, reason)


def timed_round(function: Callable[[], object], bundle: int, device: Device) -> tuple[float, float]:
    wall_s, cpu_s = perf_counter(), process_time()
    for _ in repeat(None, bundle):
        function()
    device.synchronize()
    cpu_s, wall_s = process_time() - cpu_s, perf_counter() - wall_s
    return wall_s, cpu_s if device.kind == "cpu" else wall_s


def moving(seconds: Sequence[float]) -> str:
    """Say that the calls still become faster or slower, or that there are too few to tell; nothing if neither.

    A median is taken to move when it differs by more than 2 % and by more than twice the standard error of the
    difference, from the median absolute deviations of the two halves (1.2533 x 1.4826 x MAD / sqrt(n) for each).
    """
    if len(seconds) < 2 * ROUNDS:
        return f"only {len(seconds)} rounds of calls fitted into the warm-up"
    older, newer = seconds[-2 * ROUNDS : -ROUNDS], seconds[-ROUNDS:]
    change = statistics.median(newer) - statistics.median(older)
    error = 1.2533 * 1.4826 * math.hypot(deviation(older), deviation(newer)) / math.sqrt(ROUNDS)
    if abs(change) <= max(DRIFT * statistics.median(older), 2 * error):
        return ""
    return "the calls still became " + ("slower" if change > 0 else "faster")


def deviation(seconds: Sequence[float]) -> float:
    centre = statistics.median(seconds)
    return statistics.median(abs(second - centre) for second in seconds)
