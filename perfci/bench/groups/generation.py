"""Latency of a stream: the first token, every further one, the whole, the tails, the promise kept or not."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from perfci.bench.compilers.compile_caches import cache_flags
from perfci.bench.devices.device_monitor import CONDITION_METRICS, monitor_device
from perfci.bench.devices.energy_meter import joules_per_call
from perfci.bench.groups.training_loop import PhaseMarker
from perfci.bench.readings import Absent, Measurement, Reading
from perfci.bench.streams.stream_requests import GENERATION_METRICS, measure_stream
from perfci.model import Metric

if TYPE_CHECKING:
    from perfci.bench.model_bench import ModelBench

METRICS = (*GENERATION_METRICS, Metric("token_energy", "joules/token"), *CONDITION_METRICS)


@torch.no_grad()  # type: ignore[untyped-decorator]
def measure(context: ModelBench, p: Mapping[str, Any]) -> Measurement:
    """Send ``requests`` streams one after the other; definitions are those of ``perfci.bench.streams.latency``."""
    torch.manual_seed(0)
    model = context.build(p)
    with monitor_device(context.target_device) as watched:
        measured = measure_stream(
            lambda: context.stream(model, p),
            device=context.target_device,
            requests=context.requests,
            tokens_of=context.tokens_of,
            audio_seconds=context.audio_seconds,
            sla=context.sla or None,
        )
    readings = {**measured.readings, "token_energy": _token_energy(context, model, p), **watched.readings}
    return Measurement(readings, (*measured.flags, *watched.flags, *cache_flags()))


def _token_energy(context: ModelBench, model: Any, p: Mapping[str, Any]) -> Reading | Absent:
    """Joules of a request over its tokens; what the board draws between requests is part of neither."""
    tokens = 0

    def request() -> None:
        nonlocal tokens
        tokens = sum(
            context.tokens_of(chunk) if context.tokens_of else 1 for chunk in context.stream(model, p)
        )

    joules = joules_per_call(request, device=context.target_device)
    if isinstance(joules, Absent):
        return joules
    return Reading([sample / tokens for sample in joules.samples], joules.clock, joules.number)


def build_profiled_request(context: ModelBench, p: Mapping[str, Any]) -> Callable[[PhaseMarker], None]:
    """One request with prefill and decode marked, for a profiler."""
    torch.manual_seed(0)
    model = context.build(p)

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def request(mark_phase: PhaseMarker) -> None:
        with mark_phase("prefill"):
            chunks = iter(context.stream(model, p))
            next(chunks, None)
        with mark_phase("decode"):
            deque(chunks, maxlen=0)

    return request  # type: ignore[no-any-return]
