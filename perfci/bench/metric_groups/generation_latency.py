"""Latency of a stream: time to first token, time per further token, the whole request, tails and SLA."""

from __future__ import annotations

from collections import deque
from itertools import islice

from perfci.bench.bound_model_hooks import BoundModelHooks
from perfci.bench.compilers.compile_cache_fingerprint import cache_fingerprint_flags
from perfci.bench.devices.device_monitor import CONDITION_METRICS, monitor_device
from perfci.bench.devices.energy_meter import joules_per_call
from perfci.bench.metric_groups.model_requests import ModelRequests
from perfci.bench.readings import Absent, Measurement, Reading
from perfci.bench.streams.stream_requests import GENERATION_METRICS, UNKNOWN_BATCH_REASON, measure_stream
from perfci.bench.timers.stage_timers import PhaseMarker, ProfiledWork
from perfci.model import Metric

PROFILED_CHUNKS = 64

METRICS = (*GENERATION_METRICS, Metric("token_energy", "joules/token"), *CONDITION_METRICS)


def measure(hooks: BoundModelHooks) -> Measurement:
    """Send ``requests`` streams one after the other; definitions are those of
    ``perfci.bench.streams.request_metrics``.
    """
    requests = ModelRequests(hooks)
    with requests.inference_context():
        with monitor_device(hooks.device) as conditions:
            measured = measure_stream(
                requests.open_request,
                device=hooks.device,
                requests=hooks.requests,
                batch=requests.count_sequences,
                prompt=hooks.prompt,
                audio_in=hooks.audio_in,
                tokens_of=hooks.tokens_of,
                audio_seconds=hooks.audio_seconds,
                sla=hooks.sla,
            )
        token_energy = _token_energy(hooks, requests)
    readings = {**measured.readings, "token_energy": token_energy, **conditions.readings}
    return Measurement(readings, (*measured.flags, *conditions.flags, *cache_fingerprint_flags()))


def _token_energy(hooks: BoundModelHooks, requests: ModelRequests) -> Reading | Absent:
    """Joules of a request over its tokens, of all its sequences; what the board draws between requests is
    part of neither.
    """
    tokens_of = hooks.tokens_of
    tokens, sequences = 0, None

    def request() -> None:
        nonlocal tokens, sequences
        chunks = list(requests.open_request(*requests.make_inputs()))
        tokens = sum(tokens_of(chunk) if tokens_of else 1 for chunk in chunks)
        sequences = requests.count_sequences(chunks[0])

    joules = joules_per_call(request, device=hooks.device)
    if isinstance(joules, Absent):
        return joules
    if sequences is None:
        return Absent(UNKNOWN_BATCH_REASON)
    made = tokens * sequences
    return Reading([sample / made for sample in joules.samples], joules.clock, joules.number)


def build_profiled_request(hooks: BoundModelHooks) -> ProfiledWork:
    """The first chunks of a request with prefill and decode marked, for a profiler.

    Further chunks run the same kernels again: 512 tokens of a GPT-2 would be a million events.
    """
    requests = ModelRequests(hooks)

    def request(mark_phase: PhaseMarker) -> None:
        inputs = requests.make_inputs()
        with requests.inference_context():
            with mark_phase("prefill"):
                chunks = iter(requests.open_request(*inputs))
                next(chunks, None)
            with mark_phase("decode"):
                deque(islice(chunks, PROFILED_CHUNKS - 1), maxlen=0)  # reads them in C, keeping nothing

    return request
