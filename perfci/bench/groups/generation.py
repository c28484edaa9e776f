"""Latency of a stream: the first token, every further one, the whole, the tails, the promise kept or not."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from perfci.bench.generation import GENERATION_METRICS, measure_stream
from perfci.bench.readings import Measured
from perfci.bench.training import Mark
from perfci.bench.validity import WITNESSES, watch

if TYPE_CHECKING:
    from perfci.bench.model_bench import ModelBench

METRICS = (*GENERATION_METRICS, *WITNESSES)


@torch.no_grad()  # type: ignore[untyped-decorator]
def measure(bench: ModelBench, p: Mapping[str, Any]) -> Measured:
    """Send ``requests`` streams one after the other; definitions are those of ``perfci.bench.latency``."""
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
    return Measured({**measured.readings, **watched.readings}, (*measured.flags, *watched.flags))


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
