"""What a training step does, counted exactly: no GPU is needed and every process gives the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from perfci.bench.call_counts import COUNT_METRICS, count_call
from perfci.bench.call_counts.graph_counts import count_graphs
from perfci.bench.groups.training_loop import TrainingLoop
from perfci.bench.readings import Absent, Measurement, Reading, exact

if TYPE_CHECKING:
    from perfci.bench.model_bench import ModelBench

GRAPH_METRICS = ("graph_breaks", "recompiles")
METRICS = tuple(
    metric for metric in COUNT_METRICS if metric.name not in ("kv_cache_bytes", "generated_kernels")
)


def measure(context: ModelBench, p: Mapping[str, Any]) -> Measurement:
    """Count the second step: the first makes the optimizer's state. ``p`` are the parameters of the cell."""
    training = TrainingLoop(context, p)
    training.check_first_loss()
    training.step()
    counted = count_call(
        training.step,
        rebuild=lambda: _train_two_steps(context, p),
        parameters=training.model.parameters(),
        optimizer=training.optimizer,
        device=context.target_device,
    ).readings()
    readings = counted | _graph_readings(context, p, training)
    return Measurement({metric.name: readings[metric.name] for metric in METRICS})


def _graph_readings(
    context: ModelBench, p: Mapping[str, Any], training: TrainingLoop
) -> dict[str, Reading | Absent]:
    """What ``torch.compile`` makes of the loss, the number format chosen outside: perfci's own code is not traced."""
    model, batch = training.model, training.next_batch()
    with context.autocast(p):
        graphs = count_graphs(lambda: context.loss(model, batch))
    if isinstance(graphs, Absent):
        return dict.fromkeys(GRAPH_METRICS, graphs)
    return dict(zip(GRAPH_METRICS, (exact(graphs.breaks), exact(graphs.recompiles)), strict=True))


def _train_two_steps(context: ModelBench, p: Mapping[str, Any]) -> None:
    training = TrainingLoop(context, p)
    training.step()
    training.step()
