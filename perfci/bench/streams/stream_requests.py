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
from perfci.bench.streams.arriving_audio import ArrivingAudio, AudioPieces
from perfci.bench.streams.request_metrics import InputAudio, RequestTrace, SlaObjective
from perfci.bench.streams.stream_clock import ClockReadings, StreamClock
from perfci.bench.timers.timed_blocks import gc_disabled
from perfci.bench.timers.turn_taking import offer_turn
from perfci.bench.timers.warmup import OneOffEvents, default_warmup_s, warm_up
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
NO_SOUND_REASON = "neither audio_in nor audio_seconds was given"
UNKNOWN_BATCH_REASON = "how many sequences a request answers together is not known: name them in sequences"
NO_SLA_REASON = "no SLA was given"


@dataclass(frozen=True, slots=True)
class RecordedRequests:
    """Traced requests by two clocks: wall seconds, and CPU seconds of the process where the CPU computes."""

    wall: tuple[RequestTrace, ...]
    cpu: tuple[RequestTrace, ...] = ()
    flags: tuple[str, ...] = ()


def measure_stream(
    stream: Callable[..., Iterable[Any]],
    *,
    device: Device | None = None,
    requests: int = 8,
    batch: int | Callable[[Any], int | None] = 1,
    prompt: Callable[[], Any] | None = None,
    audio_in: Callable[[], AudioPieces] | None = None,
    tokens_of: Callable[[Any], int] | None = None,
    audio_seconds: Callable[[Any], float] | None = None,
    sla: Mapping[str, float] | None = None,
    warmup_s: float | None = None,
) -> Measurement:
    """Send ``requests`` requests one after the other and read all of ``GENERATION_METRICS``.

    ``stream()`` starts one request and yields its chunks. See ``trace_requests_after_warmup`` for what
    a chunk is and how it is timed, ``generation_readings`` for what comes out. ``batch`` sequences advance
    with each request: a number, or a function that reads it from the first chunk (None: not known). What
    ``prompt()`` returns and the sound of ``audio_in()`` are given to ``stream``, in this order.
    """
    objectives = request_metrics.parse_sla(sla) if sla is not None else ()
    device = device or this_device()
    recording = trace_requests_after_warmup(
        StreamRequest(stream, device, tokens_of, audio_seconds, batch, prompt, audio_in),
        requests=requests,
        warmup_s=warmup_s,
    )
    return generation_readings(recording, sla=objectives)


measure_stream.skip_benchmark = True  # type: ignore[attr-defined]  # a suite that imports it does not measure it


