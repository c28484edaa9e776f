"""Latencies from request timestamps: TTFT, TPOT, ITL, E2EL, percentiles, RTF, SLA, goodput.

Numbers in, numbers out: no clock is read here. The definitions are those of ``vllm bench serve`` (its
``calculate_metrics``), because that is what teams compare with; where one of them is known to mislead, the
function says so and what it does instead.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from perfci.number_format import format_percent

CONFIDENCE = 0.99
"""Confidence a tail percentile needs before it is given: 99 %, as in MLPerf LoadGen's early stopping."""

INTERVAL_COVERAGE = 0.95
"""Coverage of the bounds beside a percentile, as of every other interval of perfci."""

MIN_GAPS = 8
"""Gaps between chunks that TPOT over position needs: a quarter of them is two."""


@dataclass(frozen=True, slots=True)
class InputAudio:
    """Sound that a request was given while it arrived: its length, its end, and the work it caused.

    ``arrived_at`` is when the last piece that was read had been spoken; ``compute_s`` is the time of the
    request that was not spent waiting for sound.
    """

    seconds: float
    arrived_at: float
    compute_s: float


@dataclass(frozen=True, slots=True)
class RequestTrace:
    """When one request was sent, when each of its chunks became visible, and when its stream had ended.

    Times are seconds of one clock. ``chunks`` holds (time, tokens) in the order they came; a chunk of 0
    tokens (a role, an empty delta) carries no output and counts for nothing. ``chunk_audio_s`` holds the
    seconds of audio in each chunk where the output is sound. ``ended_at`` is when the stream signalled its
    end, not when its last chunk came. ``sequences`` is how many texts advance with each chunk (a batch);
    None where that is not known. With ``input_audio`` a request is sent when the newest piece of sound
    that its first output rests on had arrived.

    Raises ``ValueError`` for times that are negative, not finite or out of order, and for a request without
    output: a failed request is no fast one.
    """

    sent_at: float
    chunks: tuple[tuple[float, int], ...]
    ended_at: float
    chunk_audio_s: tuple[float, ...] = ()
    sequences: int | None = 1
    input_audio: InputAudio | None = None

    def __post_init__(self) -> None:
        times = [self.sent_at, *(time for time, _ in self.chunks), self.ended_at]
        if not all(math.isfinite(time) and time >= 0 for time in times):
            raise ValueError(f"times must be finite and not negative, in seconds of one clock; got {times}")
        if any(later < earlier for earlier, later in pairwise(times)):
            raise ValueError(
                f"times must not go back: sent, chunks in the order they came, done; got {times}"
            )
        if any(tokens < 0 for _, tokens in self.chunks):
            raise ValueError(
                f"a chunk cannot hold less than 0 tokens; got {[tokens for _, tokens in self.chunks]}"
            )
        if not self.chunks_with_output:
            raise ValueError("the request has no output: no chunk of it holds a token")
        if self.chunk_audio_s and len(self.chunk_audio_s) != len(self.chunks):
            raise ValueError(
                f"{len(self.chunks)} chunks came with {len(self.chunk_audio_s)} lengths of "
                "audio; give one each"
            )
        if not all(math.isfinite(seconds) and seconds >= 0 for seconds in self.chunk_audio_s):
            raise ValueError(
                f"seconds of audio must be finite and not negative; got {list(self.chunk_audio_s)}"
            )

    @property
    def chunks_with_output(self) -> tuple[tuple[float, int], ...]:
        """The chunks that carry output."""
        return tuple(chunk for chunk in self.chunks if chunk[1] > 0)

    @property
    def output_tokens(self) -> int:
        return sum(tokens for _, tokens in self.chunks)

    @property
    def audio_seconds(self) -> float:
        """Seconds of sound: of the output, or of the input where the output is no sound."""
        if self.chunk_audio_s or self.input_audio is None:
            return math.fsum(self.chunk_audio_s)
        return self.input_audio.seconds

    @property
    def compute_seconds(self) -> float:
        """Seconds the request was worked on: all of them, but for waiting for sound to arrive."""
        return e2el(self) if self.input_audio is None else self.input_audio.compute_s


def ttft(trace: RequestTrace) -> float:
    """Time to first token, seconds: from sending the request to its first chunk that carries output.

    A first chunk without a token (only a role) does not count (vllm#15106).
    """
    return trace.chunks_with_output[0][0] - trace.sent_at


def first_audio_delay(trace: RequestTrace) -> float | None:
    """Time to first sound, seconds: from sending to the first chunk with audio; None without any."""
    for (time, _), seconds in zip(trace.chunks, trace.chunk_audio_s, strict=False):
        if seconds > 0:
            return time - trace.sent_at
    return None


