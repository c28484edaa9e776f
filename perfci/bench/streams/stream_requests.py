"""Drive a generator that streams its output, and read when each chunk became visible."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import Any

from perfci.bench.devices.torch_devices import Device, this_device
from perfci.bench.readings import Absent, Measured, Reading, witness
from perfci.bench.streams import latency
from perfci.bench.streams.latency import Objective, Trace
from perfci.bench.timers.timed_blocks import collector_off
from perfci.bench.timers.turn_taking import offer_turn
from perfci.bench.timers.warmup import Events, warm_up
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
"""What ``measure_stream`` gives; each is defined where ``perfci.bench.streams.latency`` computes it."""

ONE_CHUNK = "every request gave all its output in one chunk, so nothing is known of its pace"
TOO_SHORT = f"needs a request with {latency.MIN_GAPS} gaps between chunks"
NO_AUDIO = "no audio_seconds was given"
NO_SLA = "no SLA was given"


@dataclass(frozen=True, slots=True)
class Recording:
    """The same requests by two clocks: wall seconds, and CPU seconds of the process where the CPU computes."""

    wall: tuple[Trace, ...]
    cpu: tuple[Trace, ...] = ()
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
) -> Measured:
    """Send ``requests`` requests one after the other and read all of ``GENERATION_METRICS``.

    ``stream()`` starts one request and yields its chunks. See ``record_stream`` for what a chunk is and how it is
    timed, ``generation_readings`` for what comes out.
    """
    objectives = latency.parse_sla(sla) if sla is not None else ()
    recording = record_stream(
        stream,
        device=device,
        requests=requests,
        tokens_of=tokens_of,
        audio_seconds=audio_seconds,
        warmup_s=warmup_s,
    )
    return generation_readings(recording, sla=objectives, batch=batch)


measure_stream.skip_benchmark = True  # type: ignore[attr-defined]  # a suite that imports it does not measure it


def record_stream(
    stream: Callable[[], Iterable[Any]],
    *,
    device: Device | None = None,
    requests: int = 8,
    tokens_of: Callable[[Any], int] | None = None,
    audio_seconds: Callable[[Any], float] | None = None,
    warmup_s: float = 0.5,
) -> Recording:
    """Send requests until they have settled, or for ``warmup_s`` seconds; then trace ``requests`` of them.

    Settled is what ``perfci.bench.timers.warmup`` says it is; a request is one call there. The cycle collector is off.

    A chunk counts as visible once the device has done all that was queued for it: one synchronise per chunk, which is
    what a user who reads the token causes as well. ``tokens_of(chunk)`` says how many tokens a chunk holds *per
    sequence* (0 for a chunk without output); without it every chunk is one token, so a tensor of shape (batch, 1) is
    one step of the whole batch. ``audio_seconds(chunk)`` is the length of the sound in that one chunk. Both are asked
    after the request has ended, outside the clock: a stream that reuses one buffer must not be asked for its content.

    Raises ``ValueError`` when the stream yields nothing or is no iterable.
    """
    if requests < 1:
        raise ValueError(f"at least 1 request has to be measured; got {requests}")
    device = device or this_device()
    request = Request(stream, device, tokens_of, audio_seconds)
    with collector_off() as collect:
        warmed = warm_up(request, device, warmup_s)
        events = Events(device)
        pairs = []
        for _ in range(requests):
            offer_turn()
            pairs.append(request())
            collect()
    reasons = [reason for reason in (warmed.unsettled, events.happened("in a measured request")) if reason]
    return Recording(
        tuple(wall for wall, _ in pairs),
        tuple(cpu for _, cpu in pairs) if device.kind == "cpu" else (),
        tuple(f"unsettled: {reason}" for reason in reasons),
    )


@dataclass(frozen=True, slots=True)
class Request:
    """Sends one request each time it is called, and gives its trace by the wall and by the CPU's clock."""

    stream: Callable[[], Iterable[Any]]
    device: Device
    tokens_of: Callable[[Any], int] | None = None
    audio_seconds: Callable[[Any], float] | None = None

    def __call__(self) -> tuple[Trace, Trace]:
        self.device.synchronize()
        moments, chunks = [_now()], []
        for chunk in self._chunks():
            self.device.synchronize()
            moments.append(_now())
            chunks.append(chunk)
        self.device.synchronize()
        moments.append(_now())
        if not chunks:
            raise ValueError("the stream yielded nothing; it has to yield each chunk of output as it becomes visible")
        tokens = [self._tokens(chunk) for chunk in chunks]
        audio = tuple(float(self.audio_seconds(chunk)) for chunk in chunks) if self.audio_seconds else ()
        wall, cpu = zip(*moments, strict=True)
        return _trace(wall, tokens, audio), _trace(cpu, tokens, audio)

    def _chunks(self) -> Iterator[Any]:
        output = self.stream()
        if not isinstance(output, Iterable):
            raise ValueError(f"the stream returned {type(output).__name__}; something that yields chunks was expected")
        return iter(output)

    def _tokens(self, chunk: Any) -> int:
        if self.tokens_of is None:
            return 1
        tokens = self.tokens_of(chunk)
        try:
            return operator.index(tokens)
        except TypeError:
            raise ValueError(f"tokens_of returned {tokens!r}; a whole number of tokens was expected") from None


