"""Send requests to a generator that streams its output, and record when each chunk became visible."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import Any

from perfci.bench.devices.torch_devices import Device, this_device
from perfci.bench.readings import Absent, Measurement, Reading, informational
from perfci.bench.streams import request_metrics
from perfci.bench.streams.request_metrics import RequestTrace, SlaObjective
from perfci.bench.timers.timed_blocks import gc_disabled
from perfci.bench.timers.turn_taking import offer_turn
from perfci.bench.timers.warmup import OneOffEvents, warm_up
from perfci.model import Clock, Metric

PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}

GENERATION_METRICS = (
    Metric("ttft", "seconds"),
    Metric("ttfb", "seconds"),
    Metric("tpot", "seconds/token"),
    Metric("tpot_slope", "seconds/token/token"),
    Metric("tpot_growth", "ratio"),
    Metric("itl", "seconds"),
    Metric("itl_per_token", "seconds/token"),
    Metric("e2el", "seconds"),
    *(Metric(f"{name}_{rank}", "seconds") for name in ("ttft", "e2el") for rank in PERCENTILES),
    Metric("generate_tok_s", "tokens/s", "higher"),
    Metric("rtf", "ratio"),
    Metric("rtfx", "ratio", "higher"),
    Metric("sla_attainment", "ratio", "higher"),
    Metric("goodput", "requests/s", "higher"),
)
"""Metrics of ``measure_stream``; ``perfci.bench.streams.request_metrics`` defines each of them."""

SINGLE_CHUNK_REASON = "every request gave all its output in one chunk, so the time per token is unknown"
TOO_FEW_CHUNKS_REASON = f"needs a request with {request_metrics.MIN_GAPS} gaps between chunks"
NO_AUDIO_REASON = "no audio_seconds was given"
NO_SLA_REASON = "no SLA was given"


@dataclass(frozen=True, slots=True)
class RecordedRequests:
    """Traced requests by two clocks: wall seconds, and CPU seconds of the process where the CPU computes."""

    wall: tuple[RequestTrace, ...]
    cpu: tuple[RequestTrace, ...] = ()
    flags: tuple[str, ...] = ()


def measure_stream(
    stream: Callable[[], Iterable[Any]],
    *,
    device: Device | None = None,
    requests: int = 8,
    batch: int = 1,
    tokens_of: Callable[[Any], int] | None = None,
    audio_seconds: Callable[[Any], float] | None = None,
    sla: Mapping[str, float] | None = None,
    warmup_s: float = 0.5,
) -> Measurement:
    """Send ``requests`` requests one after the other and read all of ``GENERATION_METRICS``.

    ``stream()`` starts one request and yields its chunks. See ``trace_requests_after_warmup`` for what
    a chunk is and how it is timed, ``generation_readings`` for what comes out.
    """
    objectives = request_metrics.parse_sla(sla) if sla is not None else ()
    recording = trace_requests_after_warmup(
        stream,
        device=device,
        requests=requests,
        tokens_of=tokens_of,
        audio_seconds=audio_seconds,
        warmup_s=warmup_s,
    )
    return generation_readings(recording, sla=objectives, batch=batch)


measure_stream.skip_benchmark = True  # type: ignore[attr-defined]  # a suite that imports it does not measure it


def trace_requests_after_warmup(
    stream: Callable[[], Iterable[Any]],
    *,
    device: Device | None = None,
    requests: int = 8,
    tokens_of: Callable[[Any], int] | None = None,
    audio_seconds: Callable[[Any], float] | None = None,
    warmup_s: float = 0.5,
) -> RecordedRequests:
    """Send requests until they have settled, or for ``warmup_s`` seconds; then trace ``requests`` of them.

    *Settled* is defined in ``perfci.bench.timers.warmup``; a request is one call there. The cycle collector
    is off.

    A chunk counts as visible once the device has done all that was queued for it: one synchronise per
    chunk, which is what a user who reads the token causes as well. ``tokens_of(chunk)`` is the number of
    tokens in a chunk *per sequence* (0 for a chunk without output); without it every chunk is one token, so
    a tensor of shape (batch, 1) is one step of the whole batch. ``audio_seconds(chunk)`` is the length of
    the sound in that one chunk. Both are called after the request has ended, outside the clock: a stream
    that reuses one buffer must not be read for its content.

    Raises ``ValueError`` when the stream yields nothing or is no iterable.
    """
    if requests < 1:
        raise ValueError(f"at least 1 request has to be measured; got {requests}")
    device = device or this_device()
    request = StreamRequest(stream, device, tokens_of, audio_seconds)
    with gc_disabled() as collect:
        warmed = warm_up(request, device, warmup_s)
        events = OneOffEvents(device)
        pairs = []
        for _ in range(requests):
            offer_turn()
            pairs.append(request())
            collect()
    reasons = [
        reason for reason in (warmed.unsettled_reason, events.describe_new("in a measured request")) if reason
    ]
    return RecordedRequests(
        tuple(wall for wall, _ in pairs),
        tuple(cpu for _, cpu in pairs) if device.kind == "cpu" else (),
        tuple(f"unsettled: {reason}" for reason in reasons),
    )


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """Sends one request each time it is called, and gives its trace by the wall and by the CPU's clock."""

    stream: Callable[[], Iterable[Any]]
    device: Device
    tokens_of: Callable[[Any], int] | None = None
    audio_seconds: Callable[[Any], float] | None = None

    def __call__(self) -> tuple[RequestTrace, RequestTrace]:
        self.device.synchronize()
        moments, chunks = [_read_clocks()], []
        for chunk in self._open_stream():
            self.device.synchronize()
            moments.append(_read_clocks())
            chunks.append(chunk)
        self.device.synchronize()
        moments.append(_read_clocks())
        if not chunks:
            raise ValueError(
                "the stream yielded nothing; it has to yield each chunk of output as it becomes visible"
            )
        tokens = [self._count_tokens(chunk) for chunk in chunks]
        audio = tuple(float(self.audio_seconds(chunk)) for chunk in chunks) if self.audio_seconds else ()
        wall, cpu = zip(*moments, strict=True)
        return _build_trace(wall, tokens, audio), _build_trace(cpu, tokens, audio)

    def _open_stream(self) -> Iterator[Any]:
        output = self.stream()
        if not isinstance(output, Iterable):
            raise ValueError(
                f"the stream returned {type(output).__name__}; something that yields chunks was expected"
            )
        return iter(output)

    def _count_tokens(self, chunk: Any) -> int:
        if self.tokens_of is None:
            return 1
        tokens = self.tokens_of(chunk)
        try:
            return operator.index(tokens)
        except TypeError:
            raise ValueError(
                f"tokens_of returned {tokens!r}; a whole number of tokens was expected"
            ) from None


