"""Cells of the distributed suite in a process of one thread, as perfci runs them; prints their reports."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch._dynamo  # the ranks inherit what they would all import
import torch.distributed.fsdp
import torch.distributed.optim

from benchmarks import distributed, parallel_strategies, ring_attention
from benchmarks.workload_sizes import PARALLEL


def outcome(measure: Callable[..., dict[str, Any]], *parameters: object) -> Any:
    try:
        report = measure(*parameters, "smoke")
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return {
        row["name"]: row["samples"] if row["status"] == "ok" else row["reason"] for row in report["metrics"]
    }


def unsynchronised() -> Any:
    """Ranks that train alone and never exchange their gradients."""
    strategies = dict(parallel_strategies.STRATEGIES)
    parallel_strategies.STRATEGIES["ddp"] = parallel_strategies.single_process
    try:
        return outcome(distributed.DataParallel().measure_training, "ddp", "weak", 2)
    finally:
        parallel_strategies.STRATEGIES.update(strategies)


def unweighted() -> Any:
    """A ring that takes the mean of two parts instead of weighing them."""
    original_merge = ring_attention.merge_attention
    ring_attention.merge_attention = lambda mixed, weight, part, part_weight: (
        original_merge(mixed, None, part, part_weight)
        if weight is None
        else ((mixed + part) / 2, part_weight)
    )
    try:
        return outcome(distributed.RingAttention().measure_ring, "ring", 2, PARALLEL.lengths[0])
    finally:
        ring_attention.merge_attention = original_merge


def parameter_bytes() -> dict[str, int]:
    model = parallel_strategies.GPT(parallel_strategies.PARALLEL.model)
    whole = sum(parameter.nbytes for parameter in model.parameters())
    return {"whole": whole, "blocks": sum(parameter.nbytes for parameter in model.blocks.parameters())}


if __name__ == "__main__":
    torch.set_num_threads(1)
    tiny = replace(PARALLEL.model, layers=1, width=64, vocab=256, length=16)
    quick = replace(PARALLEL, model=tiny, parity_steps=2, timing={"warmup_s": 0.01, "budget_s": 0.02})
    distributed.PARALLEL = parallel_strategies.PARALLEL = quick
    training = distributed.DataParallel().measure_training
    scenes = {
        "parameter_bytes": parameter_bytes(),
        "ddp": outcome(training, "ddp", "weak", 2),
        "zero1": outcome(training, "zero1", "weak", 2),
        "fsdp2": outcome(training, "fsdp2", "strong", 2),
        "unsynchronised": unsynchronised(),
        "ring": outcome(distributed.RingAttention().measure_ring, "ring", 2, PARALLEL.lengths[0]),
        "unweighted": unweighted(),
        "all_reduce": outcome(distributed.AllReduce().measure_all_reduce, 1 << 16, 2),
    }
    json.dump(scenes, sys.stdout)
