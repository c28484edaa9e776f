"""Send requests to a pipeline at a rate, one worker serving them in order, and trace their latency."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from statistics import fmean
from time import perf_counter
from typing import Any

from perfci.bench.devices.torch_devices import Device, this_device
from perfci.bench.readings import Absent, Measurement, Reading, informational
from perfci.bench.streams import request_metrics
from perfci.bench.streams.request_metrics import RequestTrace, SlaObjective
from perfci.bench.streams.stream_requests import (
    PERCENTILES,
    RecordedRequests,
    StreamRequest,
    TraceReadings,
    sum_request_seconds,
)
from perfci.bench.timers.timed_blocks import gc_disabled
from perfci.bench.timers.warmup import default_warmup_s, warm_up
from perfci.model import Metric

SERVING_METRICS = (
    Metric("ttft", "seconds"),
    Metric("e2el", "seconds"),
    *(Metric(f"{name}_{rank}", "seconds") for name in ("ttft", "e2el") for rank in PERCENTILES),
    Metric("queue_time", "seconds"),
    Metric("utilisation", "ratio"),
    Metric("throughput", "requests/s", "higher"),
    Metric("sla_attainment", "ratio", "higher"),
    Metric("goodput", "requests/s", "higher"),
)
"""Metrics of ``measure_serving``. Unlike those of a stream, latencies begin when a request arrives."""


@dataclass(frozen=True, slots=True)
class ServedRequests:
    """Requests as their senders saw them, from arrival, and as the worker did, from the moment it began."""

    from_arrival: RecordedRequests
    from_start: RecordedRequests


def poisson_arrivals(rate: float, requests: int, *, seed: int = 0) -> tuple[float, ...]:
    """Draw arrival times, seconds after the start, of a Poisson process with ``rate`` requests per second.

    Independent users arrive like this; MLPerf's server scenario and ``vllm bench serve`` send the same. One
    seed gives one schedule, so two commits meet the same bursts.
    """
    if not rate > 0:
        raise ValueError(f"requests have to arrive at a rate above 0 per second; got {rate}")
    gaps = random.Random(seed)
    return tuple(accumulate(gaps.expovariate(rate) for _ in range(requests)))


def measure_serving(
    stream: Callable[[], Iterable[Any]],
    *,
    rate: float | None,
    requests: int = 64,
    seed: int = 0,
    device: Device | None = None,
    tokens_of: Callable[[Any], int] | None = None,
    audio_seconds: Callable[[Any], float] | None = None,
    sla: Mapping[str, float] | None = None,
    warmup_s: float | None = None,
) -> Measurement:
    """Serve ``requests`` arriving at ``rate`` per second, or back to back; return ``SERVING_METRICS``.

    ``stream()`` serves one request; a pipeline that does not stream yields its one result. What it costs,
    how a chunk is timed and what raises is as in
    ``perfci.bench.streams.stream_requests.trace_requests_after_warmup``.
    """
    if requests < 1:
        raise ValueError(f"at least 1 request has to be served; got {requests}")
    objectives = request_metrics.parse_sla(sla) if sla is not None else ()
    device = device or this_device()
    request = StreamRequest(stream, device, tokens_of, audio_seconds)
    cap_s = default_warmup_s(device) if warmup_s is None else warmup_s
    with gc_disabled():
        unsettled = warm_up(request, device, cap_s).unsettled_reason
        arrivals = None if rate is None else poisson_arrivals(rate, requests, seed=seed)
        served = serve_requests(request, requests if arrivals is None else arrivals)
    flags = (f"unsettled: {unsettled}",) if unsettled else ()
    measured = serving_readings(served, sla=objectives)
    return Measurement(measured.readings, (*flags, *measured.flags))


measure_serving.skip_benchmark = True  # type: ignore[attr-defined]  # a suite that imports it does not measure it


def serve_requests(request: StreamRequest, arrivals: Sequence[float] | int) -> ServedRequests:
    """Serve requests one at a time in order of arrival: an open loop, or a closed one for a number.

    In an open loop a request is sent at its arrival, whether or not the worker is free: what it waited is
    in its latency. A loop that sends the next one only after the last has ended leaves out exactly the
    waiting that a slow moment causes (Tene's coordinated omission). By the CPU's clock nothing passes while
    the worker sleeps, so there the same arrivals are queued before the CPU seconds each request took: the
    queue as it were without neighbours.
    """
    if isinstance(arrivals, int):
        pairs = [request() for _ in range(arrivals)]
        worked = _build_recording(request.device, pairs)
        return ServedRequests(worked, worked)
    start = perf_counter()
    pairs = []
    for arrival in arrivals:
        while (early := start + arrival - perf_counter()) > 0:
            time.sleep(early)
        pairs.append(request())
    worked = _build_recording(request.device, pairs)
    seen = [
        replace(trace, sent_at=start + arrival) for trace, arrival in zip(worked.wall, arrivals, strict=True)
    ]
    return ServedRequests(
        RecordedRequests(tuple(seen), simulate_queue(worked.cpu, arrivals) if worked.cpu else ()), worked
    )


def _build_recording(device: Device, pairs: Sequence[tuple[RequestTrace, RequestTrace]]) -> RecordedRequests:
    wall, cpu = zip(*pairs, strict=True)
    return RecordedRequests(wall, cpu if device.kind == "cpu" else ())


def simulate_queue(traces: Sequence[RequestTrace], arrivals: Sequence[float]) -> tuple[RequestTrace, ...]:
    """Lay requests that were traced without waiting onto their arrivals, one worker, first come first served.

    Each begins when it has arrived and the one before has ended (Lindley 1952), and takes as long as it took.
    """
    laid: list[RequestTrace] = []
    free = 0.0
    for trace, arrival in zip(traces, arrivals, strict=True):
        begin = max(arrival, free)
        chunks = tuple((begin + (time - trace.sent_at), tokens) for time, tokens in trace.chunks)
        free = begin + (trace.ended_at - trace.sent_at)
        laid.append(replace(trace, sent_at=arrival, chunks=chunks, ended_at=free))
    return tuple(laid)


def serving_readings(served: ServedRequests, *, sla: Sequence[SlaObjective] = ()) -> Measurement:
    """Turn served requests into the readings of ``SERVING_METRICS``.

    Judged are ttft, e2el, sla_attainment and goodput, by CPU seconds where the CPU computed. The rest is
    shown, by the wall: ``queue_time`` is the mean wait for the worker, ``utilisation`` the share of the
    time it worked. Rates are over the time from the first arrival to the last end.
    """
    read = TraceReadings(served.from_arrival, sla, duration_of=makespan_seconds)
    seen, worked = served.from_arrival.wall, served.from_start.wall
    readings: dict[str, Reading | Absent] = {
        "ttft": read.per_request(request_metrics.ttft),
        "e2el": read.per_request(request_metrics.e2el),
        **read.percentiles(),
        "queue_time": informational(
            fmean(work.sent_at - trace.sent_at for trace, work in zip(seen, worked, strict=True))
        ),
        "utilisation": informational(sum_request_seconds(worked) / makespan_seconds(seen)),
        "throughput": informational(request_metrics.request_throughput(seen)),
        "sla_attainment": read.sla_attainment(),
        "goodput": read.goodput(),
    }
    return Measurement(readings, (*read.flags(), *_overload_flags(served)))


def makespan_seconds(traces: Sequence[RequestTrace]) -> float:
    """Seconds from the first arrival to the last end."""
    return max(trace.ended_at for trace in traces) - min(trace.sent_at for trace in traces)


def _overload_flags(served: ServedRequests) -> tuple[str, ...]:
    """Where requests come faster than they are served, latency is a matter of how many were sent."""
    sent = [trace.sent_at for trace in served.from_arrival.wall]
    coming, working = max(sent) - min(sent), sum_request_seconds(served.from_start.wall[:-1])
    if not working > coming > 0:
        return ()
    gaps = len(sent) - 1
    return (
        f"overloaded: {gaps / coming:.3g} requests came per second and {gaps / working:.3g} can be served",
    )
