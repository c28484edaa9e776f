"""Latency of a stream: time to first token, time per further token, the whole request, tails and SLA."""

from __future__ import annotations

from collections import deque

import torch

from perfci.bench.compilers.compile_cache_fingerprint import cache_fingerprint_flags
from perfci.bench.devices.device_monitor import CONDITION_METRICS, monitor_device
from perfci.bench.devices.energy_meter import joules_per_call
from perfci.bench.model_benchmark_callables import ModelBenchmarkCallables
from perfci.bench.readings import Absent, Measurement, Reading
from perfci.bench.streams.stream_requests import GENERATION_METRICS, measure_stream
from perfci.bench.timers.stage_timers import PhaseMarker, ProfiledWork
from perfci.model import Metric

METRICS = (*GENERATION_METRICS, Metric("token_energy", "joules/token"), *CONDITION_METRICS)


@torch.no_grad()  # type: ignore[untyped-decorator]
def measure(callables: ModelBenchmarkCallables) -> Measurement:
    """Send ``requests`` streams one after the other; definitions are those of
    ``perfci.bench.streams.request_metrics``.
    """
    torch.manual_seed(0)
    model, stream = callables.build(), callables.require_stream_callable()
    with monitor_device(callables.device) as conditions:
        measured = measure_stream(
            lambda: stream(model),
            device=callables.device,
            requests=callables.requests,
            tokens_of=callables.tokens_of,
            audio_seconds=callables.audio_seconds,
            sla=callables.sla,
        )
    token_energy = _token_energy(callables, model)
    readings = {**measured.readings, "token_energy": token_energy, **conditions.readings}
    return Measurement(readings, (*measured.flags, *conditions.flags, *cache_fingerprint_flags()))


def _token_energy(callables: ModelBenchmarkCallables, model: object) -> Reading | Absent:
    """Joules of a request over its tokens; what the board draws between requests is part of neither."""
    stream, tokens_of = callables.require_stream_callable(), callables.tokens_of
    tokens = 0

    def request() -> None:
        nonlocal tokens
        tokens = sum(tokens_of(chunk) if tokens_of else 1 for chunk in stream(model))

    joules = joules_per_call(request, device=callables.device)
    if isinstance(joules, Absent):
        return joules
    return Reading([sample / tokens for sample in joules.samples], joules.clock, joules.number)


def build_profiled_request(callables: ModelBenchmarkCallables) -> ProfiledWork:
    """One request with prefill and decode marked, for a profiler."""
    torch.manual_seed(0)
    model, stream = callables.build(), callables.require_stream_callable()

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def request(mark_phase: PhaseMarker) -> None:
        with mark_phase("prefill"):
            chunks = iter(stream(model))
            next(chunks, None)
        with mark_phase("decode"):
            deque(chunks, maxlen=0)  # runs an iterator to its end in C, keeping nothing

    return request  # type: ignore[no-any-return]
