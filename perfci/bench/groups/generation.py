"""Latency of a stream: the first token, every further one, the whole, the tails, the promise kept or not."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from perfci.bench.compilers.compile_caches import caches
from perfci.bench.devices.device_monitor import WITNESSES, watch
from perfci.bench.devices.energy_meter import joules_per_call
from perfci.bench.groups.training_loop import Mark
from perfci.bench.readings import Absent, Measured, Reading
from perfci.bench.streams.stream_requests import GENERATION_METRICS, measure_stream
from perfci.model import Metric

if TYPE_CHECKING:
    from perfci.bench.model_bench import ModelBench

METRICS = (*GENERATION_METRICS, Metric("token_energy", "joules/token"), *WITNESSES)


@torch.no_grad()  # type: ignore[untyped-decorator]
def measure(bench: ModelBench, p: Mapping[str, Any]) -> Measured:
    """Send ``requests`` streams one after the other; definitions are those of ``perfci.bench.streams.latency``."""
    torch.manual_seed(0)
    model = bench.build(p)
    with watch(bench.shim) as watched:
        measured = measure_stream(
            lambda: bench.stream(model, p),
            device=bench.shim,
            requests=bench.requests,
            tokens_of=bench.tokens_of,
            audio_seconds=bench.audio_seconds,
            sla=bench.sla or None,
        )
    readings = {**measured.readings, "token_energy": _token_energy(bench, model, p), **watched.readings}
    return Measured(readings, (*measured.flags, *watched.flags, *caches()))


def _token_energy(bench: ModelBench, model: Any, p: Mapping[str, Any]) -> Reading | Absent:
    """Joules of a request over its tokens; what the board draws between requests is part of neither."""
    tokens = 0

    def request() -> None:
        nonlocal tokens
        tokens = sum(bench.tokens_of(chunk) if bench.tokens_of else 1 for chunk in bench.stream(model, p))

    joules = joules_per_call(request, device=bench.shim)
    if isinstance(joules, Absent):
        return joules
    return Reading([sample / tokens for sample in joules.samples], joules.clock, joules.number)


def profiled(bench: ModelBench, p: Mapping[str, Any]) -> Callable[[Mark], None]:
    """One request with prefill and decode marked, for a profiler."""
    torch.manual_seed(0)
    model = bench.build(p)

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def request(mark: Mark) -> None:
        with mark("prefill"):
            chunks = iter(bench.stream(model, p))
            next(chunks, None)
        with mark("decode"):
            deque(chunks, maxlen=0)

    return request  # type: ignore[no-any-return]