def trace_requests_after_warmup(
    request: StreamRequest, *, requests: int = 8, warmup_s: float | None = None
) -> RecordedRequests:
    """Send requests until they have settled, or for about ``warmup_s`` seconds; then trace ``requests``.

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
    device = request.device
    cap_s = default_warmup_s(device) if warmup_s is None else warmup_s
    with gc_disabled() as collect:
        warmed = warm_up(request, device, cap_s)
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
    """Sends one request each time it is called, and gives its trace by the wall and by the CPU's clock.

    What goes in is made before the request is sent: ``prompt()``, and sound that arrives while it runs. Both
    are given to ``stream``, in this order.
    """

    stream: Callable[..., Iterable[Any]]
    device: Device
    tokens_of: Callable[[Any], int] | None = None
    audio_seconds: Callable[[Any], float] | None = None
    batch: int | Callable[[Any], int | None] = 1
    prompt: Callable[[], Any] | None = None
    audio_in: Callable[[], AudioPieces] | None = None

    def __call__(self) -> tuple[RequestTrace, RequestTrace]:
        inputs: list[Any] = [] if self.prompt is None else [self.prompt()]
        audio = None if self.audio_in is None else ArrivingAudio(self.audio_in(), self.device, _read_clocks)
        self.device.synchronize()
        if audio is None:
            clock = StreamClock()
            chunks = self._read_stream(inputs, clock.record_moment)
            return self._build_traces(clock.finish_and_get_moments(), chunks)
        audio.start()
        moments: list[ClockReadings] = []
        input_arrivals: list[ClockReadings] = []

        def read_clocks() -> None:
            input_arrivals.append(audio.newest_arrival)
            moments.append(audio.read_clocks())

        chunks = self._read_stream([*inputs, iter(audio)], read_clocks)
        read_clocks()
        # The first reading is before the stream was opened, the second at its first chunk.
        moments[0] = input_arrivals[1]
        return self._build_traces(moments, chunks, audio.build_input_audio(moments[-1]))

    def _read_stream(self, inputs: Sequence[Any], read_clocks: Callable[[], None]) -> list[Any]:
        """Read the clocks before the stream and at each of its chunks; return these when it has ended."""
        chunks = []
        read_clocks()
        for chunk in self._open_stream(inputs):
            self.device.synchronize()
            read_clocks()
            chunks.append(chunk)
        self.device.synchronize()
        if not chunks:
            raise ValueError(
                "the stream yielded nothing; it has to yield each chunk of output as it becomes visible"
            )
        return chunks

    def _build_traces(
        self,
        moments: Sequence[ClockReadings],
        chunks: Sequence[Any],
        input_audio: Sequence[InputAudio | None] = (None, None),
    ) -> tuple[RequestTrace, RequestTrace]:
        tokens = [self._count_tokens(chunk) for chunk in chunks]
        audio_s = tuple(float(self.audio_seconds(chunk)) for chunk in chunks) if self.audio_seconds else ()
        batch = self.batch(chunks[0]) if callable(self.batch) else self.batch
        wall, cpu = (
            RequestTrace(sent, tuple(zip(times, tokens, strict=True)), ended, audio_s, batch, audio)
            for (sent, *times, ended), audio in zip(zip(*moments, strict=True), input_audio, strict=True)
        )
        return wall, cpu

    def _open_stream(self, inputs: Sequence[Any]) -> Iterator[Any]:
        output = self.stream(*inputs)
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


def _read_clocks() -> ClockReadings:
    return perf_counter(), process_time()


def generation_readings(recording: RecordedRequests, *, sla: Sequence[SlaObjective] = ()) -> Measurement:
    """Readings of ``GENERATION_METRICS`` from traced requests, absent with a reason where not computable.

    Judged are ttft, ttfb, tpot, tpot_growth, itl, itl_per_token, e2el, rtf, sla_attainment and goodput: by
    CPU seconds where the CPU computed, with the wall beside them. Percentiles, tokens per second, rtfx and
    tpot_slope are informational, by the wall clock. All sequences that a request answers together count in
    the two rates. Rates are over the time spent in requests, which follow each other with nothing between
    them but the harness.
    """
    read = TraceReadings(recording, sla)
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
        "rtf": read.per_request(_request_rtf, NO_SOUND_REASON),
        "rtfx": read.rtfx(),
        "sla_attainment": read.sla_attainment(),
        "goodput": read.goodput(),
    }
    return Measurement(readings, (*recording.flags, *read.flags()))


def sum_request_seconds(traces: Iterable[RequestTrace]) -> float:
    """Seconds spent in requests that follow each other."""
    return sum(trace.compute_seconds for trace in traces)


@dataclass(frozen=True, slots=True)
class TraceReadings:
    """Readings of traced requests; rates are over the seconds that ``duration_of`` finds in them."""

    recording: RecordedRequests
    sla: Sequence[SlaObjective] = ()
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

    def tokens_per_second(self) -> Reading | Absent:
        traces = self.recording.wall
        if not self._knows_sequences():
            return Absent(UNKNOWN_BATCH_REASON)
        return informational(request_metrics.token_throughput(traces, self.duration_of(traces)))

    def _knows_sequences(self) -> bool:
        return all(trace.sequences is not None for trace in self.recording.wall)

    def rtfx(self) -> Reading | Absent:
        traces = self.recording.wall
        if not any(map(_has_audio, traces)):
            return Absent(NO_SOUND_REASON)
        return informational(
            request_metrics.rtfx(self.duration_of(traces), sum(trace.audio_seconds for trace in traces))
        )

    def sla_attainment(self) -> Reading | Absent:
        return self._sla_reading(lambda traces: request_metrics.sla_attainment(traces, self.sla))

    def goodput(self) -> Reading | Absent:
        if self.sla and not self._knows_sequences():
            return Absent(UNKNOWN_BATCH_REASON)
        return self._sla_reading(
            lambda traces: request_metrics.goodput(traces, self.sla, self.duration_of(traces))
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
    return request_metrics.rtf(trace.compute_seconds, trace.audio_seconds) if _has_audio(trace) else None


def _has_audio(trace: RequestTrace) -> bool:
    return bool(trace.chunk_audio_s) or trace.input_audio is not None
