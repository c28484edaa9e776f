"""Measure what several processes of torch.distributed do together on one machine: the slowest rank counts."""

from __future__ import annotations

import functools
import math
import os
import socket
import tempfile
from collections.abc import Callable
from datetime import timedelta
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

from perfci.bench.devices.torch_devices import Device, this_device
from perfci.bench.processes.run_in_child_processes import (
    ChildProcess,
    fork_child,
    fork_unsafe_reason,
    kill_children_on_exit,
    spawn_child,
    wait_for_results,
)
from perfci.bench.timers.timed_blocks import BLOCK_S, Timing, gc_disabled, relative_half_width
from perfci.bench.timers.warmup import (
    default_warmup_s,
    describe_time_drift,
    may_warm_up_further,
    rounds_to_compare,
)

if TYPE_CHECKING:
    from torch import Tensor

BACKENDS = {
    "cpu": "gloo",
    "cuda": "cpu:gloo,cuda:nccl",
    "rocm": "cpu:gloo,cuda:nccl",
    "xpu": "cpu:gloo,xpu:xccl",
}
"""Backend of torch.distributed by device kind; timings are exchanged through gloo."""


def missing_ranks_reason(world_size: int, device: Device | None = None) -> str:
    """Say why so many ranks cannot be measured on this machine, or nothing.

    Ranks that share a core or a GPU measure how they contend for it and not how the work scales.
    """
    import torch

    device = device or this_device()
    if not torch.distributed.is_available() or device.kind not in BACKENDS:
        return f"this torch has no torch.distributed for {device.kind}"
    if device.kind == "cpu":
        places, what = os.cpu_count() or 1, "core"
        if hasattr(os, "sched_getaffinity"):  # not on macOS
            places = len(os.sched_getaffinity(0))
    else:
        # These ask NVML. torch.accelerator would ask the driver, after which a fork cannot start CUDA.
        backend = torch.xpu if device.kind == "xpu" else torch.cuda
        places, what = backend.device_count(), "GPU"
    if world_size > places:
        return f"{world_size} ranks need a {what} each, and this machine has {places}"
    return ""


def run_ranks(
    function: Callable[..., Any], world_size: int, *arguments: Any, timeout_s: float = 60.0
) -> list[Any]:
    """Call ``function(rank, *arguments)`` in ``world_size`` processes of one group; return all results.

    Ranks are forked where this process is fit for it (one thread, CUDA untouched), else started from
    nothing: then the function and the arguments must be picklable. On a CPU each computes on one thread and
    stays on a core of its own. They meet through a file and talk over the loopback interface. One of them
    failing, or the timeout (seconds, of the whole run), ends them all; the exception names the rank.

    Raises ChildFailed, ChildOutOfMemory, TimeoutError.
    """
    children: list[ChildProcess] = []
    with tempfile.TemporaryDirectory(prefix="perfci-ranks-") as folder, kill_children_on_exit(children):
        start = spawn_child if fork_unsafe_reason() else fork_child
        for rank in range(world_size):
            work = functools.partial(
                _run_rank, function, arguments, rank, world_size, os.path.join(folder, "store"), timeout_s
            )
            children.append(start(f"rank {rank} of {world_size}", work))
        return wait_for_results(children, timeout_s)


def _run_rank(
    function: Callable[..., Any],
    arguments: Any,
    rank: int,
    world_size: int,
    store_path: str,
    timeout_s: float,
) -> Any:
    import torch
    import torch.distributed as dist

    device = this_device()
    for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        os.putenv(variable, loopback_interface())  # read by the libraries themselves
    if device.kind == "cpu":
        torch.set_num_threads(1)
        _pin_to_core(rank, world_size)
    else:
        torch.accelerator.set_device_index(rank)
    dist.init_process_group(
        BACKENDS[device.kind],
        store=dist.FileStore(store_path, world_size),
        rank=rank,
        world_size=world_size,
        # Later than ours: whoever waits for a lost rank is ended with it, and not blamed.
        timeout=timedelta(seconds=timeout_s + 60),
    )
    value = function(rank, *arguments)
    # A barrier: nobody leaves while another still talks. Who fails keeps its connections until it said so.
    max_over_ranks(0.0)
    dist.destroy_process_group()
    return value