def _build_trace(moments: Sequence[float], tokens: Sequence[int], audio_s: tuple[float, ...]) -> RequestTrace:
    sent, *times, done = moments
    return RequestTrace(sent, tuple(zip(times, tokens, strict=True)), done, audio_s)


def _read_clocks() -> tuple[float, float]:
    return perf_counter(), process_time()


def generation_readings(
    recording: RecordedRequests, *, sla: Sequence[SlaObjective] = (), batch: int = 1
) -> Measurement:
    """Readings of ``GENERATION_METRICS`` from traced requests, absent with a reason where not computable.

    Judged are ttft, ttfb, tpot, tpot_growth, itl, itl_per_token, e2el, rtf, sla_attainment and goodput: by
    CPU seconds where the CPU computed, with the wall beside them. Percentiles, tokens per second, rtfx and
    tpot_slope are informational, by the wall clock. ``batch`` sequences advance with each request and count
    in the two rates. Rates are over the time spent in requests, which follow each other with nothing
    between them but the harness.
    """
    read = TraceReadings(recording, sla, batch)
    readings: dict[str, Reading | Absent] = {
        "ttft": read.per_request(request_metrics.ttft),
        "ttfb": read.per_request(request_metrics.first_audio_delay, NO_AUDIO_REASON),
        "tpot": read.per_request(request_metrics.tpot, SINGLE_CHUNK_REASON),
        "tpot_slope": read.tpot_slope(),
        "tpot_growth": read.per_request(request_metrics.tpot_growth, TOO_FEW_CHUNKS_REASON),
        "itl": read.per_request_by_both_clocks(request_metrics.itl, SINGLE_CHUNK_REASON),
        "itl_per_token": read.per_request_by_both_clocks(request_metrics.itl_per_token, SINGLE_CHUNK_REASON),
        "e2el": read.per_request(request_metrics.e2el),
        **read.percentiles(),
        "generate_tok_s": read.tokens_per_second(),
        "rtf": read.per_request(_request_rtf, NO_AUDIO_REASON),
        "rtfx": read.rtfx(),
        "sla_attainment": read.sla_attainment(),
        "goodput": read.goodput(),
    }
    return Measurement(readings, (*recording.flags, *read.flags()))


