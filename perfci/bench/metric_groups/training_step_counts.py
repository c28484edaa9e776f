"""Exact counts of one training step: no GPU is needed and every process gives equal numbers."""

from __future__ import annotations

from perfci.bench.call_counts import COUNT_METRICS, count_call
from perfci.bench.call_counts.compilation_counts import count_breaks_and_recompiles
from perfci.bench.metric_groups.training_loop import TrainingLoop
from perfci.bench.model_benchmark_callables import ModelBenchmarkCallables
from perfci.bench.readings import Absent, Measurement, Reading, exact

GRAPH_METRICS = ("graph_breaks", "recompiles")
METRICS = tuple(
    metric for metric in COUNT_METRICS if metric.name not in ("kv_cache_bytes", "generated_kernels")
)


def measure(callables: ModelBenchmarkCallables) -> Measurement:
    """Count the second step: the first allocates the optimizer's state."""
    training = TrainingLoop(callables)
    training.check_first_loss()
    training.step()

    def train_two_steps() -> None:
        rebuilt = TrainingLoop(callables)
        rebuilt.step()
        rebuilt.step()

    counted = count_call(
        training.step,
        rebuild=train_two_steps,
        parameters=training.model.parameters(),
        optimizer=training.optimizer,
        device=callables.device,
    ).readings()
    readings = counted | _graph_readings(callables, training)
    return Measurement({metric.name: readings[metric.name] for metric in METRICS})


def _graph_readings(
    callables: ModelBenchmarkCallables, training: TrainingLoop
) -> dict[str, Reading | Absent]:
    """Count what ``torch.compile`` makes of the loss. Autocast is entered outside, so that it is not
    traced.
    """
    model, batch, loss = training.model, training.next_resident_batch(), callables.require_loss_callable()
    with callables.autocast():
        graphs = count_breaks_and_recompiles(lambda: loss(model, batch))
    if isinstance(graphs, Absent):
        return dict.fromkeys(GRAPH_METRICS, graphs)
    return dict(zip(GRAPH_METRICS, (exact(graphs.breaks), exact(graphs.recompiles)), strict=True))