def _pin_to_core(rank: int, world_size: int) -> None:
    """Keep this process, and the threads it starts, on one core, where there is one for every rank.

    All wait for the last one: a step of two ranks took 15 to 25 % longer where the scheduler could put both
    on one core for a moment.
    """
    if not hasattr(os, "sched_setaffinity"):  # macOS
        return
    cores = sorted(os.sched_getaffinity(0))
    if world_size <= len(cores):
        os.sched_setaffinity(0, {cores[rank]})


def loopback_interface() -> str:
    return next((name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo")


def max_over_ranks(*values: float) -> tuple[float, ...]:
    """Largest of each value over all ranks, by an all-reduce, which is a barrier as well."""
    import torch
    import torch.distributed as dist

    together: Tensor = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(together, op=dist.ReduceOp.MAX)
    return tuple(together.tolist())


def time_ranks(
    step: Callable[[], object],
    *,
    device: Device | None = None,
    number: int | None = None,
    min_blocks: int = 7,
    max_blocks: int = 50,
    warmup_s: float | None = None,
    budget_s: float = 2.0,
    target: float = 0.0125,
) -> Timing:
    """Time blocks of steps that all ranks take together; call it on every rank, all get the same ``Timing``.

    The same blocks, stops and clocks as ``time_blocks``, but a block begins once every rank is ready, and
    its sample is the slowest rank's by each clock: a step ends when its last rank ends. Each rank reads its
    own CPU clock, where waiting for another rank costs nothing over gloo. Since every rank sees the same
    samples, all stop after the same block: ranks that decided alone would leave each other waiting.
    """
    device = device or this_device()
    blocks: list[tuple[float, ...]] = []
    spent_s = 0.0
    with gc_disabled() as collect:
        cap_s = default_warmup_s(device) if warmup_s is None else warmup_s
        call_s, calls, unsettled = _warm_up_ranks(step, device, cap_s)
        number = number or max(1, math.ceil(BLOCK_S / max(call_s, 1e-9)))
        while len(blocks) < max_blocks and not (blocks and spent_s >= budget_s):
            collect()
            blocks.append(_time_block(step, number, device))
            spent_s += blocks[-1][0] * number
            judged = [block[2] or block[1] for block in blocks]
            if len(blocks) >= min_blocks and relative_half_width(judged) <= target:
                break
    return Timing(
        wall=tuple(wall for wall, _, _ in blocks),
        cpu=tuple(cpu for _, cpu, _ in blocks),
        device=tuple(seconds for _, _, seconds in blocks if device.kind != "cpu"),
        number=number,
        warmup_calls=calls,
        is_settled=not unsettled,
        flags=(f"unsettled: {unsettled}",) if unsettled else (),
    )


time_ranks.skip_benchmark = True  # type: ignore[attr-defined]  # asv takes any time_* that a suite imports for its own


def _warm_up_ranks(step: Callable[[], object], device: Device, cap_s: float) -> tuple[float, int, str]:
    seconds: list[float] = []
    spent_s, wall_s, unsettled = 0.0, 0.0, "no call was made"
    while unsettled and may_warm_up_further(len(seconds), spent_s, cap_s, wall_s):
        wall_s, cpu_s, _ = _time_block(step, 1, device)
        spent_s += wall_s
        seconds.append(cpu_s if device.kind == "cpu" else wall_s)
        unsettled = describe_time_drift(seconds, rounds_to_compare(wall_s))
    return wall_s, len(seconds), unsettled


def _time_block(step: Callable[[], object], number: int, device: Device) -> tuple[float, ...]:
    """Seconds per step by wall, CPU and device clock (zero without one), each of the slowest rank."""
    markers = device.create_event_pair()
    max_over_ranks(0.0)
    if markers:
        markers[0].record()
    wall_s, cpu_s = perf_counter(), process_time()
    for _ in range(number):
        step()
    if markers:
        markers[1].record()
    device.synchronize()
    cpu_s, wall_s = process_time() - cpu_s, perf_counter() - wall_s
    device_s = markers[0].elapsed_time(markers[1]) / 1000 if markers else 0.0
    return max_over_ranks(wall_s / number, cpu_s / number, device_s / number)
