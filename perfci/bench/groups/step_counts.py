"""What a training step does, counted exactly: no GPU is needed and every process gives the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from perfci.bench.proxies import PROXY_METRICS, count
from perfci.bench.readings import Measured
from perfci.bench.training import Training

if TYPE_CHECKING:
    from perfci.bench.model_bench import ModelBench

METRICS = tuple(metric for metric in PROXY_METRICS if metric.name != "kv_cache_bytes")


def measure(bench: ModelBench, p: Mapping[str, Any]) -> Measured:
    """Count the second step: the first makes the optimizer's state. ``p`` are the parameters of the cell."""
    training = Training(bench, p)
    training.check()
    training.step()
    proxies = count(
        training.step,
        whole=lambda: _two_steps(bench, p),
        traced=lambda: training.loss(training.next_batch()),
        parameters=training.model.parameters(),
        optimizer=training.optimizer,
    )
    readings = proxies.readings()
    return Measured({metric.name: readings[metric.name] for metric in METRICS})


def _two_steps(bench: ModelBench, p: Mapping[str, Any]) -> None:
    training = Training(bench, p)
    training.step()
    training.step()
