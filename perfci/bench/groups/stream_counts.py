"""What one request does, counted exactly: no GPU is needed and every process gives the same."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from perfci.bench.call_counts import COUNT_METRICS, count_call
from perfci.bench.readings import Measurement

if TYPE_CHECKING:
    from perfci.bench.model_bench import ModelBench

TRAINING_ONLY = (
    "fake_peak_bytes",
    "optimizer_state_bytes",
    "graph_breaks",
    "recompiles",
    "generated_kernels",
)
METRICS = tuple(metric for metric in COUNT_METRICS if metric.name not in TRAINING_ONLY)


@torch.no_grad()  # type: ignore[untyped-decorator]
def measure(context: ModelBench, p: Mapping[str, Any]) -> Measurement:
    """Count the second request: what a first one fills (caches, lazy buffers) belongs to the start."""
    torch.manual_seed(0)
    model = context.build(p)

    def request() -> None:
        deque(context.stream(model, p), maxlen=0)

    request()
    proxies = count_call(
        request,
        parameters=model.parameters() if hasattr(model, "parameters") else None,
        cache=context.kv_cache(model, p) if context.kv_cache is not None else None,
        device=context.target_device,
    )
    readings = proxies.readings()
    return Measurement({metric.name: readings[metric.name] for metric in METRICS})
