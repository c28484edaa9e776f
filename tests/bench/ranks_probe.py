"""Ranks forked from a process of one thread, as perfci's cells fork them; prints what became of each
scene.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo  # the ranks inherit what they would all import
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional_collectives

from perfci.bench.processes import run_in_child_processes
from perfci.bench.processes.collective_counts_and_seconds import CommunicationCounter, communication_seconds
from perfci.bench.processes.distributed_ranks import fork_unsafe_reason, max_over_ranks, run_ranks, time_ranks


def ranks_and_sums(rank: int, offset: float) -> tuple[int, float]:
    summed = torch.tensor([rank + offset])
    dist.all_reduce(summed)
    return rank, float(summed)


def cores_of(rank: int) -> list[int]:
    return sorted(os.sched_getaffinity(0))


def slowest_of_both(rank: int) -> tuple[float, ...]:
    return max_over_ranks(float(rank), float(-rank))


def steps_together(rank: int) -> tuple[int, object]:
    """A rank that is ten times slower than the other one; every step needs both."""
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1
        time.sleep(0.002 * rank)
        dist.all_reduce(torch.zeros(1))

    timing = time_ranks(step, warmup_s=0.02, budget_s=0.1, target=0.0)
    return steps, (timing.wall, timing.cpu, timing.device, timing.number, timing.warmup_calls)


def fails(rank: int) -> None:
    if rank == 1:
        raise ValueError("this rank has a bug")
    dist.barrier()


def crashes(rank: int) -> None:
    if rank == 1:
        os.abort()
    dist.barrier()


def hangs(rank: int) -> None:
    if rank == 1:
        time.sleep(600)
    dist.barrier()


def says(rank: int) -> dict[str, tuple[int, int]]:
    """What each kind of message counts for, of tensors of ten floats; 20 where one is for both ranks."""
    item, both = torch.zeros(10), torch.zeros(20)
    other = 1 - rank
    scenes: dict[str, Callable[[], object]] = {
        "all_reduce": lambda: dist.all_reduce(item),
        "broadcast": lambda: dist.broadcast(item, 0),
        "functional_broadcast": lambda: functional_collectives.broadcast(item, 0, dist.group.WORLD).sum(),
        "all_gather": lambda: dist.all_gather_into_tensor(both, item),
        "all_gather_list": lambda: dist.all_gather([item.clone(), item.clone()], item),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(item, both),
        "barrier": dist.barrier,
        "exchange": lambda: [
            work.wait()
            for work in dist.batch_isend_irecv(
                [dist.P2POp(dist.isend, item, other), dist.P2POp(dist.irecv, torch.zeros(10), other)]
            )
        ],
    }
    counted = {}
    for name, scene in scenes.items():
        with CommunicationCounter() as counter:
            scene()
        counted[name] = (counter.operations, counter.sent_bytes)
    return counted


def talks_and_is_silent(rank: int) -> tuple[float, float]:
    return communication_seconds(lambda: dist.all_reduce(torch.zeros(1000))), communication_seconds(
        lambda: None
    )


def outcome(function: Callable[..., Any], *arguments: Any, timeout_s: float = 60.0) -> Any:
    try:
        return run_ranks(function, 2, *arguments, timeout_s=timeout_s)
    except Exception as error:
        return [type(error).__name__, str(error)]


def left() -> list[str]:
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return file.read().split()


if __name__ == "__main__":
    torch.set_num_threads(1)
    run_in_child_processes.FAILURE_GRACE_S = (
        60.0  # a machine that is busy lets a rank wait before it can tell of itself
    )
    scenes = {
        "why_not_fork": fork_unsafe_reason(),
        "results": outcome(ranks_and_sums, 0.5),
        "slowest": outcome(slowest_of_both),
        "cores": run_ranks(cores_of, 2),
        "cores_afterwards": sorted(os.sched_getaffinity(0)),
        "together": outcome(steps_together),
        "says": outcome(says),
        "talks": outcome(talks_and_is_silent),
        "fails": outcome(fails),
        "crashes": outcome(crashes),
        "hangs": outcome(hangs, timeout_s=8.0),
        "left": left(),
    }
    json.dump(scenes, sys.stdout)
