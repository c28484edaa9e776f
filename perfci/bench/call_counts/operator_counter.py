"""Count the ATen operators of a call by a dispatch mode: all, synchronising ones, conversions and copies."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from weakref import WeakSet

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from perfci.bench.optimizer_steps import observe_optimizer_steps

HOST = "cpu"
aten = torch.ops.aten
SCALED_PRODUCTS = (aten._scaled_mm,)
"""Products of eight-bit numbers are wider than their factors: that is no conversion."""


class OperatorCounter(TorchDispatchMode):  # type: ignore[misc]
    """Dispatch mode that counts operators while it is entered.

    ``operators`` are all ATen operators that make or change a tensor, but those that have a count of their
    own here: an explicit conversion to a wider floating type, a copy to or from another device, pinning.

    Where torch sees no accelerator memory cannot be pinned. There it is only noted which tensors would be.
    """

    def __init__(self) -> None:
        super().__init__()
        self.operators = 0
        self.upcast_bytes = 0
        self.copied_to_device_bytes = 0
        self.pageable_copy_bytes = 0
        self.blocking_copy_bytes = 0
        self._read_counts = {True: 0, False: 0}  # by whether the host holds what is read
        self._used_device = False
        self._pinned: WeakSet[Any] = WeakSet()
        self._step_counters: WeakSet[Any] = WeakSet()
        self._observations: list[AbstractContextManager[None]] = []

    def __enter__(self) -> Any:
        self._observations.append(observe_optimizer_steps(self._note_step_counters))
        self._observations[-1].__enter__()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._observations.pop().__exit__(None, None, None)

    @property
    def host_syncs(self) -> int:
        """How often the host needs a value or a size that a device has yet to compute.

        Where the call uses an accelerator, reading what is on the host does not wait. Where it uses none,
        every read counts, as it would if all of it ran on one; but for the steps that torch's optimizers
        count, which stay on the host, and for ``tolist()`` and ``numpy()``, which read the host's memory
        without an operator, and are seen where a device has to copy first.
        """
        return self._read_counts[False] if self._used_device else self._read_counts[True]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        # Pinning raises where torch sees no accelerator, and the call could not be counted there.
        if func is aten._pin_memory.default and not torch.accelerator.is_available():
            return self._record_pinned(args[0].clone())
        result = func(*args, **kwargs)
        inputs, outputs = list_tensors((args, kwargs)), list_tensors(result)
        self._used_device |= any(tensor.device.type != HOST for tensor in (*inputs, *outputs))
        crossing = find_device_copy(func, args, kwargs, result)
        reads = needs_host_values(func, inputs, kwargs)
        widened = upcast_bytes(func, inputs, result)
        self.upcast_bytes += widened
        if reads:
            self._record_read(inputs[0])
        if crossing is not None:
            self._record_copy(*crossing)
        elif (outputs or func._schema.is_mutable) and not (widened and func._overloadpacket is aten._to_copy):
            self.operators += 1
        return result

    def _record_pinned(self, tensor: Any) -> Any:
        self._pinned.add(tensor.untyped_storage())
        return tensor

    def _note_step_counters(self, optimizer: Any) -> None:
        """Note the tensors that count steps, which only ``fused`` and ``capturable`` keep on a device."""
        for group in optimizer.param_groups:
            if not group.get("fused") and not group.get("capturable"):
                counters = (optimizer.state.get(weight, {}).get("step") for weight in group["params"])
                self._step_counters.update(
                    counter.untyped_storage() for counter in counters if isinstance(counter, torch.Tensor)
                )

    def _record_read(self, source: Any) -> None:
        if source.untyped_storage() not in self._step_counters:
            self._read_counts[source.device.type == HOST] += 1

    def _record_copy(self, source: Any, target: Any, non_blocking: bool) -> None:
        if target.device.type == HOST:
            self._read_counts[False] += not non_blocking
            return
        size = tensor_nbytes(target)
        self.copied_to_device_bytes += size
        if not self._is_pinned(source):
            self.pageable_copy_bytes += size
        elif not non_blocking:
            self.blocking_copy_bytes += size

    def _is_pinned(self, tensor: Any) -> bool:
        return tensor.untyped_storage() in self._pinned or bool(tensor.is_pinned())


def list_tensors(tree: Any) -> list[Any]:
    """List the tensors in nested arguments or results."""
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def tensor_nbytes(tensor: Any) -> int:
    """Bytes of the elements of a tensor, whatever its storage holds beside them."""
    return int(tensor.numel() * tensor.element_size())


def needs_host_values(func: Any, inputs: list[Any], kwargs: Any) -> bool:
    """Whether the host needs values, not only shapes, before it can go on, by torch's operator tags."""
    if func is aten.index.Tensor:  # a mask selects as many entries as it holds true values
        return any(tensor.dtype in (torch.bool, torch.uint8) for tensor in inputs[1:])
    if kwargs.get("output_size") is not None:  # of repeat_interleave
        return False
    return torch.Tag.data_dependent_output in func.tags or torch.Tag.dynamic_output_shape in func.tags


def upcast_bytes(func: Any, inputs: list[Any], result: Any) -> int:
    """Bytes that are new and float wider than the narrowest that was read.

    Statistics that a kernel keeps beside its result (the second and further of a tuple) may be wider.
    """
    floats = [tensor.element_size() for tensor in inputs if tensor.is_floating_point()]
    if not floats or func.is_view or func._overloadpacket in SCALED_PRODUCTS:
        return 0
    outputs = list_tensors(result[:1] if isinstance(result, tuple) else result)
    narrowest = min(floats)
    wider = [t for t in outputs if t.is_floating_point() and t.element_size() > narrowest]
    # An operator that writes in place, or into out=, returns a tensor that it was given.
    return sum(tensor_nbytes(tensor) for tensor in wider if all(tensor is not source for source in inputs))


def find_device_copy(func: Any, args: Any, kwargs: Any, result: Any) -> tuple[Any, Any, bool] | None:
    """Source, target and non-blocking flag of a copy between kinds of device; None for any other operator."""
    if func._overloadpacket is aten._to_copy:
        source, target = args[0], result
        non_blocking = kwargs.get("non_blocking", False)
    elif func._overloadpacket is aten.copy_:
        target, source = args[:2]
        non_blocking = args[2] if len(args) > 2 else kwargs.get("non_blocking", False)
    else:
        return None
    return (source, target, bool(non_blocking)) if source.device.type != target.device.type else None
