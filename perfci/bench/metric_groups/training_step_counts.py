"""Exact counts of one training step: no GPU is needed and every process gives equal numbers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from perfci.bench.bound_model_hooks import BoundModelHooks
from perfci.bench.call_counts import COUNT_METRICS, count_call
from perfci.bench.call_counts.compilation_counts import count_breaks_and_recompiles
from perfci.bench.metric_groups.training_loop import TrainingLoop
from perfci.bench.readings import Absent, Measurement, Reading, exact

GRAPH_METRICS = ("graph_breaks", "recompiles")
METRICS = tuple(
    metric for metric in COUNT_METRICS if metric.name not in ("kv_cache_bytes", "generated_kernels")
)


def measure(hooks: BoundModelHooks) -> Measurement:
    """Count the second step: the first allocates the optimizer's state."""
    training = TrainingLoop(hooks)
    training.check_first_loss()
    training.step_until_updated()

    def train_two_steps() -> None:
        rebuilt = TrainingLoop(hooks)
        rebuilt.step()
        rebuilt.step()

    counted = count_call(
        training.step,
        rebuild=train_two_steps,
        parameters=training.model.parameters(),
        optimizer=_optimizer_states(training.optimizer),
        device=hooks.device,
    ).readings()
    readings = counted | _graph_readings(hooks, training)
    return Measurement({metric.name: readings[metric.name] for metric in METRICS})


def _optimizer_states(optimizers: Any) -> Any:
    """The states of all optimizers that a hook returned, as those of one."""
    states = [leaf.state for leaf in tree_leaves(optimizers) if isinstance(leaf, torch.optim.Optimizer)]
    return SimpleNamespace(state=dict(enumerate(states))) if states else None


def _graph_readings(hooks: BoundModelHooks, training: TrainingLoop) -> dict[str, Reading | Absent]:
    """Count what ``torch.compile`` makes of the loss. Autocast is entered outside, so that it is not
    traced.
    """
    loss = hooks.loss
    if loss is None:
        return dict.fromkeys(GRAPH_METRICS, Absent("it defines no loss, which is what dynamo would read"))
    model, batch = training.model, training.next_resident_batch()
    with hooks.autocast():
        graphs = count_breaks_and_recompiles(lambda: loss(model, batch))
    if isinstance(graphs, Absent):
        return dict.fromkeys(GRAPH_METRICS, graphs)
    return dict(zip(GRAPH_METRICS, (exact(graphs.breaks), exact(graphs.recompiles)), strict=True))
