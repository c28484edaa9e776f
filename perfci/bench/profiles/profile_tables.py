"""What torch's profiler recorded, as tables: from its list of events, each time counted once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch.autograd import DeviceType

from perfci.bench.profiles.time_shares import Share, shares

PHASE = "perfci: "
WHOLE = PHASE + "one call"
WAITING = PHASE + "(waiting for the device)"
OUTSIDE = "(outside any phase)"
STEPS = "ProfilerStep"

MICROSECOND = 1e-6


@dataclass(frozen=True, slots=True)
class Tables:
    """``seconds`` is the wall time of one call; ``in_operators`` and ``busy`` are the parts of it during which at least
    one operator ran on the host, and one kernel on the device. Phases are times of the host, which sum to the call;
    ``device_phases`` hold the time on the device of what was launched in them.
    """

    seconds: float
    phases: tuple[Share, ...]
    device_phases: tuple[Share, ...]
    operators: tuple[Share, ...]
    kernels: tuple[Share, ...]
    in_operators: float
    busy: float


def tables_of(events: Sequence[Any]) -> Tables:
    """Read the ``FunctionEvent``s of a recording whose calls are ranges named ``WHOLE``.

    Operators have their self time, on whichever thread they ran (autograd has one for each device). An operator and
    the kernel it launched are both events with the kernel's time: only the device's own events count as kernels, and
    of those not the ranges that the profiler mirrors onto the device (``torch.autograd.profiler_util`` sums likewise).
    """
    calls = [event for event in events if event.name == WHOLE and _on_host(event)]
    inside = [event for event in events if any(_holds(call, event) for call in calls)]
    host = [event for event in inside if _on_host(event) and not event.is_async]
    ranges = [event for event in host if event.name.startswith(PHASE)]
    operators = [event for event in host if not event.name.startswith((PHASE, STEPS)) and not _waited(event)]
    kernels = [event for event in inside if not _on_host(event) and not event.is_user_annotation]
    whole_s = _sum(_seconds(call) for call in calls)
    return Tables(
        seconds=whole_s / len(calls),
        phases=shares(_phases(ranges), whole_s, len(calls)) if len(ranges) > len(calls) else (),
        device_phases=_shares_of(_launches(host, ranges), len(calls)),
        operators=_shares_of([(event.name, _self_seconds(event)) for event in operators], len(calls)),
        kernels=_shares_of([(event.name, _seconds(event)) for event in kernels], len(calls)),
        in_operators=_covered(event for event in operators if not event.is_user_annotation) / whole_s,
        busy=_covered(kernels) / whole_s,
    )


def _shares_of(parts: Sequence[tuple[str, float]], calls: int) -> tuple[Share, ...]:
    return shares(parts, _sum(seconds for _, seconds in parts), calls)


def _phases(ranges: Sequence[Any]) -> list[tuple[str, float]]:
    """Each range without the ranges inside it, so that all of them sum to the calls."""
    own = {id(event): _seconds(event) for event in ranges}
    for event in ranges:
        around = next((outer for outer in _around(event) if id(outer) in own), None)
        if around is not None:
            own[id(around)] -= _seconds(event)
    return [(_phase(event), own[id(event)]) for event in ranges]


def _launches(host: Sequence[Any], ranges: Sequence[Any]) -> list[tuple[str, float]]:
    """What each launched kernel took, under the innermost phase that was open when it was launched, by any thread."""
    return [
        (_phase(min((one for one in ranges if _holds(one, event)), key=_seconds)), kernel.duration * MICROSECOND)
        for event in host
        for kernel in event.kernels
    ]


def _phase(event: Any) -> str:
    return OUTSIDE if event.name == WHOLE else str(event.name.removeprefix(PHASE))


def _waited(event: Any) -> bool:
    """Whether this is the wait for the device at the end of a call, which is ours and not the benchmark's."""
    return any(outer.name == WAITING for outer in _around(event))


def _around(event: Any) -> Iterator[Any]:
    outer = event.cpu_parent
    while outer is not None:
        yield outer
        outer = outer.cpu_parent


def _on_host(event: Any) -> bool:
    return bool(event.device_type == DeviceType.CPU)


def _holds(outer: Any, event: Any) -> bool:
    return bool(outer.time_range.start <= event.time_range.start <= outer.time_range.end)


def _seconds(event: Any) -> float:
    return float(event.time_range.end - event.time_range.start) * MICROSECOND


def _self_seconds(event: Any) -> float:
    return float(event.self_cpu_time_total) * MICROSECOND


def _covered(events: Iterable[Any]) -> float:
    """Seconds during which at least one of the events ran: streams and threads overlap."""
    covered = until = 0.0
    for start, end in sorted((event.time_range.start, event.time_range.end) for event in events):
        covered += max(0.0, end - max(start, until))
        until = max(until, end)
    return covered * MICROSECOND


def _sum(seconds: Iterable[float]) -> float:
    return sum(seconds, 0.0)
