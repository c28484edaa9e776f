"""Count and time the collectives of a step of torch.distributed: operations, bytes and seconds."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _resolve_process_group
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from perfci.bench.devices.torch_devices import Device, this_device

NAMESPACES = ("c10d", "_c10d_functional")  # the latter are those that DTensor, FSDP2 and compiled code call
NO_PAYLOAD = ("wait_tensor", "_wrap_tensor_autograd", "barrier", "monitored_barrier_")  # they move nothing
DEVICE_EVENT = re.compile(r"[nr]ccl\w*Kernel")  # NCCL, and RCCL on AMD GPUs
HOST_EVENT = re.compile(r"gloo:")


class CommunicationCounter(TorchDispatchMode):  # type: ignore[misc]
    """While it is entered, counts what this rank hands over; both counts repeat exactly.

    ``operations``: collectives and single sends or receives. ``sent_bytes``: the tensors that this rank
    puts into them, once each, whatever the algorithm then makes of them on the wire: the input of an
    all-gather is its own shard, that of a reduce-scatter the whole, and a receive puts in nothing, nor does
    who is not the source of a broadcast.
    """

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0
        self.sent_bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.partition("::")[2]
        if func.namespace in NAMESPACES and name not in NO_PAYLOAD:
            self.operations += 1
            self.sent_bytes += _sent_bytes(func, args) if _sends(name, func, args) else 0
        return func(*args, **(kwargs or {}))


def _sends(name: str, func: Any, args: Any) -> bool:
    """Whether this rank sends what it hands over; of a broadcast, only its source does."""
    if not name.startswith("broadcast"):
        return not name.startswith("recv")
    arguments = dict(zip((argument.name for argument in func._schema.arguments), args, strict=False))
    if "group_name" in arguments:  # of _c10d_functional
        return bool(_resolve_process_group(arguments["group_name"]).rank() == arguments["src"])
    return bool(dist.ProcessGroup.unbox(arguments["process_group"]).rank() == arguments["root_rank"])


def _sent_bytes(func: Any, args: Any) -> int:
    """Bytes in the argument that is sent: the one called input, where results have one of their own."""
    named = [
        value
        for declared, value in zip(func._schema.arguments, args, strict=False)
        if "input" in declared.name
    ]
    sent = named[0] if named else args[0]
    return sum(leaf.nbytes for leaf in tree_leaves(sent) if isinstance(leaf, torch.Tensor))


def communication_seconds(step: Callable[[], object], device: Device | None = None) -> float:
    """Profile one step and add up how long its collectives took, overlapped with computing or not.

    On a GPU these are NCCL's kernels; over gloo, the spans of its worker threads. Both contain waiting for
    a rank that comes later. A pass of its own: nothing is timed under the profiler.
    """
    from torch.profiler import ProfilerActivity, profile

    device = device or this_device()
    activities = [ProfilerActivity.CPU]
    if device.kind in ("cuda", "rocm"):
        activities.append(ProfilerActivity.CUDA)
    pattern = HOST_EVENT if device.kind == "cpu" else DEVICE_EVENT
    with profile(activities=activities) as profiled:
        step()
        device.synchronize()
    spans = [event.time_range.elapsed_us() for event in profiled.events() if pattern.match(event.name)]
    return float(sum(spans)) / 1e6
