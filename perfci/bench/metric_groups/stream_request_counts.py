"""Exact counts of one streamed request: no GPU is needed and every process gives equal numbers."""

from __future__ import annotations

from collections import deque

from perfci.bench.bound_model_hooks import BoundModelHooks
from perfci.bench.call_counts import COUNT_METRICS, count_call
from perfci.bench.metric_groups.model_requests import ModelRequests
from perfci.bench.readings import Absent, Measurement

TRAINING_ONLY = (
    "fake_peak_bytes",
    "optimizer_state_bytes",
    "graph_breaks",
    "recompiles",
    "generated_kernels",
)
METRICS = tuple(metric for metric in COUNT_METRICS if metric.name not in TRAINING_ONLY)


def measure(hooks: BoundModelHooks) -> Measurement:
    """Count the second request: the first fills caches and lazy buffers, which belong to the start."""
    requests = ModelRequests(hooks)
    model, inputs = requests.model, requests.make_inputs()

    def request() -> None:
        deque(requests.open_request(*inputs), maxlen=0)

    with requests.inference_context():
        request()
        counts = count_call(
            request,
            parameters=model.parameters() if hasattr(model, "parameters") else None,
            cache=hooks.kv_cache(model) if hooks.kv_cache is not None else None,
            device=hooks.device,
        )
    readings = counts.readings()
    if hooks.kv_cache is None:
        readings["kv_cache_bytes"] = Absent("it defines no kv_cache")
    return Measurement({metric.name: readings[metric.name] for metric in METRICS})
