"""Tables from the events that torch's profiler recorded, each second counted once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch.autograd import DeviceType

from perfci.bench.profiles.operator_kinds import classify_operator

PHASE_PREFIX = "perfci: "
CALL_RANGE = PHASE_PREFIX + "one call"
WAIT_RANGE = PHASE_PREFIX + "(waiting for the device)"
OUTSIDE_PHASES = "(outside any phase)"
STEP_PREFIX = "ProfilerStep"  # a range that torch's profiler adds by itself

MICROSECOND = 1e-6

MAX_ROWS = 20


@dataclass(frozen=True, slots=True)
class TimeShare:
    """Seconds of a kernel, operator, phase or line in one call, and their share of the total.

    ``calls`` says how often it ran in one call; a line is sampled and not counted.
    """

    name: str
    seconds: float
    share: float
    calls: float = 0.0


@dataclass(frozen=True, slots=True)
class RecordedTables:
    """Time shares of one recorded call.

    ``seconds`` is the wall time of one call; ``in_operators`` and ``busy`` are the parts of it, ratios,
    during which at least one operator ran on the host, and one kernel on the device. ``phases`` are times
    of the host, which sum to the call; ``device_phases`` hold the time on the device of what was launched
    in them. ``kinds`` sum all kernels, or all operators where there are none, by ``classify_operator``; the
    other tables have their largest rows alone.
    """

    seconds: float
    phases: tuple[TimeShare, ...]
    device_phases: tuple[TimeShare, ...]
    operators: tuple[TimeShare, ...]
    kernels: tuple[TimeShare, ...]
    kinds: tuple[TimeShare, ...]
    in_operators: float
    busy: float


def build_profile_tables(events: Sequence[Any]) -> RecordedTables:
    """Read the ``FunctionEvent``s of a recording whose calls are ranges named ``CALL_RANGE``.

    Operators have their self time, on whichever thread they ran (autograd has one for each device). An
    operator and the kernel it launched are both events with the kernel's time: only the device's own events
    count as kernels, and of those not the ranges that the profiler mirrors onto the device
    (``torch.autograd.profiler_util`` sums likewise).
    """
    calls = [event for event in events if event.name == CALL_RANGE and _is_host_event(event)]
    inside = [event for event in events if any(_contains(call, event) for call in calls)]
    host = [event for event in inside if _is_host_event(event) and not event.is_async]
    ranges = [event for event in host if event.name.startswith(PHASE_PREFIX)]
    operators = [
        event
        for event in host
        if not event.name.startswith((PHASE_PREFIX, STEP_PREFIX))
        # perfci's own wait for the device at the end of a call is none of the benchmark's.
        and all(outer.name != WAIT_RANGE for outer in _enclosing_events(event))
    ]
    host_parts = [(event.name, float(event.self_cpu_time_total) * MICROSECOND) for event in operators]
    kernels = [event for event in inside if not _is_host_event(event) and not event.is_user_annotation]
    kernel_parts = [(event.name, _duration_s(event)) for event in kernels]
    whole_s = _sum_seconds(_duration_s(call) for call in calls)
    return RecordedTables(
        seconds=whole_s / len(calls),
        phases=sum_shares_by_name(_exclusive_phases(ranges), whole_s, len(calls))
        if len(ranges) > len(calls)
        else (),
        device_phases=_shares_of_sum(_kernels_by_phase(host, ranges), len(calls)),
        operators=_shares_of_sum(host_parts, len(calls)),
        kernels=_shares_of_sum(kernel_parts, len(calls)),
        kinds=_shares_of_sum(
            [(classify_operator(name), seconds) for name, seconds in kernel_parts or host_parts], len(calls)
        ),
        in_operators=_covered_seconds(event for event in operators if not event.is_user_annotation) / whole_s,
        busy=_covered_seconds(kernels) / whole_s,
    )


def sum_shares_by_name(
    parts: Iterable[tuple[str, float]], total_s: float, calls: int
) -> tuple[TimeShare, ...]:
    """Sum the seconds of parts of one name over so many calls; what took no time has no share."""
    seconds: dict[str, float] = defaultdict(float)
    counts: Counter[str] = Counter()
    for name, part_s in parts:
        seconds[name] += part_s
        counts[name] += 1
    largest = sorted(((took, name) for name, took in seconds.items() if took > 0), reverse=True)[:MAX_ROWS]
    return tuple(
        TimeShare(name, took / calls, took / total_s, counts[name] / calls) for took, name in largest
    )


def _shares_of_sum(parts: Sequence[tuple[str, float]], calls: int) -> tuple[TimeShare, ...]:
    return sum_shares_by_name(parts, _sum_seconds(seconds for _, seconds in parts), calls)


def _exclusive_phases(ranges: Sequence[Any]) -> list[tuple[str, float]]:
    """Each range without the ranges inside it, so that all of them sum to the calls."""
    own = {id(event): _duration_s(event) for event in ranges}
    for event in ranges:
        around = next((outer for outer in _enclosing_events(event) if id(outer) in own), None)
        if around is not None:
            own[id(around)] -= _duration_s(event)
    return [(_phase_name(event), own[id(event)]) for event in ranges]


def _kernels_by_phase(host: Sequence[Any], ranges: Sequence[Any]) -> list[tuple[str, float]]:
    """Seconds of each kernel, with the innermost phase that was open when any thread launched it."""
    return [
        (
            _phase_name(min((phase for phase in ranges if _contains(phase, event)), key=_duration_s)),
            kernel.duration * MICROSECOND,
        )
        for event in host
        for kernel in event.kernels
    ]


def _phase_name(event: Any) -> str:
    return OUTSIDE_PHASES if event.name == CALL_RANGE else str(event.name.removeprefix(PHASE_PREFIX))


def _enclosing_events(event: Any) -> Iterator[Any]:
    outer = event.cpu_parent
    while outer is not None:
        yield outer
        outer = outer.cpu_parent


def _is_host_event(event: Any) -> bool:
    return bool(event.device_type == DeviceType.CPU)


def _contains(outer: Any, event: Any) -> bool:
    return bool(outer.time_range.start <= event.time_range.start <= outer.time_range.end)


def _duration_s(event: Any) -> float:
    return float(event.time_range.end - event.time_range.start) * MICROSECOND


def _covered_seconds(events: Iterable[Any]) -> float:
    """Seconds during which at least one of the events ran: streams and threads overlap."""
    covered = until = 0.0
    for start, end in sorted((event.time_range.start, event.time_range.end) for event in events):
        covered += max(0.0, end - max(start, until))
        until = max(until, end)
    return covered * MICROSECOND


def _sum_seconds(seconds: Iterable[float]) -> float:
    return sum(seconds, 0.0)