def sum_request_seconds(traces: Iterable[RequestTrace]) -> float:
    """Seconds spent in requests that follow each other."""
    return sum(map(request_metrics.e2el, traces))


@dataclass(frozen=True, slots=True)
class TraceReadings:
    """Readings of traced requests; rates are over the seconds that ``duration_of`` finds in them."""

    recording: RecordedRequests
    sla: Sequence[SlaObjective] = ()
    batch: int = 1
    duration_of: Callable[[Sequence[RequestTrace]], float] = sum_request_seconds

    def per_request(
        self, metric: Callable[[RequestTrace], float | None], reason: str = ""
    ) -> Reading | Absent:
        """One sample per request that has the value."""
        return self.per_request_by_both_clocks(
            lambda traces: [value for trace in traces if (value := metric(trace)) is not None], reason
        )

    def per_request_by_both_clocks(
        self, metric: Callable[[Sequence[RequestTrace]], list[float]], reason: str = ""
    ) -> Reading | Absent:
        """Samples by the wall clock, and by the CPU clock where the CPU computed."""
        samples = metric(self.recording.wall)
        return Reading(samples, Clock.WALL, cpu=metric(self.recording.cpu)) if samples else Absent(reason)

    def tpot_slope(self) -> Reading | Absent:
        slope = request_metrics.tpot_slope(self.recording.wall)
        return Absent(TOO_FEW_CHUNKS_REASON) if slope is None else informational(slope)

    def percentiles(self) -> dict[str, Reading | Absent]:
        """``ttft_p50`` to ``e2el_p99``, each informational, or absent with too few requests."""
        values = {"ttft": request_metrics.ttft, "e2el": request_metrics.e2el}
        return {
            f"{name}_{rank}": self._percentile([value_of(trace) for trace in self.recording.wall], share)
            for name, value_of in values.items()
            for rank, share in PERCENTILES.items()
        }

    def _percentile(self, values: Sequence[float], share: float) -> Reading | Absent:
        estimate = request_metrics.percentile(values, share)
        if estimate is None:
            return Absent(
                f"needs {request_metrics.required_percentile_samples(share)} requests, measured {len(values)}"
            )
        return informational(estimate.value)

    def tokens_per_second(self) -> Reading:
        traces = self.recording.wall
        return informational(self.batch * request_metrics.token_throughput(traces, self.duration_of(traces)))

    def rtfx(self) -> Reading | Absent:
        traces = self.recording.wall
        if not any(trace.chunk_audio_s for trace in traces):
            return Absent(NO_AUDIO_REASON)
        return informational(
            request_metrics.rtfx(self.duration_of(traces), sum(trace.audio_seconds for trace in traces))
        )

    def sla_attainment(self) -> Reading | Absent:
        return self._sla_reading(lambda traces: request_metrics.sla_attainment(traces, self.sla))

    def goodput(self) -> Reading | Absent:
        return self._sla_reading(
            lambda traces: self.batch * request_metrics.goodput(traces, self.sla, self.duration_of(traces))
        )

    def _sla_reading(self, metric: Callable[[Sequence[RequestTrace]], float]) -> Reading | Absent:
        if not self.sla:
            return Absent(NO_SLA_REASON)
        return self.per_request_by_both_clocks(lambda traces: [metric(traces)] if traces else [])

    def flags(self) -> tuple[str, ...]:
        """Flags beside the numbers: chunks of several tokens, and a broken SLA."""
        max_tokens = request_metrics.max_tokens_per_chunk(self.recording.wall)
        bundled = (
            (f"a chunk holds up to {max_tokens} tokens: itl is the time between chunks",)
            if max_tokens > 1
            else ()
        )
        return (*bundled, *request_metrics.describe_sla_violations(self.recording.wall, self.sla))


def _request_rtf(trace: RequestTrace) -> float | None:
    return (
        request_metrics.rtf(request_metrics.e2el(trace), trace.audio_seconds) if trace.chunk_audio_s else None
    )
