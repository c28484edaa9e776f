"""What one request does, counted exactly: no GPU is needed and every process gives the same."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from perfci.bench.call_counts import PROXY_METRICS, count
from perfci.bench.readings import Measured

if TYPE_CHECKING:
    from perfci.bench.model_bench import ModelBench

OF_TRAINING = ("fake_peak_bytes", "optimizer_state_bytes", "graph_breaks", "recompiles", "generated_kernels")
METRICS = tuple(metric for metric in PROXY_METRICS if metric.name not in OF_TRAINING)


@torch.no_grad()  # type: ignore[untyped-decorator]
def measure(bench: ModelBench, p: Mapping[str, Any]) -> Measured:
    """Count the second request: what a first one fills (caches, lazy buffers) belongs to the start."""
    torch.manual_seed(0)
    model = bench.build(p)

    def request() -> None:
        deque(bench.stream(model, p), maxlen=0)

    request()
    proxies = count(
        request,
        parameters=model.parameters() if hasattr(model, "parameters") else None,
        cache=bench.kv_cache(model, p) if bench.kv_cache is not None else None,
        device=bench.shim,
    )
    readings = proxies.readings()
    return Measured({metric.name: readings[metric.name] for metric in METRICS})
