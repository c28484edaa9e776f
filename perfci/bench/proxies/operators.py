"""Watch the ATen operators of a call below autograd: how many, which make the host wait, which convert or copy."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

HOST = "cpu"


class Operators(TorchDispatchMode):  # type: ignore[misc]
    """Counts while it is entered.

    ``operators`` are all ATen operators but those that have a count of their own here: a value that the host reads, an
    explicit conversion to a wider floating type, a copy to another device.
    """

    def __init__(self) -> None:
        super().__init__()
        self.operators = 0
        self.host_syncs = 0
        self.upcast_bytes = 0
        self.copied_to_device_bytes = 0
        self.pageable_copy_bytes = 0
        self.blocking_copy_bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        given, made = tensors((args, kwargs)), tensors(result)
        widened = sum(bytes_of(tensor) for tensor in made if widens(tensor, given))
        crossing = crossing_of(func, args, kwargs, result)
        reads = waits_for_a_value(func, given)
        self.upcast_bytes += widened
        self.host_syncs += reads
        if crossing is not None:
            self._crossed(*crossing)
        elif not (reads and not made) and not (widened and func._overloadpacket is torch.ops.aten._to_copy):
            self.operators += 1
        return result

    def _crossed(self, source: Any, target: Any, non_blocking: bool) -> None:
        if target.device.type == HOST:
            self.host_syncs += not non_blocking
            return
        self.copied_to_device_bytes += bytes_of(target)
        if not source.is_pinned():
            self.pageable_copy_bytes += bytes_of(target)
        elif not non_blocking:
            self.blocking_copy_bytes += bytes_of(target)


def tensors(tree: Any) -> list[Any]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def bytes_of(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())


def widens(made: Any, given: list[Any]) -> bool:
    """Whether a result is new and floats wider than the narrowest that was read."""
    floats = [tensor.element_size() for tensor in given if tensor.is_floating_point()]
    return bool(
        made.is_floating_point()
        and floats
        and made.element_size() > min(floats)
        and not any(made is tensor for tensor in given)
    )


def waits_for_a_value(func: Any, given: list[Any]) -> bool:
    """Whether the host needs the values, not only the shapes, of what it gives: torch's tags say which operators."""
    if func is torch.ops.aten.index.Tensor:
        return any(tensor.dtype in (torch.bool, torch.uint8) for tensor in given[1:])
    return torch.Tag.data_dependent_output in func.tags or torch.Tag.dynamic_output_shape in func.tags


def crossing_of(func: Any, args: Any, kwargs: Any, result: Any) -> tuple[Any, Any, bool] | None:
    """Give source, target and whether the host goes on meanwhile, of a copy from one kind of device to another."""
    packet = func._overloadpacket
    if packet is torch.ops.aten._to_copy:
        source, target, non_blocking = args[0], result, kwargs.get("non_blocking", False)
    elif packet is torch.ops.aten.copy_:
        source, target = args[1], args[0]
        non_blocking = args[2] if len(args) > 2 else kwargs.get("non_blocking", False)
    else:
        return None
    return (source, target, bool(non_blocking)) if source.device.type != target.device.type else None
