"""What a training step does, counted exactly: no GPU is needed and every process gives the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from perfci.bench.call_counts import PROXY_METRICS, count
from perfci.bench.call_counts.graph_counts import trace
from perfci.bench.groups.training_loop import Training
from perfci.bench.readings import Absent, Measured, Reading, exact

if TYPE_CHECKING:
    from perfci.bench.model_bench import ModelBench

GRAPHS = ("graph_breaks", "recompiles")
METRICS = tuple(metric for metric in PROXY_METRICS if metric.name not in ("kv_cache_bytes", "generated_kernels"))


def measure(bench: ModelBench, p: Mapping[str, Any]) -> Measured:
    """Count the second step: the first makes the optimizer's state. ``p`` are the parameters of the cell."""
    training = Training(bench, p)
    training.check()
    training.step()
    counted = count(
        training.step,
        whole=lambda: _two_steps(bench, p),
        parameters=training.model.parameters(),
        optimizer=training.optimizer,
        device=bench.shim,
    ).readings()
    readings = counted | _graphs(bench, p, training)
    return Measured({metric.name: readings[metric.name] for metric in METRICS})


def _graphs(bench: ModelBench, p: Mapping[str, Any], training: Training) -> dict[str, Reading | Absent]:
    """What ``torch.compile`` makes of the loss, the number format chosen outside: perfci's own code is not traced."""
    model, batch = training.model, training.next_batch()
    with bench.autocast(p):
        graphs = trace(lambda: bench.loss(model, batch))
    if isinstance(graphs, Absent):
        return dict.fromkeys(GRAPHS, graphs)
    return dict(zip(GRAPHS, (exact(graphs.breaks), exact(graphs.recompiles)), strict=True))


def _two_steps(bench: ModelBench, p: Mapping[str, Any]) -> None:
    training = Training(bench, p)
    training.step()
    training.step()