def e2el(trace: RequestTrace) -> float:
    """End-to-end latency, seconds: from sending the request to the end of its stream, at the client.

    vLLM ends it at the last chunk; the two agree where the stream ends with that chunk. Work after it
    (closing a file, a last filter) keeps a user waiting too, so here it counts. Where sound comes in, it
    begins when the last of it has arrived: what is left to wait for once somebody has spoken.
    """
    return trace.ended_at - (trace.input_audio.arrived_at if trace.input_audio else trace.sent_at)


def tpot(trace: RequestTrace) -> float | None:
    """Time per output token after the first chunk, seconds: (E2EL - TTFT) / (tokens after that chunk).

    vLLM divides by the output tokens - 1, which is the same where the first chunk is one token. Where it
    holds more, those came with the first one and took none of the time: two chunks of 24 tokens would
    appear twice as fast as they are. None for a request of one token, which vLLM leaves out of the
    statistic as well, and for one whose tokens all came in one chunk: nothing is known of its pace
    (vllm#5263).
    """
    outputs = trace.chunks_with_output
    if len(outputs) < 2:
        return None
    first_output_at, first_tokens = outputs[0]
    return (trace.ended_at - first_output_at) / (trace.output_tokens - first_tokens)


def itl(traces: Iterable[RequestTrace]) -> list[float]:
    """Inter-token latencies, seconds: the gaps between chunks that carry output, pooled over requests.

    The gap before the first chunk is TTFT and not in it. This is vLLM's name and definition; where a chunk
    holds several tokens it is the time between chunks and not between tokens (vllm#27485, sglang#12064),
    and it may lie on either side of TPOT, which averages per request (vllm#6531). ``itl_per_token`` is the
    one that does not depend on how tokens are bundled, and ``max_tokens_per_chunk`` tells whether the two
    differ.
    """
    return [gap for trace in traces for gap, _ in _output_gaps(trace)]


def itl_per_token(traces: Iterable[RequestTrace]) -> list[float]:
    """Seconds per token between chunks: each gap divided by the tokens of the chunk that ended it, pooled."""
    return [gap / tokens for trace in traces for gap, tokens in _output_gaps(trace)]


def max_tokens_per_chunk(traces: Iterable[RequestTrace]) -> int:
    """Most tokens in any chunk; above 1 ``itl`` is the time between chunks and not between tokens."""
    return max(tokens for trace in traces for _, tokens in trace.chunks)


def _output_gaps(trace: RequestTrace) -> list[tuple[float, int]]:
    """(seconds since the previous output, tokens that came) for each chunk with output but the first."""
    outputs = trace.chunks_with_output
    return [(time - before, tokens) for (before, _), (time, tokens) in pairwise(outputs)]