def _trace(moments: Sequence[float], tokens: Sequence[int], audio: tuple[float, ...]) -> Trace:
    sent, *times, done = moments
    return Trace(sent, tuple(zip(times, tokens, strict=True)), done, audio)


def _now() -> tuple[float, float]:
    return perf_counter(), process_time()


def generation_readings(recording: Recording, *, sla: Sequence[Objective] = (), batch: int = 1) -> Measured:
    """Turn traced requests into the readings of ``GENERATION_METRICS``; what cannot be told is absent with its reason.

    Judged are ttft, ttfb, tpot, tpot_growth, itl, itl_per_token, e2el, rtf, sla_attainment and goodput: by CPU seconds
    where the CPU computed, with the wall beside them. Percentiles, tokens per second, rtfx and tpot_slope are
    witnesses, by the wall. ``batch`` sequences advance with each request and count in the two rates. Rates are over the
    time spent in requests, which follow each other with nothing between them but the harness.
    """
    read = TraceReadings(recording, sla, batch)
    readings: dict[str, Reading | Absent] = {
        "ttft": read.each(latency.ttft),
        "ttfb": read.each(latency.ttfb, NO_AUDIO),
        "tpot": read.each(latency.tpot, ONE_CHUNK),
        "tpot_slope": read.slope(),
        "tpot_growth": read.each(latency.tpot_growth, TOO_SHORT),
        "itl": read.twins(latency.itl, ONE_CHUNK),
        "itl_per_token": read.twins(latency.itl_per_token, ONE_CHUNK),
        "e2el": read.each(latency.e2el),
        **read.percentiles(),
        "generate_tok_s": read.tokens_per_second(),
        "rtf": read.each(_rtf, NO_AUDIO),
        "rtfx": read.rtfx(),
        "sla_attainment": read.attainment(),
        "goodput": read.goodput(),
    }
    return Measured(readings, (*recording.flags, *read.flags()))


def busy_seconds(traces: Iterable[Trace]) -> float:
    """Seconds spent in requests that follow each other."""
    return sum(map(latency.e2el, traces))


@dataclass(frozen=True, slots=True)
class TraceReadings:
    """Readings of traced requests; rates are over the seconds that ``seconds_of`` finds in them."""

    recording: Recording
    sla: Sequence[Objective] = ()
    batch: int = 1
    seconds_of: Callable[[Sequence[Trace]], float] = busy_seconds

    def each(self, value_of: Callable[[Trace], float | None], reason: str = "") -> Reading | Absent:
        """One sample per request that has the value."""
        return self.twins(lambda traces: [value for trace in traces if (value := value_of(trace)) is not None], reason)

    def twins(self, values_of: Callable[[Sequence[Trace]], list[float]], reason: str = "") -> Reading | Absent:
        """The same samples by the wall, and by the CPU's clock where it computed."""
        samples = values_of(self.recording.wall)
        return Reading(samples, Clock.WALL, cpu=values_of(self.recording.cpu)) if samples else Absent(reason)

    def slope(self) -> Reading | Absent:
        slope = latency.tpot_slope(self.recording.wall)
        return Absent(TOO_SHORT) if slope is None else witness(slope)

    def percentiles(self) -> dict[str, Reading | Absent]:
        """``ttft_p50`` to ``e2el_p99``, each a witness or absent for want of requests."""
        values = {"ttft": latency.ttft, "e2el": latency.e2el}
        return {
            f"{name}_{rank}": self._percentile([value_of(trace) for trace in self.recording.wall], share)
            for name, value_of in values.items()
            for rank, share in PERCENTILES.items()
        }

    def _percentile(self, values: Sequence[float], share: float) -> Reading | Absent:
        found = latency.percentile(values, share)
        if found is None:
            return Absent(f"needs {latency.needed(share)} requests, measured {len(values)}")
        return witness(found.value)

    def tokens_per_second(self) -> Reading:
        traces = self.recording.wall
        return witness(self.batch * latency.token_throughput(traces, self.seconds_of(traces)))

    def rtfx(self) -> Reading | Absent:
        traces = self.recording.wall
        if not any(trace.audio_s for trace in traces):
            return Absent(NO_AUDIO)
        return witness(latency.rtfx(self.seconds_of(traces), sum(trace.audio_seconds for trace in traces)))

    def attainment(self) -> Reading | Absent:
        return self._promised(lambda traces: latency.sla_attainment(traces, self.sla))

    def goodput(self) -> Reading | Absent:
        return self._promised(lambda traces: self.batch * latency.goodput(traces, self.sla, self.seconds_of(traces)))

    def _promised(self, value_of: Callable[[Sequence[Trace]], float]) -> Reading | Absent:
        if not self.sla:
            return Absent(NO_SLA)
        return self.twins(lambda traces: [value_of(traces)] if traces else [])

    def flags(self) -> tuple[str, ...]:
        """What has to be known beside the numbers: chunks that are no tokens, and a broken SLA."""
        most = latency.bundled(self.recording.wall)
        bundled = (f"a chunk holds up to {most} tokens: itl is the time between chunks",) if most > 1 else ()
        return (*bundled, *latency.violations(self.recording.wall, self.sla))


def _rtf(trace: Trace) -> float | None:
    return latency.rtf(latency.e2el(trace), trace.audio_seconds) if trace.audio_s else None
