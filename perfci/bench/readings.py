"""Readings of one run: several metrics, each with samples or with the reason why there are none."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from perfci.model import CPU_METRIC_PREFIX, WALL_METRIC_PREFIX, Clock, Metric

UNITS = frozenset(
    {
        "seconds",
        "bytes",
        "count",
        "ratio",
        "tokens/s",
        "samples/s",
        "requests/s",
        "bytes/s",
        "FLOP",
        "FLOP/s",
        "joules",
        "watts",
        "seconds/token",
        "seconds/token/token",
        "seconds/GB",
        "joules/token",
        "loss",
        "norm",
        "instructions",
        "hertz",
        "celsius",
    }
)
"""Units a metric may have. A percentage is a ratio: percent signs belong on screens."""

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Reading:
    """Samples of one metric, per call and in the metric's unit, each averaged over ``number`` calls.

    ``cpu`` holds CPU seconds of the process read at the same moments; where there are any, they are what is
    judged. ``wall`` holds the host's seconds beside samples of a device, and is shown: a device that waits
    for its host is seen there.
    """

    samples: Sequence[float]
    clock: Clock = Clock.VALUE
    number: int = 1
    cpu: Sequence[float] = ()
    wall: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Absent:
    """A metric that this machine or this model cannot give, and why: never a zero in its place."""

    reason: str


@dataclass(frozen=True, slots=True)
class Measurement:
    """All readings of one run, with flags of the whole run (``throttled: ...``)."""

    readings: Mapping[str, Reading | Absent]
    flags: tuple[str, ...] = ()


def skip_exception(reason: str) -> Exception:
    """Make the exception that skips a whole cell with its reason, under perfci and under plain asv."""
    # Of all NotImplementedErrors the one that asv takes for a skip after setup, too.
    from asv_runner.benchmarks.mark import SkipNotImplemented

    skip: Exception = SkipNotImplemented(reason)
    return skip


def exact(value: float) -> Reading:
    """A count or a number of bytes that repeats exactly in every process."""
    return Reading((float(value),), Clock.EXACT)


def exact_if_repeated(*values: float) -> Reading:
    """A number that was computed several times: exact where all are the same bits, else a sample each."""
    return exact(values[0]) if len(set(values)) == 1 else Reading(values, Clock.VALUE)


def informational(*values: float) -> Reading:
    """A number shown beside the judged ones and never judged: derived from one of them, or an annotation."""
    return Reading(values, Clock.INFORMATIONAL)


def metrics(*declared: Metric) -> Callable[[Function], Function]:
    """Declare the metrics of a ``measure_*`` function; it returns a ``Measurement``, or a mapping of names
    to readings.

    A bare number or list of numbers stands for a ``Reading`` of it. What was declared wrongly (two metrics
    of one name, an unknown unit) or is returned wrongly (a missing or undeclared name, no finite number)
    raises ``ValueError`` when the function is called, so that it fails the one cell and not the whole
    module.
    """

    def declare(function: Function) -> Function:
        @functools.wraps(function)
        def measure(*args: Any, **kwargs: Any) -> dict[str, Any]:
            validate_metric_declarations(declared)
            return check_and_serialize_readings(declared, function(*args, **kwargs))

        measure.metrics = declared  # type: ignore[attr-defined]
        return measure  # type: ignore[return-value]

    return declare


def validate_metric_declarations(declared: Iterable[Metric]) -> None:
    """Raise ``ValueError`` for a repeated name, an unknown unit, or something that is no ``Metric``."""
    seen: set[str] = set()
    for metric in declared:
        if not isinstance(metric, Metric):
            raise ValueError(f"@metrics was given {metric!r}; a Metric(name, unit) was expected")
        if metric.name in seen:
            raise ValueError(
                f"two metrics are called {metric.name!r}; every metric of one benchmark needs its own name"
            )
        if metric.unit not in UNITS:
            units = ", ".join(sorted(UNITS))
            raise ValueError(f"metric {metric.name!r} has the unknown unit {metric.unit!r}; known: {units}")
        seen.add(metric.name)


def check_and_serialize_readings(
    declared: Sequence[Metric], returned: Measurement | Mapping[str, Any]
) -> dict[str, Any]:
    """Check returned readings against the declaration and build the plain mapping that the harness reads."""
    if not isinstance(returned, Measurement | Mapping):
        raise ValueError(
            f"the benchmark returned {type(returned).__name__}; a mapping of metrics to readings was expected"
        )
    measured = returned if isinstance(returned, Measurement) else Measurement(returned)
    names = [metric.name for metric in declared]
    missing = [name for name in names if name not in measured.readings]
    unknown = [name for name in measured.readings if name not in names]
    if missing or unknown:
        parts = [f"did not return {', '.join(missing)}"] if missing else []
        parts += [f"returned {', '.join(unknown)}, which it does not declare"] if unknown else []
        raise ValueError(
            f"the benchmark {' and '.join(parts)}; return Absent(reason) for a metric that cannot be read"
        )
    rows = [row for metric in declared for row in _metric_rows(metric, measured.readings[metric.name])]
    return {"metrics": rows, "flags": list(measured.flags)}


def _metric_rows(metric: Metric, value: Any) -> list[dict[str, Any]]:
    fields = {"name": metric.name, "unit": metric.unit, "direction": metric.direction}
    if isinstance(value, Absent):
        return [{**fields, "status": "skipped", "reason": value.reason}]
    if isinstance(value, Reading):
        reading = value
    else:
        reading = Reading(value if isinstance(value, list | tuple) else (value,))
    rows = [_sample_row(fields, reading.samples, reading.clock, reading.number)]
    if reading.cpu:
        rows.append(
            _sample_row(
                {**fields, "name": CPU_METRIC_PREFIX + metric.name}, reading.cpu, Clock.CPU, reading.number
            )
        )
    if reading.wall:
        host = {**fields, "name": WALL_METRIC_PREFIX + metric.name}
        rows.append(_sample_row(host, reading.wall, Clock.INFORMATIONAL, reading.number))
    return rows


def _sample_row(
    metric_fields: Mapping[str, str], samples: Sequence[Any], clock: Clock, number: int
) -> dict[str, Any]:
    values = [float(sample) for sample in samples]
    if not values or not all(map(math.isfinite, values)):
        raise ValueError(f"metric {metric_fields['name']!r} is {samples!r}; finite numbers were expected")
    return {
        **metric_fields,
        "status": "ok",
        "reason": "",
        "clock": str(clock),
        "number": number,
        "samples": values,
    }