def tpot_slope(traces: Sequence[RequestTrace]) -> float | None:
    """How much longer each further token takes, seconds per token per token; near 0 with a working KV cache.

    A cache that is lost or copied makes every token cost its whole context, so the gaps grow with position.
    Each request's gaps per token over the position of the token are paired, the first with the first of the
    second half and so on, and the slope is the median over all pairs: Theil's incomplete method (Theil
    1950), which a few stalls cannot turn. None where no request has ``MIN_GAPS`` gaps. It may be negative
    and has no ratio: judge ``tpot_growth``.
    """
    slopes: list[float] = []
    for trace in traces:
        paces = _seconds_per_token(trace)
        if len(paces) < MIN_GAPS:
            continue
        later = paces[(len(paces) + 1) // 2 :]
        slopes += [(b - a) / (there - here) for (here, a), (there, b) in zip(paces, later, strict=False)]
    return median(slopes) if slopes else None


def tpot_growth(trace: RequestTrace) -> float | None:
    """Median time per token in the last quarter of a request over that in the first; 1 is a flat TPOT.

    Like ``tpot_slope``, but a number that is always positive, so that a ratio between two commits exists.
    None for a request of fewer than ``MIN_GAPS`` gaps, or one whose first quarter took no measurable time.
    """
    paces = [pace for _, pace in _seconds_per_token(trace)]
    if len(paces) < MIN_GAPS:
        return None
    quarter = len(paces) // 4
    first, last = median(paces[:quarter]), median(paces[-quarter:])
    return last / first if first > 0 else None


def _seconds_per_token(trace: RequestTrace) -> list[tuple[int, float]]:
    """(position of the chunk's last token, seconds per token) for each chunk with output but the first."""
    position = trace.chunks_with_output[0][1]
    paces = []
    for gap, tokens in _output_gaps(trace):
        position += tokens
        paces.append((position, gap / tokens))
    return paces


def rtf(compute_seconds: float, audio_seconds: float) -> float:
    """Real-time factor: seconds of computing per second of audio. Lower is better, below 1 is live.

    ``rtfx`` is its inverse (what vLLM reports as RTFx). Raises ``ValueError`` for no audio or less.
    """
    if not audio_seconds > 0:
        raise ValueError(f"a real-time factor needs audio; the output holds {audio_seconds} seconds of it")
    if not compute_seconds >= 0:
        raise ValueError(f"seconds of computing cannot be {compute_seconds}")
    return compute_seconds / audio_seconds


def rtfx(compute_seconds: float, audio_seconds: float) -> float:
    """Seconds of audio made per second of computing, a ratio: the inverse of ``rtf``, higher is better."""
    if not compute_seconds > 0:
        raise ValueError(
            f"the inverse real-time factor needs computing that took time; got {compute_seconds} seconds"
        )
    return audio_seconds / compute_seconds


@dataclass(frozen=True, slots=True)
class Percentile:
    """A percentile of ``n`` values with its 95 % interval of order statistics, None where n is too small."""

    value: float
    lo: float | None
    hi: float | None
    n: int


def percentile(values: Sequence[float], quantile: float) -> Percentile | None:
    """Estimate the value below which a share ``quantile`` (0.9) of requests lie; None with too few.

    The estimate interpolates linearly (numpy's default, as in vLLM). A median is always given. A tail needs
    ``required_percentile_samples(quantile)`` values: 64 for p90 and 662 for p99. The bounds assume no
    distribution: the number of values below the true percentile is binomial, which makes two of the ordered
    values its interval (Conover 1999, 3.2).
    """
    if not values:
        raise ValueError("a percentile needs at least one value")
    n = len(values)
    if n < required_percentile_samples(quantile):
        return None
    ordered = sorted(values)
    place = quantile * (n - 1)
    below = math.floor(place)
    above = min(below + 1, n - 1)
    estimate = ordered[below] + (place - below) * (ordered[above] - ordered[below])
    low, high = _bound_ranks(n, quantile)
    return Percentile(
        min(estimate, ordered[above]),  # rounding may lift it above its upper neighbour
        None if low is None else ordered[low - 1],
        None if high is None else ordered[high - 1],
        n,
    )


@functools.cache
def required_percentile_samples(quantile: float) -> int:
    """How many values a percentile needs: the fewest whose second largest lies above it with 99 % confidence.

    MLPerf LoadGen's early stopping for a single stream: P[Binomial(n, 1 - quantile) <= 1] <= 0.01, so 64
    for p90 and 662 for p99. With fewer, the number would be the maximum under another name. Up to the
    median 1 is enough.
    """
    if not 0 < quantile < 1:
        raise ValueError(f"the share of a percentile lies between 0 and 1; got {quantile}")
    if quantile <= 0.5:
        return 1
    n = 2
    while quantile**n + n * (1 - quantile) * quantile ** (n - 1) > 1 - CONFIDENCE:
        n += 1
    return n


@functools.lru_cache(maxsize=64)
def _bound_ranks(n: int, quantile: float) -> tuple[int | None, int | None]:
    """Ranks (from 1) of the order statistics around a percentile, each exceeded with at most 2.5 %."""
    tail = (1 - INTERVAL_COVERAGE) / 2
    below = 0.0  # P[Binomial(n, quantile) < rank]
    low = high = None
    for rank in range(1, n + 1):
        k = rank - 1
        # By logarithms: the binomial coefficient of a thousand requests is beyond a float.
        choose = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
        below += math.exp(choose + k * math.log(quantile) + (n - k) * math.log1p(-quantile))
        if below <= tail:
            low = rank
        if high is None and 1 - below <= tail:
            high = rank
    return low, high


@dataclass(frozen=True, slots=True)
class SlaObjective:
    """SLA objective: ``metric`` at most ``limit`` for at least ``required_share`` of the requests."""

    name: str
    metric: str
    limit: float
    required_share: float

    def is_met_by(self, trace: RequestTrace) -> bool:
        value = SLA_METRICS[self.metric](trace)
        return value is None or value <= self.limit


def _trace_rtf(trace: RequestTrace) -> float:
    return rtf(trace.compute_seconds, trace.audio_seconds)


SLA_METRICS: Mapping[str, Callable[[RequestTrace], float | None]] = {
    "ttft": ttft,
    "tpot": tpot,
    "e2el": e2el,
    "ttfb": first_audio_delay,
    "rtf": _trace_rtf,
}
"""Metrics an SLA may limit, per request: seconds, seconds per token, or a ratio for ``rtf``."""


def parse_sla(spec: Mapping[str, float]) -> tuple[SlaObjective, ...]:
    """Read ``{"e2el_p90": 2.0, "ttft": 0.5}``: 90 % of the requests end within 2 s, all begin within 0.5 s.

    A limit holds for one request; a suffix ``_pNN`` says which share of them has to keep it. Raises
    ``ValueError`` for a name that is none of ``SLA_METRICS`` and for a limit that is no positive number.
    """
    if not spec:
        raise ValueError('an SLA needs at least one objective, such as {"e2el_p90": 2.0}')
    objectives = []
    for name, limit in spec.items():
        match = re.fullmatch(r"([a-z0-9]+?)(?:_p([1-9][0-9]?))?", name)
        if match is None or match[1] not in SLA_METRICS:
            metrics = ", ".join(SLA_METRICS)
            raise ValueError(
                f"the SLA names {name!r}; known are {metrics}, each also with _p50, _p90, _p99 behind it"
            )
        if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 < limit < math.inf:
            raise ValueError(
                f"the SLA limits {name} to {limit!r}; a positive number of seconds (or a ratio) was expected"
            )
        required_share = int(match[2]) / 100 if match[2] else 1.0
        objectives.append(SlaObjective(name, match[1], float(limit), required_share))
    return tuple(objectives)


def sla_attainment(traces: Sequence[RequestTrace], sla: Sequence[SlaObjective]) -> float:
    """The share of requests that keep every limit of the SLA, a ratio from 0 to 1.

    As in vLLM's goodput a request of one token has no TPOT and keeps any limit on it.
    """
    return len(_select_met(traces, sla)) / len(_require_traces(traces))


def goodput(
    traces: Sequence[RequestTrace], sla: Sequence[SlaObjective], wall_s: float | None = None
) -> float:
    """Requests per second that keep every limit of the SLA (DistServe, Zhong et al. 2024).

    A batch counts as the requests it answers together. Raises ``ValueError`` where that is not known.
    """
    met = sum(map(_require_sequences, _select_met(traces, sla)))
    return met / _total_seconds(traces, wall_s)


def request_throughput(traces: Sequence[RequestTrace], wall_s: float | None = None) -> float:
    """Requests per second, over ``wall_s`` seconds or from the first sending to the last end."""
    return len(traces) / _total_seconds(traces, wall_s)


def token_throughput(traces: Sequence[RequestTrace], wall_s: float | None = None) -> float:
    """Output tokens of all sequences per second, over ``wall_s`` or from the first sending to the last end.

    Raises ``ValueError`` where it is not known how many sequences a request is.
    """
    tokens = sum(trace.output_tokens * _require_sequences(trace) for trace in traces)
    return tokens / _total_seconds(traces, wall_s)


def _require_sequences(trace: RequestTrace) -> int:
    if trace.sequences is None:
        raise ValueError("a rate needs the number of sequences that a request answers together")
    return trace.sequences


def describe_sla_violations(traces: Sequence[RequestTrace], sla: Sequence[SlaObjective]) -> tuple[str, ...]:
    """A sentence for each objective that fewer requests keep than it requires."""
    shares = [(objective, sla_attainment(traces, [objective])) for objective in sla]
    return tuple(
        f"sla: {format_percent(kept)} of {len(traces)} requests keep "
        f"{objective.name} <= {objective.limit:g}, required: {format_percent(objective.required_share)}"
        for objective, kept in shares
        if kept < objective.required_share
    )


def _select_met(traces: Sequence[RequestTrace], sla: Sequence[SlaObjective]) -> list[RequestTrace]:
    return [trace for trace in traces if all(objective.is_met_by(trace) for objective in sla)]


def _total_seconds(traces: Sequence[RequestTrace], wall_s: float | None) -> float:
    _require_traces(traces)
    if wall_s is None:
        wall_s = max(trace.ended_at for trace in traces) - min(trace.sent_at for trace in traces)
    if not 0 < wall_s < math.inf:
        raise ValueError(f"{len(traces)} requests took {wall_s} seconds; a rate needs a time above 0")
    return wall_s


def _require_traces(traces: Sequence[RequestTrace]) -> Sequence[RequestTrace]:
    if not traces:
        raise ValueError("there is no request to judge")
    return traces
